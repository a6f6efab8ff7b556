"""The lock file: what it says, where it lies, and that a damaged one is never taken for none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.lock_file import BundleLock, LockError, differences, find_lock, lock_path
from amplifier_foundation.sources.fetched import Fetched, Pin

COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40
SHA, OTHER_SHA = "1" * 64, "2" * 64
URI = "git+https://example.invalid/repo@main"

_hex = "0123456789abcdef"
_pins = st.builds(Pin, st.none() | st.text(_hex, min_size=40, max_size=40), st.text(_hex, min_size=64, max_size=64))
_sources = st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), _pins, max_size=5)


def _written(path: Path, **changes: object) -> Path:
    document = {"version": 1, "bundle": "b", "sources": {URI: {"commit": COMMIT, "sha256": SHA}}} | changes
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return path


def test_the_file_has_exactly_the_documented_form(tmp_path: Path) -> None:
    """The lock is JSON with version, bundle and sorted sources, each with commit and sha256."""
    path = tmp_path / "bundle.lock"
    sources = {"https://b.invalid/x": Pin(None, OTHER_SHA), URI: Pin(COMMIT, SHA)}
    assert BundleLock(path, "mine", sources).write()
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == {
        "version": 1,
        "bundle": "mine",
        "sources": {
            URI: {"commit": COMMIT, "sha256": SHA},
            "https://b.invalid/x": {"commit": None, "sha256": OTHER_SHA},
        },
    }
    assert text.index(URI) < text.index("https://b.invalid/x")
    assert text.endswith("}\n")


@given(bundle=st.text(st.characters(codec="utf-8")), sources=_sources)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, bundle: str, sources: dict[str, Pin]
) -> None:
    """Any lock with at least one source survives the way to disk and back."""
    lock = BundleLock(tmp_path_factory.mktemp("lock") / "bundle.lock", bundle, sources)
    assert lock.write() == bool(sources)
    assert BundleLock.read(lock.path) == (lock if sources else None)


def test_an_unchanged_lock_is_not_written(tmp_path: Path) -> None:
    """A file that says the same is left alone, a file that says something else is replaced with its mode kept."""
    lock = BundleLock(tmp_path / "bundle.lock", "b", {URI: Pin(COMMIT, SHA)})
    assert lock.write()
    lock.path.chmod(0o640)
    written = lock.path.stat().st_ino
    assert not lock.write()
    assert lock.path.stat().st_ino == written
    assert BundleLock(lock.path, "b", {URI: Pin(OTHER_COMMIT, SHA)}).write()
    assert lock.path.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.lock"]


def test_a_bundle_without_fetched_sources_gets_no_file(tmp_path: Path) -> None:
    """No source, no lock; but one that is there loses what is not used any more."""
    lock = BundleLock(tmp_path / "bundle.lock", "b", {URI: Pin(COMMIT, SHA)})
    assert not BundleLock(lock.path, "b").write()
    assert not lock.path.exists()
    lock.write()
    assert BundleLock(lock.path, "b").write()
    assert BundleLock.read(lock.path) == BundleLock(lock.path, "b", {})


def test_no_file_is_no_lock(tmp_path: Path) -> None:
    """A bundle that was never prepared has no lock."""
    assert BundleLock.read(tmp_path / "bundle.lock") is None


def test_a_bom_and_crlf_are_fine(tmp_path: Path) -> None:
    """A lock that an editor has saved in its own way is still a lock."""
    path = _written(tmp_path / "bundle.lock")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert BundleLock.read(path) == BundleLock(path, "b", {URI: Pin(COMMIT, SHA)})


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        (b"{\n<<<<<<< HEAD\n}", 2, "malformed JSON"),
        (b"\xff\xfe", 1, "not a lock file"),
        (b"[]", 1, "must be a mapping"),
        (b'{\n"version": 2, "bundle": "b", "sources": {}}', 2, "newer version"),
        (b'{"version": true, "bundle": "b", "sources": {}}', 1, "'version' must be 1"),
        (b'{"version": 1,\n"bundel": "b", "sources": {}}', 2, "did you mean 'bundle'"),
        (b'{"version": 1,\n"bundle": 7, "sources": {}}', 2, "'bundle' must be text"),
        (b'{"version": 1, "bundle": "b",\n\n"sources": []}', 3, "'sources' must be a mapping"),
        (b'{"version": 1, "bundle": "b", "sources": {\n"u": 1}}', 2, "'sources.u' must be a mapping"),
        (
            b'{"version": 1, "bundle": "b", "sources": {\n"u": {"sha256": null}}}',
            2,
            "'sources.u.commit' must be null or 40 hex digits",
        ),
        (
            b'{"version": 1, "bundle": "b", "sources": {\n"u": {"commit": null, "sha256": "12"}}}',
            2,
            "'sources.u.sha256' must be 64 hex digits",
        ),
        (
            b'{"version": 1, "bundle": "b", "sources": {\n"u": {"commit": "HEAD", "sha256": "12"}}}',
            2,
            "'sources.u.commit' must be null or 40 hex digits",
        ),
        (b'{"version": 1, "bundle": "b", "sources": {\n"u": {"comit": null}}}', 2, "did you mean 'commit'"),
    ],
)
def test_a_damaged_lock_is_an_error_with_its_line(tmp_path: Path, content: bytes, line: int, said: str) -> None:
    """A lock that is not understood is never taken for no lock: the error names file, line and the way out."""
    path = tmp_path / "bundle.lock"
    path.write_bytes(content)
    with pytest.raises(LockError) as caught:
        BundleLock.read(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert said in str(caught.value)
    assert "delete it" in str(caught.value)
    assert caught.value.code == "lock_invalid"


def test_places_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    """A lock that cannot be read or written is an error that names the file."""
    (tmp_path / "file").touch()
    inside = BundleLock(tmp_path / "file" / "bundle.lock", "b", {URI: Pin(COMMIT, SHA)})
    with pytest.raises(LockError, match=r"file/bundle\.lock: cannot be"):
        inside.write()
    (tmp_path / "bundle.lock").mkdir()
    with pytest.raises(LockError, match=r"bundle\.lock: cannot be read"):
        BundleLock.read(tmp_path / "bundle.lock")


def test_only_fetched_sources_are_pinned(tmp_path: Path) -> None:
    """Local files are what they are; everything fetched is pinned, and what cannot be is an error."""
    lock = BundleLock(tmp_path / "bundle.lock", "b", {"old": Pin(None, SHA)})
    git = Fetched(URI, tmp_path, tmp_path, "git", COMMIT, SHA)
    local = Fetched("./x", tmp_path, tmp_path, "file", is_local=True)
    assert lock.with_sources({URI: git, "./x": local}).sources == {URI: Pin(COMMIT, SHA)}
    with pytest.raises(LockError, match="no content hash"):
        lock.with_sources({URI: Fetched(URI, tmp_path, tmp_path, "git", COMMIT)})


def test_the_lock_of_a_projects_bundle_lies_beside_it(tmp_path: Path) -> None:
    """A bundle inside the project, through links too, has its lock beside it, and two bundles never share one."""
    project, home = tmp_path / "my project", Home(tmp_path / "home")
    (project / ".amplifier" / "bundles").mkdir(parents=True)
    (tmp_path / "link").symlink_to(project)
    beside = project / "bundle.lock"
    assert lock_path(project / "bundle.md", "b", "u", home, project) == beside
    assert lock_path(tmp_path / "link" / "bundle.yaml", "b", "u", home, project) == beside
    assert lock_path(project / "bundle.md", "b", "u", home, tmp_path / "link") == beside
    bundles = project / ".amplifier" / "bundles"
    assert lock_path(bundles / "dev.yaml", "dev", "u", home, project) == bundles / "dev.bundle.lock"


def test_the_lock_of_any_other_bundle_lies_in_the_home(tmp_path: Path) -> None:
    """A bundle elsewhere has its lock below the home, told apart by its address."""
    project, home = tmp_path / "project", Home(tmp_path / "home")
    one, two = (lock_path(tmp_path / "x.md", "my/b", uri, home, project) for uri in ("u", "v"))
    assert one.parent == two.parent == home.locks
    # The first 16 digits of the SHA-256 of "u".
    assert one.name == "my-b-0bfe935e70c321c7.lock"
    assert one != two
    assert lock_path(None, "..", "u", home, project).name == "bundle-0bfe935e70c321c7.lock"


def test_a_lock_is_found_before_the_name_of_its_bundle_is_known(tmp_path: Path) -> None:
    """The address, or the place of a bundle in the project, is enough to find its lock; another's is not taken."""
    project, home = tmp_path / "project", Home(tmp_path / "home")
    assert find_lock(None, "u", home, project) is None
    for file, uri in ((None, "u"), (None, "v"), (project / "bundle.md", "w")):
        path = lock_path(file, "some-name", uri, home, project)
        assert find_lock(file, uri, home, project) is None
        assert BundleLock(path, "some-name", {URI: Pin(COMMIT, SHA)}).write()
        assert find_lock(file, uri, home, project) == path


