"""A person who is waited for: the live line says so, and the tool does not take that time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.chat.progress import ToolProgress
from amplifier_app_cli.ui.colour import Ink
from amplifier_core.testing import MockCoordinator

_RUN = """
    turns:
      - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
      - text: Done.
"""
_GATE = """
    turns:
      - tool_calls: [{id: c1, name: gate, arguments: {}}]
      - text: Done.
"""


class _Screen:
    width = 80
    has_live_part = True
    ink = Ink(False)

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, text: str) -> None:
        self.shown.append(text)

    def refresh(self) -> None:
        """Draw nothing."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which passes only when a test says so."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


async def test_waiting_is_not_the_tools_time(clock: list[float]) -> None:
    """The time of a question is taken off the call that ran alone, while it runs and at its end."""
    screen, hooks = _Screen(), MockCoordinator().hooks
    progress = ToolProgress(screen, lambda value: value)  # type: ignore[arg-type]
    progress.connect(hooks)
    call = {"tool_name": "run", "tool_call_id": "c1", "tool_input": {"command": "make"}}
    await hooks.emit("tool:pre", call)
    with progress.waiting():
        clock[0] += 60
        assert progress.live == "… run make (waiting for you)"
    clock[0] += 2
    assert progress.live == "… run make (2.0 s)"
    await hooks.emit("tool:post", {**call, "result": {"success": True}, "duration_ms": 62_000.0})
    assert screen.shown == ["✔ run make (2.0 s)"]


async def test_of_calls_side_by_side_nothing_is_taken_off(clock: list[float]) -> None:
    """Nobody knows which of several calls the question held up: their times stay as they were measured."""
    screen, hooks = _Screen(), MockCoordinator().hooks
    progress = ToolProgress(screen, lambda value: value)  # type: ignore[arg-type]
    progress.connect(hooks)
    calls = [{"tool_name": "run", "tool_call_id": name, "tool_input": {"command": name}} for name in ("a", "b")]
    for call in calls:
        await hooks.emit("tool:pre", call)
    with progress.waiting():
        clock[0] += 5
    await hooks.emit("tool:post", {**calls[0], "result": {"success": True}, "duration_ms": 5_000.0})
    assert screen.shown == ["✔ run a (5.0 s)"]


def test_live_line_of_a_question(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """While a question is open the live line says who is waited for, and afterwards nobody is."""
    chat = start("--bundle", scripted(_RUN, tools=True), "--trust")
    chat.line("go")
    chat.wait_for("Allow? [y/n", "waiting for you")
    assert not re.search(r"^working", chat.text, re.MULTILINE)
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert "✔ run make test" in chat.text
    assert "waiting for you" not in chat.text


def test_hint_after_the_first_interrupt(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """The live line says that Esc stops, and after one Ctrl-C that it stops at once."""
    chat = start("--bundle", scripted(_GATE, tools=True), "--trust")
    chat.line("go")
    chat.wait_for("… gate", "Esc stops")
    chat.send("\x03")
    chat.wait_until(lambda: re.search(r"^stopping \d+ s", chat.text, re.MULTILINE))
    assert re.search(r"^stopping \d+ s · Esc stops at once", chat.text, re.MULTILINE)
    (project / "go").touch()
    chat.wait_for_prompt("stopped\n")
