"""Links that are swapped while a call runs never lead it outside: nothing there is read, and nothing written."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from amplifier_kit.guard.files.changes import Change, apply_changes, check_writable
from amplifier_kit.guard.files.place import FileError, Roots, reach, read_content

ROUNDS = 200
SECRET = b"secret of the outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder outside the project, with files of the names that are used inside."""
    made = tmp_path.resolve() / "outside"
    (made / "sub").mkdir(parents=True)
    (made / "file").write_bytes(SECRET)
    (made / "sub" / "file").write_bytes(SECRET)
    return made


@contextmanager
def _swapping(*states: object) -> Iterator[None]:
    """Let a thread put the project into one state after the other, as fast as it can."""
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for state in states:
                with suppress(OSError):
                    state()  # type: ignore[operator]

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _replace_by_link(path: Path, target: Path) -> None:
    fresh = path.with_name(f"{path.name}.link")
    fresh.symlink_to(target)
    os.replace(fresh, path)


def _replace_by_file(path: Path) -> None:
    fresh = path.with_name(f"{path.name}.file")
    fresh.write_bytes(b"inside")
    os.replace(fresh, path)


def _read(path: Path, roots: Roots) -> bytes | None:
    try:
        with reach(str(path)) as place:
            roots.check(place, "read")
            return read_content(place, roots).data
    except FileError:
        return None


def _write(path: Path, roots: Roots) -> bool:
    try:
        with reach(str(path)) as place:
            before = check_writable(place, roots)
            apply_changes([Change(place, before, b"written")], roots, threading.Event())
    except FileError:
        return False
    return True


def _unharmed(outside: Path) -> None:
    assert {str(path.relative_to(outside)): path.read_bytes() for path in outside.rglob("*") if path.is_file()} == {
        "file": SECRET,
        "sub/file": SECRET,
    }


def test_a_file_that_becomes_a_link(project: Path, outside: Path) -> None:
    """The file itself is swapped for a link to a file outside, again and again."""
    file = project / "file"
    roots = Roots.resolved([project], [], project)
    read: set[bytes | None] = set()
    with _swapping(lambda: _replace_by_link(file, outside / "file"), lambda: _replace_by_file(file)):
        for _ in range(ROUNDS):
            read.add(_read(file, roots))
            _write(file, roots)
    assert SECRET not in read
    assert read - {None, b"inside", b"written"} == set()
    assert read - {None}, "no read ever succeeded: the test says nothing"
    _unharmed(outside)


def test_a_folder_that_becomes_a_link(project: Path, outside: Path) -> None:
    """A folder on the way is swapped for a link to a folder outside, again and again."""
    folder, aside = project / "sub", project / "aside"
    folder.mkdir()
    (folder / "file").write_bytes(b"inside")
    roots = Roots.resolved([project], [], project)

    def to_link() -> None:
        folder.rename(aside)
        folder.symlink_to(outside / "sub")

    def to_folder() -> None:
        folder.unlink()
        aside.rename(folder)

    read: set[bytes | None] = set()
    wrote: set[bool] = set()
    with _swapping(to_link, to_folder):
        for number in range(ROUNDS):
            read.add(_read(folder / "file", roots))
            wrote.add(_write(folder / "file", roots))
            wrote.add(_write(folder / f"new{number}" / "file", roots))
    assert SECRET not in read
    assert read - {None}, "no read ever succeeded: the test says nothing"
    assert True in wrote, "no write ever succeeded: the test says nothing"
    _unharmed(outside)


def test_a_new_folder_that_becomes_a_link(project: Path, outside: Path) -> None:
    """A folder that the write itself makes is swapped for a link the moment it is there."""
    roots = Roots.resolved([project], [], project)
    new = project / "new"

    def to_link() -> None:
        if not new.is_symlink():
            new.rename(project / f"moved{len(os.listdir(project))}")
            new.symlink_to(outside / "sub")

    with _swapping(to_link, new.unlink):
        wrote = [_write(new / "file", roots) for _ in range(ROUNDS)]
    assert True in wrote, "no write ever succeeded: the test says nothing"
    _unharmed(outside)


def test_a_file_that_becomes_a_hard_link(project: Path, outside: Path) -> None:
    """Where reading is confined, a second name of a file outside is not read, and never written through."""
    file = project / "file"
    roots = Roots.resolved([project], [], project)

    def to_hard_link() -> None:
        fresh = project / "fresh"
        os.link(outside / "file", fresh)
        os.replace(fresh, file)

    read: set[bytes | None] = set()
    with _swapping(to_hard_link, lambda: _replace_by_file(file)):
        for _ in range(ROUNDS):
            read.add(_read(file, roots))
            _write(file, roots)
    assert SECRET not in read
    assert read - {None}, "no read ever succeeded: the test says nothing"
    _unharmed(outside)


def test_a_file_that_becomes_a_pipe(project: Path) -> None:
    """A pipe that takes the place of a file is not waited for."""
    file = project / "file"

    def to_pipe() -> None:
        fresh = project / "fresh"
        os.mkfifo(fresh)
        os.replace(fresh, file)

    with _swapping(to_pipe, lambda: _replace_by_file(file)):
        for _ in range(ROUNDS):
            assert _read(file, Roots()) in (None, b"inside", b"written")
            _write(file, Roots())
