"""A folder that is swapped for a link while files are kept or put back leads nowhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sessions import file_states
from amplifier_foundation.sessions.checkpoints import CheckpointError, Checkpoints, RestoreConflictError
from amplifier_foundation.sessions.file_states import CopyStore, PathChangedError, Restoration, state_at

ROUNDS = 150
SECRET = b"secret of the outside"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return the folder of a session."""
    made = tmp_path.resolve() / "session"
    made.mkdir()
    return made


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a project with a folder that is going to be swapped."""
    made = tmp_path.resolve() / "work"
    (made / "dir").mkdir(parents=True)
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder with files of the names that are used inside, and an empty folder."""
    made = tmp_path.resolve() / "outside"
    (made / "sub").mkdir(parents=True)
    (made / "file").write_bytes(SECRET)
    return made


def _swap(folder: Path, target: Path) -> None:
    """Put a link in place of a folder, which goes on under another name."""
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


@contextmanager
def _swapping(folder: Path, target: Path) -> Iterator[None]:
    """Let a thread exchange a folder and a link to another, as fast as it can."""
    link, aside = folder.with_name("link"), folder.with_name("aside")
    link.symlink_to(target)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            for one, other in ((folder, aside), (link, folder), (folder, link), (aside, folder)):
                with suppress(OSError):
                    os.rename(one, other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _tree(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def _copies(session: Path) -> list[bytes]:
    return [path.read_bytes() for path in (session / "checkpoints").rglob("*") if path.is_file()]


def test_what_lies_behind_a_swapped_folder_is_not_looked_at(session: Path, work: Path, outside: Path) -> None:
    """A state belongs to that exact path: if a folder has become a link, it is reported and nothing is copied."""
    store = CopyStore(session / "checkpoints")
    _swap(work / "dir", outside)
    for name in ("dir/file", "dir/absent", "dir/sub/file"):
        with pytest.raises(PathChangedError, match="is a link to another place now"):
            state_at(work / name, store)
    assert _copies(session) == []


def test_a_tool_that_has_reached_its_file_keeps_that_file_only(session: Path, work: Path, outside: Path) -> None:
    """With `follow` false neither a folder nor the file itself may have become a link that is followed."""
    checkpoints = Checkpoints(session)
    (work / "link").symlink_to(outside / "file")
    made = checkpoints.before_write(work / "link", tool="tool", follow=False)
    assert [(state.path, state.kind) for state in made.before] == [(work / "link", "link")]
    checkpoints.after_write(work / "link")
    _swap(work / "dir", outside)
    with pytest.raises(CheckpointError, match="is a link to another place now"):
        checkpoints.before_write(work / "dir/file", tool="tool", follow=False)
    assert not any(SECRET in content for content in _copies(session))


def test_a_swap_before_the_end_of_a_write_is_told(session: Path, work: Path, outside: Path) -> None:
    """What another place holds is not noted as the result of the write."""
    checkpoints = Checkpoints(session)
    checkpoints.before_write(work / "dir/file", tool="tool", follow=False)
    _swap(work / "dir", outside)
    with pytest.raises(CheckpointError, match="is a link to another place now"):
        checkpoints.after_write(work / "dir/file")


def _kept(session: Path, path: Path, before: bytes | None) -> tuple[Any, CopyStore]:
    """Return the state of a path with that content, and the store that has it."""
    store = CopyStore(session / "checkpoints")
    if before is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before)
    return state_at(path, store), store


@pytest.mark.parametrize("before", [None, b"before"])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_swap_while_files_are_put_back(
    session: Path, work: Path, outside: Path, before: bytes | None, is_prepared: bool
) -> None:
    """A swap before or after preparation deletes and writes nothing behind the link, and is reported."""
    state, store = _kept(session, work / "dir/file", before)
    (work / "dir/file").write_bytes(b"after")
    was = _tree(outside)

    def put_back() -> None:
        with Restoration([state], store) as prepared:
            if is_prepared:
                _swap(work / "dir", outside)
            prepared.go()

    if not is_prepared:
        _swap(work / "dir", outside)
    with pytest.raises(PathChangedError, match="is a link to another place now"):
        put_back()
    assert _tree(outside) == was


@pytest.mark.parametrize("make", [None, b"before"])
def test_no_folder_is_made_or_removed_behind_a_link(
    session: Path, work: Path, outside: Path, make: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that were made are removed, and missing ones made, at the very path alone."""
    state, store = _kept(session, work / "dir/sub/file", make)
    (work / "dir/sub").mkdir(exist_ok=True)
    (work / "dir/sub/file").unlink(missing_ok=True)
    if make is not None:
        (work / "dir/sub").rmdir()
        (outside / "sub").rmdir()
    was = _tree(outside)
    remove: Callable[..., None] = file_states._remove_empty

    def swapped(state: Any) -> None:
        _swap(work / "dir", outside)
        remove(state)

    if make is None:
        monkeypatch.setattr(file_states, "_remove_empty", swapped)
        with Restoration([state], store) as prepared:
            prepared.go()
    else:
        _swap(work / "dir", outside)
        with pytest.raises(PathChangedError), Restoration([state], store):
            pass
    assert _tree(outside) == was


def test_swaps_at_any_moment(session: Path, work: Path, outside: Path) -> None:
    """Whenever a folder is swapped, nothing outside changes or is copied, and nothing of it comes to the project."""
    checkpoints = Checkpoints(session)
    path = work / "dir/file"
    path.write_bytes(b"inside")
    was = _tree(outside)
    with _swapping(work / "dir", outside):
        for _ in range(ROUNDS):
            with suppress(CheckpointError):
                made = checkpoints.before_write(path, tool="tool", follow=False)
                with suppress(CheckpointError):
                    checkpoints.after_write(path)
                with suppress(CheckpointError, RestoreConflictError):
                    checkpoints.restore(made.id, force=True)
    assert _tree(outside) == was
    assert not any(SECRET in content for content in _copies(session))
    assert (
        all(SECRET not in (content or b"") for content in _tree(work / "dir").values()) or (work / "dir").is_symlink()
    )
