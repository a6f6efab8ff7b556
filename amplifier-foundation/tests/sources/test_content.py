"""The hash of what a folder holds."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sources.content import META_NAME, content_hash

names = st.text("abé .-", min_size=1, max_size=3).filter(lambda name: name.strip(". ") != "")
trees = st.dictionaries(st.tuples(names, names), st.binary(max_size=4), max_size=5)


def build(root: Path, files: dict[tuple[str, str], bytes], *, reverse: bool = False) -> Path:
    for (folder, name), content in sorted(files.items(), reverse=reverse):
        (root / f"d{folder}").mkdir(parents=True, exist_ok=True)
        (root / f"d{folder}" / name).write_bytes(content)
    return root


@given(trees, trees)
def test_equal_hashes_mean_equal_content(
    one: dict[tuple[str, str], bytes], other: dict[tuple[str, str], bytes]
) -> None:
    """Two folders have the same hash exactly when they hold the same files, in whatever order they were made."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        is_same = content_hash(build(Path(first), one)) == content_hash(build(Path(second), other, reverse=True))

    assert is_same is (one == other)


@given(trees.filter(bool), st.data())
def test_every_name_and_every_byte_counts(files: dict[tuple[str, str], bytes], data: st.DataObject) -> None:
    """A folder in which one file has another name, another content or is missing has another hash."""
    key = data.draw(st.sampled_from(sorted(files)))
    rest = {other: content for other, content in files.items() if other != key}
    changed = data.draw(
        st.sampled_from([rest, rest | {(key[0], key[1] + "b"): files[key]}, rest | {key: files[key] + b"\n"}])
    )
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        is_same = content_hash(build(Path(first), files)) == content_hash(build(Path(second), changed))

    assert is_same is (files == changed)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"a")
    (folder / "sub" / "b.py").write_bytes(b"b")
    return folder


@pytest.mark.parametrize("name", [".git/config", "__pycache__/x.pyc", "sub/__pycache__/b.pyc", META_NAME, "empty/"])
def test_what_is_no_content_does_not_count(root: Path, name: str) -> None:
    """Git's data, compiled Python, the cache's record and empty folders leave the hash as it is."""
    before = content_hash(root)
    path = root / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")

    assert before == content_hash(root)


def test_the_executable_bit_counts_and_other_bits_do_not(root: Path) -> None:
    """A file that became a program is another content; who else may read it is not."""
    (root / "a.txt").chmod(0o644)
    before = content_hash(root)
    (root / "a.txt").chmod(0o600)
    assert before == content_hash(root)

    (root / "a.txt").chmod(0o755)
    assert before != content_hash(root)


def test_a_link_is_its_target_and_is_not_followed(root: Path) -> None:
    """A link counts as where it points to, so that it cannot be exchanged for a file, and loops do no harm."""
    os.symlink("a.txt", root / "link")
    os.symlink(".", root / "sub" / "loop")
    linked = content_hash(root)
    (root / "link").unlink()
    (root / "link").write_bytes(b"a.txt")
    assert linked != content_hash(root)

    (root / "link").unlink()
    os.symlink("sub/b.py", root / "link")
    assert linked != content_hash(root)


def test_a_pipe_is_not_read(root: Path) -> None:
    """Something that would make a reader wait for ever does not stop the hash."""
    before = content_hash(root)
    os.mkfifo(root / "pipe")

    assert before != content_hash(root)


def test_the_hash_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """The hash of a known content is a known one: lock files are shared."""
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "a.txt").chmod(0o644)

    assert content_hash(tmp_path) == "937083884d0945fc3421ac1c8d91b39e4a9be508b3456ed5b77bb32026ec0895"
