"""Files are not put back over what somebody else has written, nor where they cannot be put back as they were."""

import os
from pathlib import Path

import pytest

from amplifier_foundation.sessions.checkpoints import (
    CheckpointError,
    Checkpoints,
    RestoreConflictError,
)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return the folder of a session."""
    folder = tmp_path / "session"
    folder.mkdir()
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder to write in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def _write(checkpoints: Checkpoints, path: Path, content: bytes | None) -> str:
    """Write a file as a tool does, or delete it, and return the checkpoint's id."""
    made = checkpoints.before_write(path, tool="write_file", tool_call_id="call")
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    checkpoints.after_write(path)
    return made.id


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_what_somebody_else_has_changed_since_is_refused(session: Path, work: Path, change: str) -> None:
    """A file edited or deleted after the write is not touched, nor is any other; force does, undoably."""
    path, other = work / "f", work / "other"
    path.write_bytes(b"before")
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, path, b"tool")
    _write(checkpoints, other, b"tool")
    path.write_bytes(b"user") if change == "edit" else path.unlink()
    with pytest.raises(RestoreConflictError, match="by another program after checkpoint c1") as refused:
        checkpoints.restore(first)
    assert refused.value.code == "restore_conflict"
    assert str(path) in refused.value.reasons[0]
    assert other.exists()
    restored = checkpoints.restore(first, force=True)
    assert path.read_bytes() == b"before"
    checkpoints.restore(restored.checkpoint.id)
    assert path.exists() == (change == "edit")
    assert change == "delete" or path.read_bytes() == b"user"


def test_what_somebody_else_has_changed_between_two_writes_is_refused(session: Path, work: Path) -> None:
    """Going back behind a user's own edit would lose it, so that it is refused; going back up to it is not."""
    path = work / "f"
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, path, b"1")
    path.write_bytes(b"user")
    second = _write(checkpoints, path, b"2")
    with pytest.raises(RestoreConflictError, match="before checkpoint c2"):
        checkpoints.restore(first)
    checkpoints.restore(second)
    assert path.read_bytes() == b"user"


def test_a_write_whose_end_nobody_noted_is_refused(session: Path, work: Path) -> None:
    """After a crash in the middle of a write nobody knows whose the content is; unchanged files are no conflict."""
    path = work / "f"
    path.write_bytes(b"before")
    first = Checkpoints(session).before_write(path, tool="write_file")
    assert Checkpoints(session).plan(first.id).changes == ()
    path.write_bytes(b"half")
    with pytest.raises(RestoreConflictError, match="its state after checkpoint c1 was not recorded"):
        Checkpoints(session).restore(first.id)
    Checkpoints(session).restore(first.id, force=True)
    assert path.read_bytes() == b"before"


def test_a_change_of_the_mode_alone_is_no_conflict(session: Path, work: Path) -> None:
    """A script that was made executable after it was written can be taken back."""
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "run.sh", b"#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    checkpoints.restore(first)
    assert not (work / "run.sh").exists()


def test_two_writes_at_the_same_time_are_no_conflict(session: Path, work: Path) -> None:
    """Two tools that write one file at once are both the session's own."""
    path = work / "f"
    checkpoints = Checkpoints(session)
    first = checkpoints.before_write(path, tool="one")
    checkpoints.before_write(path, tool="two")
    path.write_bytes(b"1")
    checkpoints.after_write(path)
    path.write_bytes(b"2")
    checkpoints.after_write(path)
    checkpoints.restore(first.id)
    assert not path.exists()


def test_a_folder_that_became_a_link_is_not_written_through(session: Path, work: Path) -> None:
    """Files are not put back into another place than they were in, not even by force."""
    (work / "dir").mkdir()
    (work / "dir/f").write_bytes(b"before")
    (work / "elsewhere").mkdir()
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "dir/f", b"after")
    (work / "dir").rename(work / "moved")
    (work / "dir").symlink_to("elsewhere")
    with pytest.raises(RestoreConflictError, match="is a link to another place now"):
        checkpoints.restore(first)
    assert len(checkpoints.restore(first, force=True).left) == 1
    assert not (work / "elsewhere/f").exists()


