"""Large values under the hash of their content."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from amplifier_kit.log.blobs import BlobError, BlobStore, share_folder
from amplifier_kit.log.record import encode

TEXT = "x" * 5000


def test_put_and_get(tmp_path: Path) -> None:
    """A value comes back, and its file has the JSON of it and the hash of that as its name."""
    store = BlobStore(tmp_path / "blobs")
    reference = store.put(TEXT, encode(TEXT))
    name = hashlib.sha256(encode(TEXT)).hexdigest()
    assert reference == {"$blob": f"sha256:{name}", "bytes": 5002, "preview": "x" * 200}
    assert (tmp_path / "blobs" / name[:2] / name).read_bytes() == encode(TEXT)
    assert store.get(reference["$blob"]) == TEXT


def test_the_preview_of_a_container_is_its_json(tmp_path: Path) -> None:
    """Containers are previewed as JSON, cut between characters."""
    value = ["ü" * 3000]
    preview = BlobStore(tmp_path).put(value, encode(value))["preview"]
    assert preview == '["' + "ü" * 198


def test_files_are_private(tmp_path: Path) -> None:
    """Blobs are readable by their owner only."""
    store = BlobStore(tmp_path / "blobs")
    path = store.path(store.put(TEXT, encode(TEXT))["$blob"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_same_value_is_written_once(tmp_path: Path) -> None:
    """A second put leaves the file alone, in this store and in another one on the same folder."""
    first = BlobStore(tmp_path)
    path = first.path(first.put(TEXT, encode(TEXT))["$blob"])
    before = path.stat().st_ino
    first.put(TEXT, encode(TEXT))
    BlobStore(tmp_path).put(TEXT, encode(TEXT))
    assert path.stat().st_ino == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_blob_cut_short_is_written_again(tmp_path: Path) -> None:
    """A file of the wrong size, as a power failure may leave it, is replaced."""
    store = BlobStore(tmp_path)
    path = store.path(store.put(TEXT, encode(TEXT))["$blob"])
    path.write_bytes(b"")
    reference = BlobStore(tmp_path).put(TEXT, encode(TEXT))
    assert store.get(reference["$blob"]) == TEXT


def test_a_damaged_blob_is_not_believed(tmp_path: Path) -> None:
    """Content that does not have the hash of its name is an error that names the file."""
    store = BlobStore(tmp_path)
    reference = store.put(TEXT, encode(TEXT))["$blob"]
    store.path(reference).write_bytes(encode("y" * 5000))
    with pytest.raises(BlobError, match=f"{store.path(reference)} is damaged"):
        store.get(reference)


def test_a_missing_blob_is_named(tmp_path: Path) -> None:
    """The error says which blob is missing and where it was looked for."""
    name = f"sha256:{'0' * 64}"
    with pytest.raises(BlobError, match=f"{name} is not in {tmp_path}"):
        BlobStore(tmp_path).get(name)


@pytest.mark.parametrize(
    "name", ["", "sha256:", "../../etc/passwd", "sha256:../../../etc/passwd", "sha256:" + "Z" * 64, "md5:" + "0" * 66]
)
def test_only_hashes_are_names(tmp_path: Path, name: str) -> None:
    """A log cannot make its reader open another file."""
    with pytest.raises(BlobError, match="does not name a blob"):
        BlobStore(tmp_path).get(name)


def test_nothing_is_left_behind_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob that cannot be written leaves neither its name nor a part of it."""

    def full(descriptor: int, content: object) -> int:
        raise OSError(28, "No space left on device")

    store = BlobStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            store.put(TEXT, encode(TEXT))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert store.get(store.put(TEXT, encode(TEXT))["$blob"]) == TEXT


def test_a_removed_session_stays_removed(tmp_path: Path) -> None:
    """Blobs make their own folder, never the session's: that one was removed on purpose."""
    with pytest.raises(FileNotFoundError):
        BlobStore(tmp_path / "gone" / "blobs").put(TEXT, encode(TEXT))
    assert not (tmp_path / "gone").exists()


def test_threads_may_store_the_same_value(tmp_path: Path) -> None:
    """Stores of several sessions on one folder, in several threads, do not disturb each other."""
    values = [f"{index}" * 5000 for index in range(5)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            store = BlobStore(tmp_path)
            for value in values * 5:
                assert store.get(store.put(value, encode(value))["$blob"]) == value
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len(values)


def test_unsynced_blobs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many blobs are written, they are forced to disk before too many are pending."""
    monkeypatch.setattr("amplifier_kit.log.blobs._UNSYNCED", 40)
    store = BlobStore(tmp_path)
    for index in range(150):
        store.put(index, encode(index))
    assert len(store._unsynced) < 40
    store.sync()
    assert store._unsynced == []


def test_sync_forces_contents_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every blob written since the last time, and every folder that names one, is forced to disk, once."""
    forced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        forced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    store = BlobStore(tmp_path)
    paths = [store.path(store.put(index, encode(index))["$blob"]) for index in range(12)]
    paths.pop(3).unlink()
    monkeypatch.setattr(os, "fsync", fsync)
    store.sync()
    store.sync()
    expected = {path.stat().st_ino for path in paths} | {path.parent.stat().st_ino for path in tmp_path.rglob("?" * 64)}
    assert expected <= set(forced)
    assert len(forced) == len(set(forced))


def test_a_child_shares_the_folder_of_its_root(tmp_path: Path) -> None:
    """A child's folder is a link to the root's, a grandchild's leads there too, and links can be moved along."""
    for name in ("root", "child", "grandchild"):
        (tmp_path / "sessions" / name).mkdir(parents=True)
    sessions = tmp_path / "sessions"
    share_folder(sessions / "child" / "blobs", sessions / "root" / "blobs")
    share_folder(sessions / "grandchild" / "blobs", sessions / "child" / "blobs")
    reference = BlobStore(sessions / "grandchild" / "blobs").put(TEXT, encode(TEXT))["$blob"]
    assert not (sessions / "root" / "blobs").is_symlink()
    assert BlobStore(sessions / "root" / "blobs").get(reference) == TEXT
    sessions.rename(tmp_path / "moved")
    assert BlobStore(tmp_path / "moved" / "child" / "blobs").get(reference) == TEXT


def test_a_child_without_its_root_keeps_blobs_of_its_own(tmp_path: Path) -> None:
    """A root that does not exist, or was removed since, does not keep the child from storing."""
    child = tmp_path / "child"
    child.mkdir()
    share_folder(child / "blobs", tmp_path / "nobody" / "blobs")
    assert not (child / "blobs").exists()
    (child / "blobs").symlink_to("../removed/blobs")
    store = BlobStore(child / "blobs")
    assert store.get(store.put(TEXT, encode(TEXT))["$blob"]) == TEXT
    assert not (child / "blobs").is_symlink()


def test_an_existing_folder_is_not_replaced(tmp_path: Path) -> None:
    """A child that has blobs already keeps them."""
    (tmp_path / "child" / "blobs").mkdir(parents=True)
    (tmp_path / "root").mkdir()
    share_folder(tmp_path / "child" / "blobs", tmp_path / "root" / "blobs")
    assert not (tmp_path / "child" / "blobs").is_symlink()
