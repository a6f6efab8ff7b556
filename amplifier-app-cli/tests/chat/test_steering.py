"""What is typed while a turn runs: it goes to the model at work, or is the next prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_STEERED = """
    turns:
      - tool_calls: [{id: c1, name: gate, arguments: {}}]
      - {text: "I heard it.", expect: {contains: "in blue, please"}}
"""


def _end(chat: Any) -> None:
    chat.send("\x04")
    assert chat.end() == 0
    assert chat.events[-1]["event"] == "session:end"


def test_typing_steers_the_turn(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """A line typed during a turn reaches the model before its next step, and until then a badge counts it."""
    chat = start("--bundle", scripted(_STEERED, tools=True), "--trust")
    chat.line("paint it")
    chat.wait_until((project / "waiting").exists)
    chat.line("in blue, please")
    chat.wait_for("1 queued")
    (project / "go").touch()
    chat.wait_for_prompt("I heard it.")
    assert "queued" not in chat.text
    _end(chat)
    assert [text for role, text in chat.transcript if role == "user"] == ["paint it", "in blue, please"]


def test_files_do_not_come_along_meanwhile(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """A file that is named during a turn is not brought to the model, and that is said."""
    (project / "notes.md").write_text("a secret of the notes", encoding="utf-8")
    chat = start("--bundle", scripted(_STEERED, tools=True), "--trust")
    chat.line("paint it")
    chat.wait_until((project / "waiting").exists)
    chat.line("in blue, please, see @notes.md")
    chat.wait_for("before its next step; without the files")
    (project / "go").touch()
    chat.wait_for_prompt("I heard it.")
    _end(chat)
    assert "a secret of the notes" not in str(chat.transcript)


def test_half_a_line_survives_the_answer(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Input that is not sent yet stays where it is while lines appear above it."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("first")
    chat.wait_for("Before the gate.")
    chat.send("half of")
    chat.wait_for("> half of")
    (project / "go").touch()
    chat.wait_for("Behind the gate.")
    chat.wait_until(lambda: chat.text.rstrip().endswith("> half of"))
    chat.send(" a line\r")
    chat.wait_until(lambda: ("user", "half of a line") in chat.transcript)
    chat.wait_until(lambda: chat.text.count("Behind the gate.") == 2)
    chat.wait_for_prompt("Behind the gate.")
    _end(chat)
    assert [text for role, text in chat.transcript if role == "user"] == ["first", "half of a line"]


def test_loop_that_cannot_be_steered(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """With a loop that takes nothing meanwhile, the line is the next prompt, and that is said."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: gate, arguments: {}}]
          - text: First.
          - text: Second.
    """
    chat = start("--bundle", scripted(turns, tools=True, loop="loop-basic"), "--trust")
    chat.line("one")
    chat.wait_until((project / "waiting").exists)
    chat.line("two")
    chat.wait_for("it is your next prompt", "1 queued")
    (project / "go").touch()
    chat.wait_for_prompt("Second.")
    _end(chat)
    assert chat.transcript[-2:] == [("user", "two"), ("assistant", "Second.")]


def test_commands_that_look_work_meanwhile(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Commands that only look answer during a turn; those that change something wait."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("first")
    chat.wait_for("Before the gate.")
    chat.line("/status")
    chat.wait_for("conversation: 1 turn,")
    chat.line("/clear")
    chat.wait_for("/clear waits for the turn to end")
    (project / "go").touch()
    chat.wait_for_prompt("Behind the gate.")
    _end(chat)
    assert ("user", "first") in chat.transcript


def test_two_lines_at_once(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Lines that arrive before the first turn has begun are all heard."""
    chat = start("--bundle", scripted("turns: [{text: A., delay_ms: 400}, {text: B.}, {text: C.}]"))
    chat.send("one\rtwo\r")
    chat.wait_until(lambda: [text for role, text in chat.transcript if role == "user"] == ["one", "two"])
    chat.wait_for_prompt("B.")
    _end(chat)
    assert [text for role, text in chat.transcript if role == "user"] == ["one", "two"]


def test_progress_of_tools(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """A running tool has a line with its name and time, which stays, with how it ended, when it is done."""
    chat = start("--bundle", scripted(_STEERED.replace("in blue, please", "the gate is open"), tools=True), "--trust")
    chat.line("go")
    chat.wait_for("… gate", "working")
    (project / "go").touch()
    chat.wait_for_prompt("I heard it.")
    assert "✔ gate (" in chat.text
    assert "… gate" not in chat.text
    _end(chat)
