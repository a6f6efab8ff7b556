"""A tool that blocks the event loop blocks no way out: the process ends, with its logs closed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.log import read_log

#: Does not let anything else run, as long as it can be interrupted and as long as it cannot.
_BLOCKING = """\
import pathlib, time
from amplifier_core import ToolResult

class Block:
    name = "block"
    description = "Block everything"
    input_schema = {"type": "object", "properties": {}}
    action = "test.free"
    async def execute(self, input):
        pathlib.Path("begun").touch()
        until = time.monotonic() + input["seconds"]
        while input["is_busy"] and time.monotonic() < until:
            pass
        time.sleep(max(0, until - time.monotonic()))
        return ToolResult(output="done")

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Block())
"""

_MORE = """\
tools:
  - {module: tool-blocking}
  - {module: tool-delegate}
agents:
  helper: {description: helps, instruction: You help.}
"""

_RULES = "rules: [{action: session.spawn, verdict: allow}, {action: test.free, verdict: allow}]\n"

Signals = list[signal.Signals]


def _scenario(*, is_busy: bool, in_child: bool, seconds: float = 120) -> str:
    call = {"id": "b1", "name": "block", "arguments": {"seconds": seconds, "is_busy": is_busy}}
    work = [{"tool_calls": [call]}, {"text": "Done."}]
    if not in_child:
        return json.dumps({"turns": work})
    order = {"agent": "helper", "instruction": "Block.", "context_depth": "none"}
    delegated = {"tool_calls": [{"id": "d1", "name": "delegate", "arguments": order}]}
    return json.dumps({"turns": [delegated, {"text": "Done."}], "agents": {"helper": work}})


def _stopped(process: subprocess.Popen[str], project: Path, numbers: Signals) -> tuple[int, float, str]:
    """Send signals when the tool has begun; return the exit code, the seconds until then, and what was said."""
    for _ in range(6000):
        if (project / "begun").exists():
            break
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.1)  # the file is there just before the tool blocks
    started = time.monotonic()
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.1)
    _, said = process.communicate(timeout=60)
    return process.returncode, time.monotonic() - started, said


def _logs(home: Path) -> list[list[tuple[str, dict[str, Any]]]]:
    found = sorted(home.glob("**/events.jsonl"))
    return [
        [(line.event, {**line.data, "status": line.get("status")}) for line in read_log(log.parent)] for log in found
    ]


@pytest.fixture
def run(
    project: Path,
    environment: dict[str, str],
    scripted: Callable[..., str],
    add_module: Callable[[str, str], None],
    free_tools: None,
) -> Any:
    """Return a function that runs a scenario of the blocking tool, stops it, and tells how it ended."""
    add_module("tool-blocking", _BLOCKING)
    rules = Path(environment["HOME"]) / ".amplifier" / "policy.yaml"
    rules.write_text(_RULES, encoding="utf-8")

    def start(scenario: str, numbers: Signals) -> tuple[int, float, str]:
        bundle = scripted(scenario, _MORE)
        command = [sys.executable, "-m", "amplifier_app_cli", "run", "go", "--bundle", bundle]
        with subprocess.Popen(
            command,
            cwd=project,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                return _stopped(process, project, numbers)
            finally:
                process.kill()

    return start


@pytest.mark.parametrize("in_child", [False, True])
@pytest.mark.parametrize(
    ("numbers", "code", "is_busy"),
    [
        ([signal.SIGTERM], 143, False),
        ([signal.SIGHUP], 129, True),
        ([signal.SIGINT] * 2, 130, True),
        ([signal.SIGINT] * 3, 130, False),
    ],
)
def test_a_signal_ends_a_session_that_is_blocked(
    run: Any, environment: dict[str, str], numbers: Signals, code: int, is_busy: bool, in_child: bool
) -> None:
    """The exit code is that of the signal, a line says why, and every log of the tree has all its ends."""
    ended, seconds, said = run(_scenario(is_busy=is_busy, in_child=in_child), numbers)
    assert ended == code
    assert seconds < 30  # far less than the tool would take, however busy the machine is
    assert "the session does not answer" in said
    logs = _logs(Path(environment["HOME"]))
    assert len(logs) == (2 if in_child else 1)
    for events in logs:
        names = [name for name, _ in events]
        assert names[-1] == "session:end"
        assert events[-1][1]["status"] == "cancelled"
        assert names.count("execution:start") == names.count("execution:end") == 1
        assert names.count("tool:pre") == names.count("tool:error") == 1


def test_a_first_interrupt_asks_for_another(run: Any) -> None:
    """One Ctrl-C lets the step end also where the step blocks everything, and says what a second one does."""
    ended, _, said = run(_scenario(is_busy=False, in_child=False, seconds=4), [signal.SIGINT])
    assert ended == 130
    assert "press Ctrl-C again to end it" in said
    assert "it is ended" not in said


@pytest.mark.parametrize(("seconds", "numbers"), [(0.5, [signal.SIGTERM]), (3, [signal.SIGTERM]), (3, [signal.SIGHUP])])
def test_a_short_block_changes_nothing(run: Any, environment: dict[str, str], seconds: float, numbers: Signals) -> None:
    """What the loop takes up in time is taken up as ever, nothing is said of it, and what a tool has done is kept."""
    ended, _, said = run(_scenario(is_busy=False, in_child=False, seconds=seconds), numbers)
    assert ended == 128 + numbers[0]
    assert "does not answer" not in said
    (events,) = _logs(Path(environment["HOME"]))
    assert [data.get("written_by") for name, data in events if name == "session:end"] == [None]
    assert [name for name, _ in events if name in ("tool:post", "tool:error")] == ["tool:post"]
