"""The log of a process that is gone has an end: whoever started it writes that."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children import ChildFailedError
from amplifier_foundation.children.left_log import end_left_log
from amplifier_foundation.sessions import load_session
from amplifier_kit.log import SessionLog, read_log, verify_log

_BELOW = {"name": "delegate", "arguments": {"agent": "builder", "instruction": "Go.", "context_depth": "none"}}
#: Writes the number of the process above a command that is that of a child session, and waits the first time.
_WAIT = (
    "p=$$; until tr '\\0' ' ' < /proc/$p/cmdline | grep -q 'children[.]process'; do "
    "p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); done; echo $p > pid; [ -e go ] || sleep 600"
)
_RULES = "rules: [{action: process.exec, verdict: allow}, {action: session.spawn, verdict: allow}]"


def _check_whole(tree: Any, session_id: str, status: str) -> None:
    lines = list(read_log(tree.place / session_id))
    events = [line.event for line in lines]
    for start, ends in (("tool:pre", ("tool:post", "tool:error")), ("execution:start", ("execution:end",))):
        assert events.count(start) == sum(map(events.count, ends)), events
    assert events.count("delegate:agent_spawned") == events.count("delegate:agent_cancelled")
    assert (events.count("session:end"), events[-1], lines[-1].get("status")) == (1, "session:end", status)
    assert verify_log(tree.place / session_id).ok
    assert all(line.get("session_id") == session_id for line in lines)


@pytest.mark.parametrize("way", ["killed", "stopped"])
async def test_the_logs_of_a_process_that_cannot_speak_any_more_are_whole(
    tree: Any, spawn_in: Any, eventually: Any, way: str
) -> None:
    """Killed, or too stiff to heed a stop: its log ends, those of children in it too, and called again it goes on."""
    (tree.home / "policy.yaml").write_text(_RULES, encoding="utf-8")
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}, {"module": "tool-delegate"}]
    wait = {"tool_calls": [{"name": "bash", "arguments": {"command": _WAIT}}]}
    tree.script([], {"explorer": [{"tool_calls": [_BELOW]}, {"text": "Seen."}], "builder": [wait, {"text": "Built."}]})
    mark = tree.project / "pid"
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    async with tree.run(environ=environ) as runtime:
        spawn = spawn_in(runtime)
        task = asyncio.ensure_future(spawn("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: mark.is_file() and bool(mark.read_text().strip()))
        process = int(mark.read_text())
        os.kill(process, signal.SIGKILL if way == "killed" else signal.SIGSTOP)
        if way == "stopped":
            task.cancel()
        async with asyncio.timeout(60):
            ended = (await asyncio.gather(task, return_exceptions=True))[0]
        assert isinstance(ended, ChildFailedError if way == "killed" else asyncio.CancelledError)
        child = spawn.child_id("explorer", "c")
        [below] = [path.name for path in tree.place.iterdir() if path.name.endswith("_builder")]
        for session_id in (child, below):
            _check_whole(tree, session_id, "crashed" if way == "killed" else "cancelled")
        (tree.project / "go").write_text("", encoding="utf-8")
        async with asyncio.timeout(60):
            result = await spawn("explorer", "Go.", use_subprocess=True, tool_call_id="c")
    assert result["output"] == "Seen."
    said = [message["content"] for message in load_session(tree.place / child).messages if message["role"] == "user"]
    assert "Go." in str(said[0])


Events = tuple[tuple[str, dict[str, Any]], ...]


def _written(folder: Path, *events: tuple[str, dict[str, Any]]) -> list[str]:
    with SessionLog(folder) as log:
        for event, data in events:
            log.write({"event": event, "session_id": folder.name, "data": data})
    end_left_log(folder, folder / "blobs", "crashed")
    return [line.event for line in read_log(folder)][len(events) :]


def test_a_log_that_is_whole_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is written where nothing is lacking, nor where there is no log; and nothing is ended twice."""
    whole: Events = (("session:start", {}), ("execution:start", {}), ("execution:end", {}), ("session:end", {}))
    assert _written(tmp_path / "a", *whole) == []
    end_left_log(tmp_path / "none", tmp_path / "blobs", "crashed")
    assert not (tmp_path / "none").exists()
    assert _written(tmp_path / "b", *whole[:2]) == ["execution:end", "session:end"]
    end_left_log(tmp_path / "b", tmp_path / "blobs", "crashed")
    assert len(list(read_log(tmp_path / "b"))) == 4


def test_what_a_resumed_session_lacked_before_is_left_alone(tmp_path: Path) -> None:
    """A log that was cut off and has gone on since gets the ends of what is open now."""
    past: Events = (("session:start", {}), ("execution:start", {}), ("prompt:submit", {}))
    assert _written(tmp_path / "a", *past, ("session:resume", {}), *past[1:2]) == ["execution:end", "session:end"]


def test_children_that_name_each_other_or_lead_elsewhere_end_the_search(tmp_path: Path) -> None:
    """A log is not believed where it names sessions: only those beside it are looked for, each once."""
    place = tmp_path / "place"
    for name, child in (("a", "b"), ("b", "a"), ("c", "../outside"), ("../outside", "d")):
        with SessionLog(place / name) as log:
            log.write({"event": "delegate:agent_spawned", "data": {"sub_session_id": child}})
    for name in ("a", "c"):
        end_left_log(place / name, place / "blobs", "cancelled")
    assert [len(list(read_log(place / name))) for name in ("a", "b", "c", "../outside")] == [2, 2, 2, 1]


def test_a_log_that_somebody_writes_is_told_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who is alive still closes its log itself."""
    with SessionLog(tmp_path / "a") as log:
        log.write({"event": "execution:start", "data": {}})
        end_left_log(tmp_path / "a", tmp_path / "blobs", "cancelled")
    assert "cannot be closed" in caplog.text
    assert len(list(read_log(tmp_path / "a"))) == 1
