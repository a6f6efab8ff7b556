"""Roots judge by the true path and by identity: denied beats allowed, and nothing widens them later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_kit.guard.files.place import FileError, Roots, reach


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose path has no links, with `project` and `outside` in it."""
    base = tmp_path.resolve()
    (base / "project").mkdir()
    (base / "outside").mkdir()
    return base


def _code(roots: Roots, path: object) -> str | None:
    with reach(str(path)) as place:
        try:
            roots.check(place, "written")
        except FileError as error:
            return error.code
    return None


def test_inside_and_outside(folder: Path) -> None:
    """Below an allowed folder is allowed, its neighbours are not, whatever their names begin with."""
    roots = Roots.resolved(["project"], [], folder)
    assert _code(roots, folder / "project" / "new" / "file") is None
    assert _code(roots, folder / "project") is None
    assert _code(roots, folder / "project-2") == "outside_allowed_paths"
    assert _code(roots, folder / "outside" / "file") == "outside_allowed_paths"
    assert _code(roots, f"{folder}/project/../outside/file") == "outside_allowed_paths"


def test_no_roots_allow_everything_but_the_system(folder: Path) -> None:
    """Without allowed folders everything may be used, except what is no file at all."""
    assert _code(Roots(), folder / "outside") is None
    for path in ("/proc/self/environ", "/proc/1/mem", "/sys/kernel", "/dev/fd/99999"):
        assert _code(Roots(), path) == "special_file"


def test_no_allowed_paths_allow_nothing(folder: Path) -> None:
    """An empty list is not the same as none."""
    assert _code(Roots.resolved([], [], folder), folder / "project") == "outside_allowed_paths"


def test_denied_beats_allowed(folder: Path) -> None:
    """A denied folder or file inside an allowed one is denied."""
    roots = Roots.resolved(["project"], ["project/secret", "project/one.txt"], folder)
    assert _code(roots, folder / "project" / "secret" / "x") == "denied_path"
    assert _code(roots, folder / "project" / "one.txt") == "denied_path"
    assert _code(roots, folder / "project" / "one.txt.bak") is None


def test_a_denied_file_is_known_by_other_names(folder: Path) -> None:
    """A hard link to a denied file is that file."""
    (folder / "project" / "one.txt").write_text("", encoding="utf-8")
    os.link(folder / "project" / "one.txt", folder / "project" / "two.txt")
    roots = Roots.resolved(["project"], ["project/one.txt"], folder)
    assert _code(roots, folder / "project" / "two.txt") == "denied_path"


def test_links_do_not_lead_out(folder: Path) -> None:
    """A link inside that leads outside is judged by where it leads."""
    (folder / "project" / "way").symlink_to("../outside")
    roots = Roots.resolved(["project"], [], folder)
    assert _code(roots, folder / "project" / "way" / "file") == "outside_allowed_paths"


def test_a_link_to_a_root_is_the_root(folder: Path) -> None:
    """An allowed folder that is given by a link means the link's target, as it was then."""
    (folder / "link").symlink_to("project")
    roots = Roots.resolved(["link"], [], folder)
    assert _code(roots, folder / "link" / "x") is None
    assert _code(roots, folder / "project" / "x") is None
    (folder / "link").unlink()
    (folder / "link").symlink_to("outside")
    assert _code(roots, folder / "link" / "x") == "outside_allowed_paths"


def test_a_root_that_becomes_a_link_is_not_widened(folder: Path) -> None:
    """Replacing an allowed folder by a link to another one allows nothing there."""
    roots = Roots.resolved(["project"], [], folder)
    (folder / "project").rmdir()
    (folder / "project").symlink_to("outside")
    assert _code(roots, folder / "project" / "x") == "outside_allowed_paths"


def test_a_root_that_did_not_exist_is_not_widened(folder: Path) -> None:
    """The same holds for an allowed folder that was not there yet."""
    roots = Roots.resolved(["later"], [], folder)
    (folder / "later").symlink_to("outside")
    assert _code(roots, folder / "later" / "x") == "outside_allowed_paths"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system cannot tell where an open folder lies")
def test_a_folder_that_was_moved_out_is_refused(folder: Path) -> None:
    """A folder that was inside when it was reached and lies outside now is outside."""
    (folder / "project" / "a").mkdir()
    roots = Roots.resolved(["project"], [], folder)
    with reach(str(folder / "project" / "a" / "x")) as place:
        roots.check(place, "written")
        (folder / "project" / "a").rename(folder / "outside" / "a")
        with pytest.raises(FileError):
            roots.check(place, "written")


def test_names_are_not_folded_where_the_system_does_not(folder: Path) -> None:
    """Other case and look-alike letters are other names, never those of an allowed folder."""
    roots = Roots.resolved(["project"], [], folder)
    for name in ("PROJECT", "pro\u0458ect", "project\u200b"):
        if not (folder / name).exists():
            assert _code(roots, folder / name / "x") == "outside_allowed_paths"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc here")
def test_a_second_proc_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system shows of itself is known by its device too, should it be mounted at another name."""
    monkeypatch.setattr("amplifier_kit.guard.files.place._SPECIAL", (Path("/proc/self"),))
    assert _code(Roots(), "/proc/1/environ") == "special_file"