def test_a_home_inside_the_project_is_still_the_users(tmp_path: Path) -> None:
    """Locks of what lies in the user's home go to the home's locks, even when the home is below the project."""
    home = Home(tmp_path / ".amplifier")
    found = lock_path(home.bundles / "dev.md", "dev", "u", home, tmp_path)
    assert found.parent == home.locks


def test_differences_are_readable(tmp_path: Path) -> None:
    """What came, went and changed is said line by line, and a commit whose content changed is called out."""
    path = tmp_path / "bundle.lock"
    old = BundleLock(path, "b", {"gone": Pin(None, SHA), "moved": Pin(COMMIT, SHA), "same": Pin(None, SHA)})
    new = BundleLock(
        path, "b", {"moved": Pin(OTHER_COMMIT, OTHER_SHA), "new": Pin(COMMIT, SHA), "same": Pin(None, SHA)}
    )
    assert differences(old, new) == [
        "gone: gone, was content 111111111111",
        "moved: commit aaaaaaaaaaaa, content 111111111111 became commit bbbbbbbbbbbb, content 222222222222",
        "new: new, commit aaaaaaaaaaaa, content 111111111111",
    ]
    assert differences(new, new) == []
    assert differences(None, old)[0] == "gone: new, content 111111111111"
    forged = BundleLock(path, "b", {"moved": Pin(COMMIT, OTHER_SHA)})
    assert (
        "the same commit with other content"
        in differences(BundleLock(path, "b", {"moved": Pin(COMMIT, SHA)}), forged)[0]
    )


def test_a_link_in_place_of_the_lock_is_replaced_not_followed(tmp_path: Path) -> None:
    """A project cannot have another file overwritten by putting a link where its lock goes."""
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    os.symlink(victim, tmp_path / "bundle.lock")
    assert BundleLock(tmp_path / "bundle.lock", "b", {URI: Pin(COMMIT, SHA)}).write()
    assert victim.read_text(encoding="utf-8") == "precious"
