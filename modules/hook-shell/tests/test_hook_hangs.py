"""A hook that hangs, in whatever way, holds a session up for its time and no longer, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_hook_shell import shell_hooks as shell_hooks_module

Group = Callable[..., list[dict[str, Any]]]


def _is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text(encoding="utf-8").split()]


HANGING = {
    "sleep": "sleep 600",
    "deaf": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "stopped": "kill -STOP $$; sleep 600",
    "own session": "setsid sleep 600 & echo $! >>pids; sleep 600",
    "nohup": "nohup sleep 600 >/dev/null 2>&1 & echo $! >>pids; sleep 600",
    "busy": "while :; do :; done",
    "flood": "yes",
    "terminal": "exec 0</dev/tty || sleep 600",
}


@pytest.mark.parametrize("kind", sorted(HANGING))
async def test_hook_hang_ends_at_its_deadline(make_rig: Any, group: Group, project: Path, kind: str) -> None:
    """Whatever a hook does instead of ending, it is ended with all it started, and the call is refused."""
    for seconds in (0.3, 8, 64):  # more than once only on a machine that is very busy
        rig = await make_rig({"PreToolUse": group(f"echo $$ >>pids; {HANGING[kind]}", timeout=seconds)})
        async with asyncio.timeout(60 + seconds):
            assert await rig.run() == "done"
        assert rig.tools["bash"].inputs == []
        assert rig.reports() == [("hook-shell:timeout", "timeout", "deny")]
        if pids := _pids(project / "pids") if (project / "pids").exists() else []:
            break
    assert pids
    assert [pid for pid in pids if not _is_gone(pid)] == []


async def test_hook_hang_on_input_is_none(make_rig: Any, group: Group) -> None:
    """A hook that reads until there is no more is at the end: its input is closed after the JSON."""
    rig = await make_rig({"PreToolUse": group("cat >/dev/null; cat; read line; true", timeout=50)})
    await rig.run()
    assert rig.reports() == [("hook-shell:ran", "ok", "continue")]


async def test_hook_hang_of_a_daemon_holds_nobody(make_rig: Any, group: Group, project: Path) -> None:
    """A hook that ends but leaves a process that holds its output is over, and that process is ended."""
    rig = await make_rig({"PreToolUse": group("(setsid sleep 600 & echo $! >>pids) ; true", timeout=50)})
    async with asyncio.timeout(40):
        await rig.run()
    assert len(rig.tools["bash"].inputs) == 1
    assert [pid for pid in _pids(project / "pids") if not _is_gone(pid)] == []


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"])
async def test_hook_hang_anywhere_is_bounded(make_rig: Any, group: Group, event: str) -> None:
    """A hook may hang on any event: the session goes on, or refuses, and ends."""
    rig = await make_rig({event: group("sleep 600", timeout=0.2)})
    async with asyncio.timeout(60):
        answer = await rig.run()
        await rig.session.cleanup()
    [late] = rig.heard("hook-shell:timeout")
    assert late["hook_event"] == event
    is_gate = event == "UserPromptSubmit"
    assert late["verdict"] == ("deny" if is_gate else "continue")
    assert ("timeout" in answer) == is_gate
    assert len(rig.tools["bash"].inputs) == (0 if is_gate else 1)


@pytest.mark.parametrize("is_trusted", [True, False])
@pytest.mark.parametrize("name", [".amplifier/hooks/hooks.json", ".claude/settings.json"])
async def test_hook_hang_on_a_pipe_that_is_no_file(make_rig: Any, project: Path, name: str, is_trusted: bool) -> None:
    """A pipe in the place of a hooks file is not waited for, whosever project it is in, and is reported."""
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(project / name)
    rig = await make_rig(is_trusted=is_trusted)
    async with asyncio.timeout(60):
        assert await rig.run() == "done"
    [report] = rig.heard("hook-shell:failed")
    assert (report["hook"], report["error"]) == (name, "the file cannot be read: not a regular file")


async def test_hook_hang_on_a_pipe_for_variables(make_rig: Any, group: Group) -> None:
    """A hook that puts a pipe where variables are left holds up neither itself nor those after it."""
    swap = 'rm "$AMPLIFIER_ENV_FILE"; mkfifo "$AMPLIFIER_ENV_FILE"'
    rig = await make_rig({"PreToolUse": group(swap, "true", timeout=50)})
    async with asyncio.timeout(60):
        assert await rig.run() == "done"
    assert rig.reports() == [("hook-shell:ran", "ok", "continue")] * 2


async def test_hook_hang_stays_within_the_time_of_handlers(
    make_rig: Any, group: Group, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks that together want more than the session gives a handler are cut off, and what waits is refused."""
    # Half of the 1,000 seconds of a handler are kept in reserve, and all clocks of this process jump.
    monkeypatch.setattr(shell_hooks_module, "_RESERVE_SHARE", 0.5)
    monkeypatch.setattr(shell_hooks_module, "_RESERVE_MOST", 500.0)
    skipped, real = list[int](), time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + sum(skipped))
    first, second = "touch first; until [ -e go ]; do sleep 0.01; done", "touch second; sleep 6000"
    rig = await make_rig({"PreToolUse": group(first, second, timeout=400)}, session={"hook_timeout": 1000.0})
    turn = asyncio.create_task(rig.run())
    assert await wait_for((project / "first").exists, timeout=60)
    skipped.append(300)
    (project / "go").touch()
    assert await wait_for((project / "second").exists, timeout=60)
    skipped.append(300)
    async with asyncio.timeout(60):
        await turn
    assert rig.tools["bash"].inputs == []
    assert rig.reports() == [("hook-shell:ran", "ok", "continue"), ("hook-shell:timeout", "timeout", "deny")]


async def test_hook_hang_when_the_turn_is_cancelled(make_rig: Any, group: Group, project: Path) -> None:
    """Whoever cancels the turn gets it back when the hook and all it started are gone."""
    rig = await make_rig({"PreToolUse": group("echo $$ >>pids; sleep 600 & echo $! >>pids; wait", timeout=500)})
    turn = asyncio.create_task(rig.run())
    await wait_for(lambda: (project / "pids").exists() and len(_pids(project / "pids")) == 2, timeout=60)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    pids = _pids(project / "pids")
    await wait_for(lambda: all(map(_is_gone, pids)), timeout=60)
    assert rig.tools["bash"].inputs == []


async def test_hook_hang_leaves_the_event_loop_alone(make_rig: Any, group: Group, project: Path) -> None:
    """While a hook runs, everything else in the process goes on: here it is what lets the hook end."""
    rig = await make_rig({"PreToolUse": group("touch began; until [ -e go ]; do sleep 0.02; done", timeout=50)})
    turn = asyncio.create_task(rig.run())
    await wait_for((project / "began").exists, timeout=60)
    (project / "go").touch()
    await turn
    assert rig.reports() == [("hook-shell:ran", "ok", "continue")]
