"""Stopping a turn: once gracefully, twice at once; the chat goes on and nothing that was done is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_TOOL_THEN_MORE = """
    turns:
      - tool_calls: [{id: c1, name: gate, arguments: {}}]
      - text: This is not reached in the stopped turn.
    repeat: false
"""


def _ending(chat: Any) -> None:
    chat.send("\x04")
    assert chat.end() == 0
    names = [record["event"] for record in chat.events]
    assert names[-1] == "session:end"
    assert names.count("execution:start") == names.count("execution:end")


def test_once_lets_the_step_end(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """After one Ctrl-C the running tool ends and its result is kept, and the model is not asked again."""
    chat = start("--bundle", scripted(_TOOL_THEN_MORE, tools=True), "--trust")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.wait_for("… gate")
    chat.send("\x03")
    chat.wait_for("stopping after the current step")
    (project / "go").touch()
    chat.wait_for_prompt("stopped\n")
    assert "✔ gate" in chat.text
    assert "not reached" not in chat.text
    _ending(chat)
    assert ("tool", "the gate is open") in chat.transcript


def test_twice_stops_at_once(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """A second Ctrl-C drops the running tool; the model's history has a result that says so."""
    chat = start("--bundle", scripted(_TOOL_THEN_MORE, tools=True), "--trust")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.send("\x03")
    chat.wait_for("stopping after the current step")
    chat.send("\x03")
    chat.wait_for_prompt("stopped\n")
    assert "✘ gate" in chat.text
    _ending(chat)
    results = [text for role, text in chat.transcript if role == "tool"]
    assert len(results) == 1
    assert "cancelled" in results[0]


def test_twice_while_the_answer_streams(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """An answer that streams in is broken off, and the next prompt is answered."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("first")
    chat.wait_for("Before the gate.")
    chat.send("\x03")
    chat.wait_for("stopping after the current step")
    chat.send("\x03")
    chat.wait_for_prompt("stopped\n")
    assert "Behind the gate." not in chat.text
    (project / "go").touch()
    chat.line("second")
    chat.wait_for("Behind the gate.")
    chat.wait_for_prompt("Behind the gate.")
    _ending(chat)
    assert chat.transcript[-1] == ("assistant", "Before the gate. Behind the gate.")


def test_once_while_the_answer_streams(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """One Ctrl-C lets the answer come to its end."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("first")
    chat.wait_for("Before the gate.")
    chat.send("\x03")
    chat.wait_for("stopping after the current step")
    (project / "go").touch()
    chat.wait_for("Behind the gate.")
    chat.wait_for_prompt("Behind the gate.")
    _ending(chat)
    assert ("assistant", "Before the gate. Behind the gate.") in chat.transcript


def test_what_was_typed_is_told_when_it_was_not_sent(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """What waits for the model when a turn is stopped is not sent, and is told."""
    chat = start("--bundle", scripted(_TOOL_THEN_MORE, tools=True), "--trust")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.line("and hurry")
    chat.wait_for("1 queued")
    chat.send("\x03")
    chat.wait_for("stopping after the current step")
    chat.send("\x03")
    chat.wait_for("not sent: and hurry")
    _ending(chat)
    assert "and hurry" not in [text for _, text in chat.transcript]


def test_leaving_words_do_not_end_a_turn(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Ctrl-D and exit during a turn say how to stop it, and are not sent to the model."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("first")
    chat.wait_for("Before the gate.")
    chat.send("\x04")
    chat.wait_for("a turn runs: Ctrl-C stops it")
    chat.line("exit")
    chat.wait_until(lambda: chat.text.count("a turn runs: Ctrl-C stops it") == 2)
    (project / "go").touch()
    chat.wait_for_prompt("Behind the gate.")
    _ending(chat)
    assert [role for role, _ in chat.transcript].count("user") == 1
