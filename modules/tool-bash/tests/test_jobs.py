"""Commands in the background can be looked at and ended, and none outlives the session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_tool_bash import BashTool, mount
from amplifier_module_tool_bash.jobs import MOST_JOBS

MakeTool = Callable[..., BashTool]
Naps = Callable[[], list[int]]


async def _started(tool: BashTool, command: str) -> int:
    result = await tool.execute({"command": command, "run_in_background": True})
    assert result.success, result.output
    return int(result.output["pid"])


async def _status(tool: BashTool, pid: int) -> dict[str, Any]:
    result = await tool.execute({"command": "status", "job": pid})
    assert result.success, result.output
    output: dict[str, Any] = result.output
    return output


async def _until(tool: BashTool, pid: int, **wanted: Any) -> dict[str, Any]:
    """Return the status as soon as it says what is wanted; a test that waits in vain is stopped."""
    while True:
        status = await _status(tool, pid)
        if wanted.items() <= status.items():
            return status
        await asyncio.sleep(0.05)


async def test_the_published_result(tool: BashTool, nap: str) -> None:
    """A background command gives its PID, a message and a note, at once."""
    result = await tool.execute({"command": nap, "run_in_background": True, "timeout": 1})
    assert result.success
    assert set(result.output) == {"pid", "message", "note"}
    assert result.output["message"] == f"Command started in background with PID {result.output['pid']}"
    os.kill(result.output["pid"], 0)


async def test_looking_at_a_job(tool: BashTool, tmp_path: Path) -> None:
    """Its output, both streams, can be read while it runs and when it has ended, from the call and from the file."""
    pid = await _started(tool, "echo one; echo two >&2; while ! test -e go; do sleep 0.05; done; echo three; exit 7")
    status = await _until(tool, pid, stdout="one\ntwo\n")
    assert (status["status"], status["returncode"]) == ("running", None)
    (tmp_path / "project" / "go").touch()
    status = await _until(tool, pid, status="ended")
    assert (status["stdout"], status["returncode"], status["output_total_bytes"]) == ("one\ntwo\nthree\n", 7, 14)
    path = Path(status["output_file"])
    assert path.parent == tmp_path / "session" / "command-output"
    assert path.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_killing_a_job(tool: BashTool, nap: str, naps: Naps) -> None:
    """It ends with everything it started, before the answer."""
    pid = await _started(tool, f"setsid -f {nap}; {nap}; true")
    assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
    result = await tool.execute({"command": "kill", "job": pid})
    assert (result.output["status"], naps()) == ("ended", [])
    assert result.output["returncode"] < 0
    again = await tool.execute({"command": "kill", "job": pid})
    assert again.success


async def test_what_a_job_starts_is_a_part_of_it(tool: BashTool, nap: str, naps: Naps) -> None:
    """A server that detaches itself goes on, and is still known under the job."""
    pid = await _started(tool, f"setsid -f {nap}")
    assert await wait_for(lambda: len(naps()) == 1, timeout=60)
    status = await _until(tool, pid, returncode=0)
    assert status["status"] == "running"
    await tool.execute({"command": "kill", "job": pid})
    assert naps() == []


async def test_jobs_end_with_the_session(coordinator: Any, nap: str, naps: Naps) -> None:
    """Cleaning up ends all of them, also those that ignore signals."""
    cleanup = await mount(coordinator, {})
    tool = coordinator.get("tools")["bash"]
    for command in (nap, f"trap '' TERM; {nap}; {nap}", f"env -i setsid -f {nap}"):
        await _started(tool, command)
    assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
    await cleanup()
    assert naps() == []


def test_jobs_end_with_the_event_loop(coordinator: Any, nap: str, naps: Naps) -> None:
    """A program that never cleans up leaves no job either."""

    async def forget() -> None:
        await mount(coordinator, {})
        await _started(coordinator.get("tools")["bash"], nap)
        assert await wait_for(lambda: bool(naps()), timeout=60)

    asyncio.run(forget())
    assert naps() == []


async def test_a_job_that_cannot_be_started(tool: BashTool, tmp_path: Path) -> None:
    """The reason is the same as in the foreground, and no file is left open."""
    before = set(os.listdir("/proc/self/fd"))
    (tmp_path / "project").rmdir()
    result = await tool.execute({"command": "true", "run_in_background": True})
    assert result.error is not None
    assert result.error["code"] == "working_dir_missing"
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_no_place_for_the_output(tool: BashTool, tmp_path: Path) -> None:
    """A job whose output nobody could ever see is not started."""
    (tmp_path / "session").write_text("a file in place of the folder", encoding="utf-8")
    result = await tool.execute({"command": "touch ran", "run_in_background": True})
    assert result.error is not None
    assert result.error["code"] == "not_started"
    assert not (tmp_path / "project" / "ran").exists()


async def test_blocked_in_the_background_too(tool: BashTool) -> None:
    """The safety profile holds there as well."""
    result = await tool.execute({"command": "sudo reboot", "run_in_background": True})
    assert result.error is not None
    assert result.error["code"] == "blocked"


async def test_an_unknown_job(tool: BashTool, nap: str) -> None:
    """Only jobs of this session can be looked at or killed; those there are, are named."""
    pid = await _started(tool, nap)
    result = await tool.execute({"command": "kill", "job": os.getpid()})
    assert result.error is not None
    assert result.error["code"] == "unknown_job"
    assert f"Running: {pid} ({nap})" in result.output


async def test_too_many_jobs(tool: BashTool, nap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit, and an ended job makes room."""
    assert MOST_JOBS == 32
    monkeypatch.setattr("amplifier_module_tool_bash.tool.MOST_JOBS", 2)
    first = await _started(tool, nap)
    await _started(tool, nap)
    result = await tool.execute({"command": nap, "run_in_background": True})
    assert result.error is not None
    assert result.error["code"] == "too_many_jobs"
    await tool.execute({"command": "kill", "job": first})
    await _started(tool, nap)


async def test_a_job_that_floods(make_tool: MakeTool) -> None:
    """What is shown of its output is bounded like any other."""
    tool = make_tool(max_output_bytes=1000)
    pid = await _started(tool, "seq 100000")
    status = await _until(tool, pid, status="ended")
    assert status["output_total_bytes"] == 588895
    assert len(status["stdout"]) < 2000
    assert status["stdout"].endswith("\n100000\n")


async def test_cancelled_at_the_start(tool: BashTool, nap: str, naps: Naps) -> None:
    """A start that nobody waits for leaves no job."""
    task = asyncio.create_task(tool.execute({"command": nap, "run_in_background": True}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert naps() == []


def test_looking_after_a_job_is_no_command(tool: BashTool) -> None:
    """What names a job runs nothing, whatever its command says: rules may let it go unasked."""
    assert tool.action_for({"command": "status", "job": 5}) == "tool.bash_job"
    for given in ({"command": "status"}, {"command": "make", "job": 5}, {"command": "status", "job": "5"}, {}):
        assert tool.action_for(given) == "process.exec"


async def test_a_killed_job_does_not_go_on(tool: BashTool, nap: str, naps: Naps, tmp_path: Path) -> None:
    """A shell is ended before what it waits for: otherwise it would run the next command of its line."""
    for number in range(10):
        pid = await _started(tool, f"{nap}; touch {tmp_path}/went-on; true")
        assert await wait_for(lambda: len(naps()) >= 2, timeout=60), number
        await tool.execute({"command": "kill", "job": pid})
    assert not (tmp_path / "went-on").exists()
