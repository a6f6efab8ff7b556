"""The checkpoints on disk: what crashes leave, who may read them, and several processes at once."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from amplifier_foundation.sessions.checkpoints import CheckpointError, CheckpointLog, Checkpoints


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return the folder of a session."""
    folder = tmp_path / "session"
    folder.mkdir()
    return folder


def _write(checkpoints: Checkpoints, path: Path, content: str) -> str:
    made = checkpoints.before_write(path, tool="write_file", tool_call_id="call-1")
    path.write_text(content, encoding="utf-8")
    checkpoints.after_write(path)
    return made.id


def _index(session: Path) -> Path:
    return session / "checkpoints/index.jsonl"


def test_a_checkpoint_says_who_wrote_what_and_when(session: Path, tmp_path: Path) -> None:
    """Another process reads the tool, the call, the turn, the path, and what the file was before and after."""
    _write(Checkpoints(session, turn=7), tmp_path / "f", "hello")
    (known,) = Checkpoints(session).list()
    assert (known.id, known.turn, known.tool, known.tool_call_id) == ("c1", 7, "write_file", "call-1")
    assert known.path == tmp_path / "f"
    assert known.before[0].kind == "absent"
    assert known.after is not None
    assert (known.after[0].kind, known.after[0].size) == ("file", 5)
    assert known.made.tzinfo is not None


def test_only_the_owner_can_read_what_is_kept(session: Path, tmp_path: Path) -> None:
    """Copies and index are readable by their owner alone, whatever the file was."""
    (tmp_path / "f").write_text("secret", encoding="utf-8")
    (tmp_path / "f").chmod(0o644)
    _write(Checkpoints(session), tmp_path / "f", "new")
    kept = [path for path in (session / "checkpoints").rglob("*") if path.is_file()]
    assert len(kept) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_the_same_content_is_kept_once(session: Path, tmp_path: Path) -> None:
    """A hundred copies of one content take the room of one."""
    checkpoints = Checkpoints(session)
    for number in range(100):
        (tmp_path / f"f{number}").write_text("same", encoding="utf-8")
        _write(checkpoints, tmp_path / f"f{number}", "other")
    assert len(list((session / "checkpoints/files").glob("?" * 64))) == 1


