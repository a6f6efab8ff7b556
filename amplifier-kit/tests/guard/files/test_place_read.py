"""Only regular files are opened, also when something else takes their place in the last moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplifier_kit.guard.files.place import FileError, Place, Roots, open_file, reach, read_content


def _swapped_after_a_look(monkeypatch: pytest.MonkeyPatch, path: Path, target: Path | None) -> None:
    """Put a link, or a pipe, in the place of the file right after it was looked at."""
    look = Place.status

    def status(place: Place) -> os.stat_result | None:
        found = look(place)
        if path.is_file() and not path.is_symlink():
            path.unlink()
            if target is None:
                os.mkfifo(path)
            else:
                path.symlink_to(target)
        return found

    monkeypatch.setattr(Place, "status", status)


def test_a_link_in_the_last_moment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that takes the file's place between looking and opening is not followed."""
    (project / "file").write_bytes(b"inside")
    (project.parent / "secret").write_bytes(b"secret")
    _swapped_after_a_look(monkeypatch, project / "file", project.parent / "secret")
    with reach(str(project / "file")) as place, pytest.raises(FileError) as caught:
        open_file(place, Roots())
    assert caught.value.code == "changed_meanwhile"


@pytest.mark.timeout(300)
def test_a_pipe_in_the_last_moment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that takes the file's place between looking and opening is not waited for."""
    (project / "file").write_bytes(b"inside")
    _swapped_after_a_look(monkeypatch, project / "file", None)
    with reach(str(project / "file")) as place, pytest.raises(FileError) as caught:
        open_file(place, Roots())
    assert caught.value.code == "special_file"


def test_too_large_files_are_not_taken_in(project: Path) -> None:
    """A file above the bound is refused, whatever its size is said to be."""
    with open(project / "huge", "wb") as file:
        file.truncate(1 << 40)
    with reach(str(project / "huge")) as place:
        with pytest.raises(FileError) as caught:
            read_content(place, Roots(), largest=1000)
        assert caught.value.code == "too_large"
    (project / "fits").write_bytes(b"x" * 1000)
    with reach(str(project / "fits")) as place:
        assert read_content(place, Roots(), largest=1000).data == b"x" * 1000


def test_second_names_are_read_where_nothing_is_confined(project: Path) -> None:
    """Hard links are refused only where reading is confined to some folders."""
    (project / "one").write_bytes(b"x")
    os.link(project / "one", project / "two")
    with reach(str(project / "one")) as place:
        assert read_content(place, Roots()).data == b"x"
        with pytest.raises(FileError) as caught:
            read_content(place, Roots.resolved([project], [], project))
    assert caught.value.code == "hard_link"
