"""A tool that blocks the event loop blocks no way out: the process ends, with its logs closed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli import signals
from amplifier_kit.log.reader import read_log

#: Does not let anything else run until it may go on, as long as it can be interrupted and as long as it cannot.
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
        while not pathlib.Path("go").exists():
            if not input["is_busy"]:
                time.sleep(0.05)
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

_ASKED = "press Ctrl-C again to end it"
_RULES = "rules: [{action: session.spawn, verdict: allow}, {action: test.free, verdict: allow}]\n"

#: Patience of the program: none is left after a moment, or a block that ends is never too long.
_SHORT = {f"amplifier_app_cli.signals.{name}": 0.3 for name in ("_PATIENCE", "_LONG_PATIENCE", "_NO_PATIENCE")}
_LONG = {"amplifier_app_cli.signals._LONG_PATIENCE": 600}

Signals = list[signal.Signals]
Run = Callable[..., subprocess.Popen[str]]


def _scenario(*, is_busy: bool, in_child: bool) -> str:
    call = {"id": "b1", "name": "block", "arguments": {"is_busy": is_busy}}
    work = [{"tool_calls": [call]}, {"text": "Done."}]
    if not in_child:
        return json.dumps({"turns": work})
    order = {"agent": "helper", "instruction": "Block.", "context_depth": "none"}
    delegated = {"tool_calls": [{"id": "d1", "name": "delegate", "arguments": order}]}
    return json.dumps({"turns": [delegated, {"text": "Done."}], "agents": {"helper": work}})


def _signal(process: subprocess.Popen[str], numbers: Signals) -> None:
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.1)


def _end(process: subprocess.Popen[str], numbers: Signals) -> str:
    """Wait for the end and return what was said; a signal that came together with the one before is sent again."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if _ASKED in line and len(numbers) > 1:
            process.send_signal(numbers[-1])
    process.wait(60)
    return said


def _logs(home: Path) -> list[list[tuple[str, dict[str, Any]]]]:
    found = sorted(home.glob("**/events.jsonl"))
    return [
        [(line.event, {**line.data, "status": line.get("status")}) for line in read_log(log.parent)] for log in found
    ]


@pytest.fixture
def run(
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    project: Path,
    environment: dict[str, str],
    scripted: Callable[..., str],
    add_module: Callable[[str, str], None],
    free_tools: None,
) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that runs a scenario of the blocking tool; it returns when the tool blocks."""
    add_module("tool-blocking", _BLOCKING)
    rules = Path(environment["HOME"]) / ".amplifier" / "policy.yaml"
    rules.write_text(_RULES, encoding="utf-8")

    def begin(scenario: str, constants: dict[str, float]) -> subprocess.Popen[str]:
        process = start("run", "go", "--bundle", scripted(scenario, _MORE), constants=constants)
        wait_until((project / "begun").exists, process)
        return process

    return begin


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
    run: Run,
    environment: dict[str, str],
    numbers: Signals,
    code: int,
    is_busy: bool,
    in_child: bool,
) -> None:
    """The exit code is that of the signal, a line says why, and every log of the tree has all its ends."""
    process = run(_scenario(is_busy=is_busy, in_child=in_child), _SHORT)
    _signal(process, numbers)
    said = _end(process, numbers)
    assert process.returncode == code
    assert "the session does not respond" in said
    logs = _logs(Path(environment["HOME"]))
    assert len(logs) == (2 if in_child else 1)
    for events in logs:
        names = [name for name, _ in events]
        assert names[-1] == "session:end"
        assert events[-1][1]["status"] == "cancelled"
        assert names.count("execution:start") == names.count("execution:end") == 1
        assert names.count("tool:pre") == names.count("tool:error") == 1


def test_a_first_interrupt_asks_for_another(run: Run, wait_for_line: Callable[..., None], project: Path) -> None:
    """One Ctrl-C lets the step end also where the step blocks everything, and says what a second one does."""
    process = run(_scenario(is_busy=False, in_child=False), _SHORT)
    _signal(process, [signal.SIGINT])
    wait_for_line(_ASKED, process)
    (project / "go").touch()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "it is ended" not in said


@pytest.mark.parametrize(("seconds", "number"), [(0, signal.SIGTERM), (0.5, signal.SIGTERM), (0.5, signal.SIGHUP)])
def test_a_short_block_changes_nothing(
    run: Run, project: Path, environment: dict[str, str], seconds: float, number: signal.Signals
) -> None:
    """What the loop takes up in time is taken up as ever, nothing is said of it, and what a tool has done is kept."""
    process = run(_scenario(is_busy=False, in_child=False), _LONG)
    _signal(process, [number])
    time.sleep(seconds)
    (project / "go").touch()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "does not answer" not in said
    (events,) = _logs(Path(environment["HOME"]))
    assert [data.get("written_by") for name, data in events if name == "session:end"] == [None]
    assert [name for name, _ in events if name in ("tool:post", "tool:error")] == ["tool:post"]


def test_a_block_of_seconds_is_short() -> None:
    """To mask and write a large result takes seconds: a signal waits longer for it than a person who asks again."""
    assert signals._LONG_PATIENCE > 3 > signals._PATIENCE > signals._NO_PATIENCE
