"""Places are reached as they truly are: links read one by one, nothing special about `/proc`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.files.place import FileError, reach

ROOT = Path("/")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose path has no links."""
    return tmp_path.resolve()


def _path(name: object, *, follow: bool = True) -> Path:
    with reach(str(name), follow=follow) as place:
        return place.path


def test_a_plain_path_is_itself(folder: Path) -> None:
    """A path without links is the path of its place, and what lies there is seen."""
    (folder / "a b.txt").write_text("x", encoding="utf-8")
    with reach(str(folder / "a b.txt")) as place:
        assert place.path == folder / "a b.txt"
        status = place.status()
    assert status is not None
    assert status.st_size == 1


@pytest.mark.parametrize("spelling", ["./a//./b", "x/../a/b", "a/b/", "a/../../{name}/a/b"])
def test_spellings_of_one_place(folder: Path, spelling: str) -> None:
    """Dots, double slashes and a slash at the end make no difference."""
    (folder / "a").mkdir()
    (folder / "x").mkdir()
    assert _path(f"{folder}/{spelling.format(name=folder.name)}") == folder / "a" / "b"


def test_dots_leave_the_true_folder(folder: Path) -> None:
    """`link/..` is the folder above the link's target, as the system has it."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "link").symlink_to("deep/er")
    assert _path(folder / "link" / ".." / "x") == folder / "deep" / "x"


def test_dots_do_not_climb_above_the_root() -> None:
    """Above the root is the root."""
    assert _path("/../../..") == ROOT


def test_links_are_followed(folder: Path) -> None:
    """Relative and absolute links, on the way and at the end, lead to where they say."""
    (folder / "real").mkdir()
    (folder / "one").symlink_to("real")
    (folder / "two").symlink_to(folder / "one")
    (folder / "real" / "end").symlink_to("../two/file")
    assert _path(folder / "two" / "end") == folder / "real" / "file"


def test_a_link_can_be_the_place(folder: Path) -> None:
    """Without following, a link at the end is the place itself; those on the way are followed all the same."""
    (folder / "real").mkdir()
    (folder / "way").symlink_to("real")
    (folder / "real" / "end").symlink_to("nowhere")
    assert _path(folder / "way" / "end", follow=False) == folder / "real" / "end"


def test_a_dangling_link_leads_to_what_is_not_there(folder: Path) -> None:
    """The place of a link to nothing is where its target would be."""
    (folder / "link").symlink_to("new/file")
    with reach(str(folder / "link")) as place:
        assert place.path == folder / "new" / "file"
        assert place.missing == ("new",)
        assert place.status() is None


def test_missing_folders_are_listed(folder: Path) -> None:
    """The folders that do not exist yet are listed, and the last one that exists is held open."""
    with reach(str(folder / "a" / "b" / "c")) as place:
        assert (place.missing, place.name) == (("a", "b"), "c")
        assert place.current_path() in (folder / "a" / "b" / "c", None)


def test_dots_after_a_missing_folder_are_refused(folder: Path) -> None:
    """`missing/..` exists for nobody: it must not become a way to somewhere else."""
    with pytest.raises(FileError) as caught:
        reach(f"{folder}/missing/../../etc")
    assert caught.value.code == "not_found"


@pytest.mark.parametrize("path", ["relative", "", "/a\0b", "/a\ud800"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """Relative paths, empty ones and those that no file can have are refused."""
    with pytest.raises(FileError) as caught:
        reach(path)
    assert caught.value.code == "invalid_path"


def test_too_long_names_are_refused(folder: Path) -> None:
    """A name that no file system takes is an error with a code, not an exception of the system."""
    for length in (300, 5000):
        with pytest.raises(FileError) as caught:
            reach(str(folder / ("x" * length)))
        assert caught.value.code == "invalid_path"
        assert len(caught.value.message) < 600


def test_links_in_a_circle_end(folder: Path) -> None:
    """A circle of links is refused."""
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    for path in (folder / "a", folder / "a" / "x"):
        with pytest.raises(FileError) as caught:
            reach(str(path))
        assert caught.value.code == "too_many_links"


def test_a_file_is_no_folder(folder: Path) -> None:
    """A path through a file is refused."""
    (folder / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileError) as caught:
        reach(str(folder / "file" / "x"))
    assert caught.value.code == "not_a_directory"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")
def test_links_of_proc_are_only_text(folder: Path) -> None:
    """`/proc/self/root`, `cwd` and `fd` lead where their text says, and the true path shows it."""
    (folder / "file").write_text("", encoding="utf-8")
    assert _path(f"/proc/self/root{folder}/file") == folder / "file"
    descriptor = os.open(folder / "file", os.O_RDONLY)
    try:
        assert _path(f"/proc/self/fd/{descriptor}") == folder / "file"
        assert _path(f"/dev/fd/{descriptor}") == folder / "file"
    finally:
        os.close(descriptor)


def test_the_held_folder_stays_the_same(folder: Path) -> None:
    """A folder that is renamed and replaced by a link after the walk is still the one that is held."""
    (folder / "a").mkdir()
    (folder / "a" / "file").write_text("mine", encoding="utf-8")
    (folder / "other").mkdir()
    (folder / "other" / "file").write_text("other file", encoding="utf-8")
    with reach(str(folder / "a" / "file")) as place:
        (folder / "a").rename(folder / "b")
        (folder / "a").symlink_to("other")
        status = place.status()
        assert status is not None
        assert status.st_size == 4
        assert place.current_path() in (folder / "b" / "file", None)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_no_descriptor_is_left(folder: Path) -> None:
    """Whatever a walk meets, it closes what it opened."""
    (folder / "a").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_text("", encoding="utf-8")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a/b/c", "loop", "file/x", "nothing/../x", "a/../a/..", "."):
        try:
            reach(f"{folder}/{name}").close()
        except FileError:
            continue
    assert len(os.listdir("/proc/self/fd")) <= before


NAMES = st.sampled_from(["a", "b", "c", "..", ".", "up", "abs", "self", "out"])


@given(parts=st.lists(NAMES, min_size=1, max_size=7))
def test_the_place_is_where_the_system_says(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    """Whatever mixture of names, dots and links: what exists is found where the system itself finds it."""
    folder = tmp_path_factory.getbasetemp().resolve() / "tree"
    if not folder.exists():
        (folder / "a" / "b" / "c").mkdir(parents=True)
        (folder / "c").mkdir()
        (folder / "a" / "up").symlink_to("..")
        (folder / "a" / "b" / "abs").symlink_to(folder / "c")
        (folder / "a" / "self").symlink_to(".")
        (folder / "c" / "out").symlink_to("../a/b")
    path = f"{folder}/{'/'.join(parts)}"
    try:
        expected = Path(path).resolve(strict=True)
    except FileNotFoundError:
        return
    assert _path(path) == expected
