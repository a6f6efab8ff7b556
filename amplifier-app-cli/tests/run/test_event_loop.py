"""The program comes to its end although a module does not end what it has begun."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_app_cli.event_loop import EventLoop

#: Keeps its cancellation to itself, or waits in a thread, which nobody can cancel.
_STUCK = """\
import asyncio, pathlib, time
from amplifier_core import ToolResult

class Wait:
    name = "wait"
    description = "Wait for ever"
    input_schema = {"type": "object", "properties": {}}
    action = "test.free"
    async def execute(self, input):
        pathlib.Path("begun").touch()
        if input["in_thread"]:
            await asyncio.to_thread(time.sleep, 3600)
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

async def mount(coordinator, config=None):
    Wait.deadline = config["deadline"]
    await coordinator.mount("tools", Wait())
"""

Start = Callable[..., "subprocess.Popen[str]"]
#: Longest wait for what is abandoned at the end.
_SOON = {"amplifier_app_cli.event_loop.GRACE": 0.2}


def _turns(in_thread: bool, answer: str) -> str:
    call = f"{{id: c1, name: wait, arguments: {{in_thread: {str(in_thread).lower()}}}}}"
    return f"turns: [{{tool_calls: [{call}]}}, {{text: {answer}}}]"


@pytest.fixture
def stuck(add_module: Callable[[str, str], None], free_tools: None) -> str:
    """Return the lines of a bundle that add a tool which never ends."""
    add_module("tool-stuck", _STUCK)
    return "tools:\n  - {module: tool-stuck, config: {deadline: 600}}\n"


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_run_that_was_told_to_stop_ends(
    start: Start,
    wait_until: Callable[..., None],
    project: Path,
    scripted: Callable[..., str],
    stuck: str,
    in_thread: bool,
) -> None:
    """A tool that does not stop keeps nobody: the exit code says that the run was stopped."""
    bundle = scripted(_turns(in_thread, "never"), stuck)
    process = start("run", "go", "--bundle", bundle, constants=_SOON)
    wait_until((project / "begun").exists, process)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 143, error


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_run_that_has_its_answer_ends(
    start: Start, scripted: Callable[..., str], stuck: str, in_thread: bool
) -> None:
    """A tool that was given up on keeps nobody: the answer is printed, the exit code is that of success."""
    bundle = scripted(_turns(in_thread, "I go on."), stuck.replace("600", "0.2"))
    process = start("run", "go", "--bundle", bundle, constants=_SOON)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, "I go on.")
    assert "left behind" in error


def test_what_ends_is_waited_for() -> None:
    """A task that finishes something in another one when it is told to end has the time for it."""
    finished: list[str] = []

    async def finish() -> None:
        await asyncio.sleep(0.01)
        finished.append("closed")

    async def stay() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.wait([asyncio.ensure_future(finish())])

    async def work() -> int:
        asyncio.ensure_future(stay()).add_done_callback(lambda task: finished.append("ended"))
        await asyncio.sleep(0)
        return 0

    loop = EventLoop()
    assert loop.run(work()) == 0
    assert loop.is_over
    assert finished == ["closed", "ended"]
