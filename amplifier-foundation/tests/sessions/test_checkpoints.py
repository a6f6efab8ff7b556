"""Writes of tools can be taken back: exactly, link by link and turn after turn."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.checkpoints import (
    CheckpointError,
    CheckpointNotFoundError,
    Checkpoints,
    Restored,
)


def undo_last_turn(checkpoints: Checkpoints, turn: int | None = None) -> Restored | None:
    """Undo all writes since the last turn that wrote, or since `turn`; None without any."""
    first = checkpoints.last_turn(turn)
    return None if first is None else checkpoints.restore(first.id)


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


def test_a_changed_file_gets_its_bytes_and_mode_back(session: Path, work: Path) -> None:
    """A binary file comes back byte for byte, executable as before."""
    path = work / "tool.bin"
    path.write_bytes(b"\x00\xff\r\n" * 1000)
    path.chmod(0o750)
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, path, b"new")
    path.chmod(0o600)
    restored = checkpoints.restore(first)
    assert path.read_bytes() == b"\x00\xff\r\n" * 1000
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert restored.put_back == (path,)
    assert list(work.iterdir()) == [path]


def test_a_created_file_is_removed_with_the_folders_that_were_made_for_it(session: Path, work: Path) -> None:
    """Undoing the creation of two files in new folders leaves nothing of both; a folder with other files stays."""
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "a/b/one", b"1")
    _write(checkpoints, work / "a/b/two", b"2")
    _write(checkpoints, work / "c/three", b"3")
    (work / "c/mine").write_text("mine", encoding="utf-8")
    restored = checkpoints.restore(first)
    assert sorted(restored.removed) == [work / "a/b/one", work / "a/b/two", work / "c/three"]
    assert sorted(work.rglob("*")) == [work / "c", work / "c/mine"]


def test_a_deleted_file_and_its_folder_come_back(session: Path, work: Path) -> None:
    """A file whose folder is gone as well is put back, and its folder with it."""
    path = work / "deep/er/file"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"kept")
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, path, None)
    path.parent.rmdir()
    path.parent.parent.rmdir()
    checkpoints.restore(first)
    assert path.read_bytes() == b"kept"


def test_everything_after_a_checkpoint_is_taken_back_too(session: Path, work: Path) -> None:
    """Restoring to the second of three checkpoints keeps the first write alone."""
    checkpoints = Checkpoints(session)
    _write(checkpoints, work / "f", b"1")
    second = _write(checkpoints, work / "f", b"2")
    _write(checkpoints, work / "g", b"3")
    checkpoints.restore(second)
    assert (work / "f").read_bytes() == b"1"
    assert not (work / "g").exists()


def test_restoring_can_be_taken_back(session: Path, work: Path) -> None:
    """A restore is a checkpoint: restoring to it brings back what it took away, and that can be taken back again."""
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "new/f", b"written")
    undone = checkpoints.restore(first).checkpoint
    assert not (work / "new").exists()
    redone = checkpoints.restore(undone.id).checkpoint
    assert (work / "new/f").read_bytes() == b"written"
    assert [one.is_undone for one in checkpoints.list() if one.restored_to is None] == [False]
    checkpoints.restore(redone.id)
    assert not (work / "new").exists()


@pytest.mark.parametrize("replaces", [False, True])
def test_a_link_and_what_it_leads_to_come_back(session: Path, work: Path, replaces: bool) -> None:
    """Whether a tool writes through a link or puts a file in its place, both are as before afterwards."""
    (work / "real").write_bytes(b"before")
    (work / "middle").symlink_to("real")
    link = work / "link"
    link.symlink_to("middle")
    checkpoints = Checkpoints(session)
    made = checkpoints.before_write(link, tool="write_file")
    assert [state.kind for state in made.before] == ["link", "link", "file"]
    if replaces:
        link.unlink()
    link.write_bytes(b"after")
    checkpoints.after_write(link)
    checkpoints.restore(made.id)
    assert os.readlink(link) == "middle"
    assert link.read_bytes() == b"before"


def test_a_link_to_nothing_and_a_circle_of_links_can_be_kept(session: Path, work: Path) -> None:
    """A file that is made through a dangling link is removed again; links that lead to each other end the search."""
    (work / "dangling").symlink_to("gone")
    (work / "a").symlink_to("b")
    (work / "b").symlink_to("a")
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "dangling", b"x")
    assert len(checkpoints.before_write(work / "a", tool="write_file").before) == 2
    checkpoints.restore(first)
    assert not (work / "gone").exists()
    assert (work / "dangling").is_symlink()


def test_one_file_by_two_names_is_one_file(session: Path, work: Path) -> None:
    """A file that was written through a linked folder, and then directly, has one history."""
    (work / "real").mkdir()
    (work / "alias").symlink_to("real")
    checkpoints = Checkpoints(session)
    first = _write(checkpoints, work / "alias/f", b"1")
    _write(checkpoints, work / "real/../real/f", b"2")
    assert checkpoints.restore(first).removed == (work / "real/f",)


def test_what_is_no_regular_file_is_never_opened(session: Path, work: Path) -> None:
    """A pipe is noted at once, instead of being waited for."""
    os.mkfifo(work / "pipe")
    made = Checkpoints(session).before_write(work / "pipe", tool="write_file")
    assert (made.before[0].kind, made.before[0].is_kept) == ("other", False)


def test_a_read_only_file_is_put_back(session: Path, work: Path) -> None:
    """A file that nobody may write is replaced, and read-only again."""
    path = work / "f"
    path.write_bytes(b"before")
    path.chmod(0o444)
    checkpoints = Checkpoints(session)
    made = checkpoints.before_write(path, tool="write_file")
    path.unlink()
    path.write_bytes(b"after")
    path.chmod(0o444)
    checkpoints.after_write(path)
    checkpoints.restore(made.id)
    assert path.read_bytes() == b"before"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_undo_takes_back_turn_after_turn(session: Path, work: Path) -> None:
    """Every undo takes back the newest turn that wrote and was not undone, until there is none."""
    checkpoints = Checkpoints(session)
    for turn, content in ((1, b"1"), (2, b"2"), (2, b"22"), (4, b"4")):
        checkpoints.turn = turn
        _write(checkpoints, work / "f", content)
    undone = [undo_last_turn(checkpoints) for _ in range(3)]
    assert [one.checkpoint.restored_to for one in undone if one] == ["c4", "c2", "c1"]
    assert not (work / "f").exists()
    assert undo_last_turn(checkpoints) is None
    assert undone[1] is not None
    checkpoints.restore(undone[1].checkpoint.id)
    assert (work / "f").read_bytes() == b"22"
    again = undo_last_turn(checkpoints)
    assert again is not None
    assert again.checkpoint.restored_to == "c2"


def test_undo_of_a_turn_that_wrote_nothing_does_nothing(session: Path, work: Path) -> None:
    """When the caller names the turn of the last prompt, an older one is left alone; a later one is included."""
    checkpoints = Checkpoints(session, turn=3)
    _write(checkpoints, work / "f", b"3")
    assert undo_last_turn(checkpoints, 4) is None
    assert (work / "f").exists()
    assert undo_last_turn(checkpoints, 2) is not None
    assert not (work / "f").exists()


def test_turns_that_are_counted_anew_are_not_mixed(session: Path, work: Path) -> None:
    """After a session was taken back to an earlier turn, an undo takes back what was written since alone."""
    checkpoints = Checkpoints(session, turn=5)
    _write(checkpoints, work / "old", b"5")
    checkpoints.turn = 3
    _write(checkpoints, work / "new", b"3")
    undo_last_turn(checkpoints)
    assert [path.name for path in work.iterdir()] == ["old"]


def test_a_session_without_checkpoints_has_none_and_nothing_is_made(session: Path, tmp_path: Path) -> None:
    """Asking makes no files, an unknown checkpoint is named, and a session that is gone is not made again."""
    checkpoints = Checkpoints(session)
    assert checkpoints.list() == []
    assert undo_last_turn(checkpoints) is None
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint 'c1' .* has written no files"):
        checkpoints.plan("c1")
    assert list(session.iterdir()) == []
    with pytest.raises(CheckpointError, match=r"the folder of the session, .*, is missing"):
        Checkpoints(tmp_path / "gone").before_write(session / "f", tool="write_file")
    assert not (tmp_path / "gone").exists()


def test_an_unknown_checkpoint_gets_a_hint(session: Path, work: Path) -> None:
    """Which checkpoints there are is told."""
    checkpoints = Checkpoints(session)
    _write(checkpoints, work / "f", b"1")
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint 'C1' in .* it has c1 to c1"):
        checkpoints.restore("C1")


def test_after_without_before_is_an_error(session: Path, work: Path) -> None:
    """A write that was not announced cannot be taken back, and whoever made it is told."""
    with pytest.raises(CheckpointError, match="call before_write first"):
        Checkpoints(session).after_write(work / "f")


_NAMES = ("a", "b", "d/e", "d/g", "link", "ünïcode \n name")
_WRITE = st.tuples(
    st.just("write"), st.sampled_from(_NAMES), st.none() | st.binary(max_size=40), st.sampled_from((0o600, 0o755))
)
_BACK = st.tuples(st.just("back"), st.integers(0, 30))
_UNDO = st.just(("undo",))
_TURN = st.just(("turn",))


def _snapshot(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@given(steps=st.lists(_WRITE | _BACK | _UNDO | _TURN, max_size=14))
def test_any_sequence_of_writes_and_restores_gives_back_the_exact_bytes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    """Restoring to any checkpoint, of a write or of a restore, gives every file that there was just before it."""
    root = tmp_path_factory.mktemp("any")
    work, session = root / "work", root / "session"
    work.mkdir()
    session.mkdir()
    (work / "link").symlink_to("a")
    checkpoints = Checkpoints(session)
    before: dict[str, dict[str, object]] = {}
    for step in steps:
        now = _snapshot(work)
        if step[0] == "write":
            _, name, content, mode = step
            path = work / str(name)
            made = checkpoints.before_write(path, tool="write_file").id
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)  # type: ignore[arg-type]
                path.chmod(mode)  # type: ignore[arg-type]
            checkpoints.after_write(path)
            before[made] = now
        elif step[0] == "turn":
            checkpoints.turn += 1
        elif step[0] == "undo":
            restored = undo_last_turn(checkpoints)
            if restored is not None:
                assert _snapshot(work) == before[str(restored.checkpoint.restored_to)]
                before[restored.checkpoint.id] = now
        elif before:
            to = list(before)[int(str(step[1])) % len(before)]
            restored = Checkpoints(session, turn=checkpoints.turn).restore(to)
            assert _snapshot(work) == before[to]
            before[restored.checkpoint.id] = now
    assert [one.id for one in checkpoints.list()] == list(before)