def test_large_files_are_noted_and_not_kept(session: Path, work: Path) -> None:
    """A file over the limit is neither copied nor put back, which is said; others are put back by force."""
    large, small = work / "large", work / "small"
    large.write_bytes(b"x" * 2000)
    checkpoints = Checkpoints(session, largest=1000)
    first = _write(checkpoints, large, b"y" * 3000)
    _write(checkpoints, small, b"z")
    assert not checkpoints.list()[0].before[0].is_kept
    assert list((session / "checkpoints/files").glob("?" * 64)) == []
    with pytest.raises(RestoreConflictError, match="2,000 bytes, too many to store"):
        checkpoints.restore(first)
    restored = checkpoints.restore(first, force=True)
    assert len(restored.left) == 1
    assert not small.exists()


def test_what_is_overwritten_by_restoring_is_kept_whatever_its_size(session: Path, work: Path) -> None:
    """A restore over a large file can be taken back, since nothing that is there now may be lost."""
    path = work / "f"
    path.write_bytes(b"small")
    checkpoints = Checkpoints(session, largest=1000)
    first = _write(checkpoints, path, b"y" * 3000)
    undone = checkpoints.restore(first).checkpoint
    assert path.read_bytes() == b"small"
    checkpoints.restore(undone.id)
    assert path.read_bytes() == b"y" * 3000


def test_a_folder_in_place_of_the_file_is_never_deleted(session: Path, work: Path) -> None:
    """Where a folder lies now, nothing is put back, not even by force."""
    checkpoints = Checkpoints(session)
    (work / "f").write_bytes(b"before")
    first = _write(checkpoints, work / "f", b"after")
    (work / "f").unlink()
    (work / "f").mkdir()
    with pytest.raises(RestoreConflictError, match="is a folder now"):
        checkpoints.restore(first)
    checkpoints.restore(first, force=True)
    assert (work / "f").is_dir()


def test_when_one_file_cannot_be_put_back_none_is_changed(session: Path, work: Path) -> None:
    """A file where a folder would have to be is found out before anything is changed, and nothing is left behind."""
    checkpoints = Checkpoints(session)
    (work / "a").write_bytes(b"before")
    (work / "dir").mkdir()
    (work / "dir/f").write_bytes(b"before")
    first = _write(checkpoints, work / "a", b"after")
    _write(checkpoints, work / "dir/f", None)
    (work / "dir").rmdir()
    (work / "dir").write_bytes(b"in the way")
    with pytest.raises(CheckpointError, match="cannot be restored: Not a directory") as failed:
        checkpoints.restore(first)
    assert failed.value.code == "checkpoint_failed"
    assert (work / "a").read_bytes() == b"after"
    assert sorted(path.name for path in work.iterdir()) == ["a", "dir"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told_before_anything_is_changed(session: Path, work: Path) -> None:
    """A folder that cannot be written stops the whole restore, with its name."""
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "a", b"1")
    _write(checkpoints, work / "closed/f", b"2")
    (work / "closed").chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="closed"):
            checkpoints.restore(first)
    finally:
        (work / "closed").chmod(0o700)
    assert (work / "a").exists()


def test_a_restore_that_stops_half_way_can_be_gone_on_with(
    session: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the disk refuses in the middle it is told how far it came, and restoring again finishes it."""
    checkpoints = Checkpoints(session)
    for name in ("a", "b"):
        (work / name).write_bytes(b"before")
    first = _write(checkpoints, work / "a", b"after")
    _write(checkpoints, work / "b", b"after")
    rename = os.rename

    def refusing(source: str, target: str, **folders: int) -> None:
        if target == "b":
            raise OSError(5, "Input/output error", target)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", refusing)
    with pytest.raises(CheckpointError, match="only 1 file of 2 could be restored: Input/output error"):
        checkpoints.restore(first)
    monkeypatch.undo()
    assert sorted(path.name for path in work.iterdir()) == ["a", "b"]
    checkpoints.restore(first)
    assert (work / "b").read_bytes() == b"before"
    checkpoints.restore("c3")
    assert [path.read_bytes() for path in sorted(work.iterdir())] == [b"after", b"after"]