def test_a_torn_line_costs_that_line_alone(session: Path, tmp_path: Path) -> None:
    """What a crash leaves of a line is left out and told; earlier and later checkpoints can be restored."""
    first = _write(Checkpoints(session), tmp_path / "f", "1")
    with open(_index(session), "ab") as file:
        file.write(b'{"form": 1, "id": "c2", "bef')
    assert [one.id for one in Checkpoints(session).list()] == ["c1"]
    checkpoints = Checkpoints(session)
    _write(checkpoints, tmp_path / "f", "2")
    assert [one.id for one in checkpoints.list()] == ["c1", "c2"]
    assert len(checkpoints.problems) == 1
    assert "a line was left out" in checkpoints.problems[0]
    checkpoints.restore(first)
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "[]",
        '{"form": 2, "id": "c9"}',
        '{"form": 1, "of": "c9", "after": []}',
        '{"form": 1, "id": "c9", "made": "2026-01-01", "turn": 1, "tool": "t", "tool_call_id": null, "before": [{}]}',
        '{"form": 1, "id": "c1", "made": "2026-01-01", "turn": 1, "tool": "t", "tool_call_id": null, "before": []}',
    ],
)
def test_a_line_that_is_none_is_told_and_left_out(session: Path, tmp_path: Path, line: str) -> None:
    """Garbage, another form, what refers to nothing and what is there twice does not hide the others."""
    _write(Checkpoints(session), tmp_path / "f", "1")
    with open(_index(session), "a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    checkpoints = Checkpoints(session)
    assert [one.id for one in checkpoints.list()] == ["c1"]
    assert len(checkpoints.problems) == 1


def test_a_damaged_copy_is_not_put_back(session: Path, tmp_path: Path) -> None:
    """A copy whose content is not what its name says is an error, and the file stays as it is."""
    (tmp_path / "f").write_text("before", encoding="utf-8")
    first = _write(Checkpoints(session), tmp_path / "f", "after")
    (copy,) = (session / "checkpoints/files").glob("?" * 64)
    copy.write_bytes(b"rotten")
    with pytest.raises(CheckpointError, match="the copy is damaged"):
        Checkpoints(session).restore(first)
    assert (tmp_path / "f").read_text(encoding="utf-8") == "after"


def test_names_that_are_no_utf8_come_back(session: Path, tmp_path: Path) -> None:
    """A file whose name is any bytes is kept and put back."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\n"))
    path.write_text("before", encoding="utf-8")
    first = _write(Checkpoints(session), path, "after")
    Checkpoints(session).restore(first)
    assert path.read_text(encoding="utf-8") == "before"


def test_an_unwritable_place_is_told(session: Path, tmp_path: Path) -> None:
    """Without room for the copy there is no checkpoint, and the caller knows before it writes."""
    (session / "checkpoints").write_text("in the way", encoding="utf-8")
    (tmp_path / "f").write_text("before", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"no checkpoint of .* can be made before it is written"):
        Checkpoints(session).before_write(tmp_path / "f", tool="write_file")


def test_a_log_that_was_replaced_is_read_anew(session: Path, tmp_path: Path) -> None:
    """An index that became shorter, or was deleted, is not mixed with what was read before."""
    checkpoints = Checkpoints(session)
    _write(checkpoints, tmp_path / "f", "1")
    _write(checkpoints, tmp_path / "f", "2")
    lines = _index(session).read_text(encoding="utf-8").splitlines(keepends=True)
    _index(session).write_text("".join(lines[:2]), encoding="utf-8")
    assert [one.id for one in checkpoints.list()] == ["c1"]
    _index(session).unlink()
    assert checkpoints.list() == []


def test_ten_thousand_checkpoints_stay_cheap_to_know(session: Path) -> None:
    """What counts is one list with many ends: its length in memory grows with the checkpoints, not their square."""
    index = session / "index.jsonl"
    record = {"form": 1, "made": "2026-01-01T00:00:00+00:00", "turn": 1, "tool": "t", "tool_call_id": None}
    with open(index, "w", encoding="utf-8") as file:
        for number in range(10_000):
            file.write(json.dumps({**record, "id": f"c{number + 1}", "before": []}) + "\n")
    log = CheckpointLog(index)
    log.refresh()
    assert sum(1 for _ in log.live()) == 10_000
    assert log.next_id() == "c10001"


_WRITER = """\
import sys
from pathlib import Path
from amplifier_foundation.sessions.checkpoints import Checkpoints
session, name = Path(sys.argv[1]), sys.argv[2]
checkpoints = Checkpoints(session)
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    path = session.parent / f"{name}-{number % 5}"
    checkpoints.before_write(path, tool=name)
    path.write_text(f"{name} {number}", encoding="utf-8")
    checkpoints.after_write(path)
"""


def _start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_two_processes_write_one_line_of_time(session: Path) -> None:
    """Two processes that write at once make checkpoints with different ids, and all can be taken back."""
    with _start(_WRITER, str(session), "one") as one, _start(_WRITER, str(session), "two") as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        _go(one)
        _go(two)
        assert one.wait(60) == 0
        assert two.wait(60) == 0
    checkpoints = Checkpoints(session)
    assert [made.id for made in checkpoints.list()] == [f"c{number}" for number in range(1, 81)]
    assert {made.tool for made in checkpoints.list()} == {"one", "two"}
    assert checkpoints.problems == []
    checkpoints.restore("c1")
    assert [path.name for path in session.parent.iterdir()] == ["session"]


def test_a_process_that_is_killed_leaves_what_can_be_restored(session: Path, tmp_path: Path) -> None:
    """Killed in the middle of its writes, a process leaves an index that others go on with, and no lock."""
    (tmp_path / "mine").write_text("before", encoding="utf-8")
    endless = _WRITER.replace("range(40)", "range(10**9)")
    with _start(endless, str(session), "one") as process:
        _go(process)
        while len(Checkpoints(session).list()) < 20:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    unfinished = session / "checkpoints/files/unfinished"
    unfinished.mkdir(exist_ok=True)
    (unfinished / "half a copy").write_bytes(b"ha")
    checkpoints = Checkpoints(session)
    count = len(checkpoints.list())
    made = _write(checkpoints, tmp_path / "mine", "after")
    assert made == f"c{count + 1}"
    assert list(unfinished.iterdir()) == []
    checkpoints.restore("c1", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "session"]
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "before"
