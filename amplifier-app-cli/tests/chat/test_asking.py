"""Approvals at the terminal: what is asked is shown, only a clear yes counts, and always means what was shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_WRITE = """
    turns:
      - tool_calls: [{id: c1, name: write_file, arguments: {file_path: notes.txt, content: "one\\nTWO\\nthree\\n"}}]
      - text: "Written, or not."
"""
_TWICE = """
    turns:
      - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
      - tool_calls: [{id: c2, name: run, arguments: {command: make test}}]
      - tool_calls: [{id: c3, name: run, arguments: {command: make clean}}]
      - text: Done.
"""


def _end(chat: Any) -> list[str]:
    chat.send("\x04")
    assert chat.end() == 0
    names = [record["event"] for record in chat.events]
    assert names[-1] == "session:end"
    return names


def test_write_is_shown_as_a_diff(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Before a write the change is shown as a diff, and y lets it happen."""
    (project / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust")
    chat.line("write")
    chat.wait_for_question("Allow filesystem.write?", "-two", "+TWO")
    assert "Allow? [y/n/a/e/l]" in chat.text
    assert (project / "notes.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    chat.line("y")
    chat.wait_for_prompt("Written, or not.")
    assert (project / "notes.txt").read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    assert "approval:granted" in _end(chat)


def test_no_keeps_the_file(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """With n nothing is written, and the model reads the words behind it."""
    turns = _WRITE.replace(
        'text: "Written, or not."', 'text: "Not then."\n        expect: {contains: into another file}'
    )
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.line("write")
    chat.wait_for_question("(no such file yet)", "+one")
    chat.line("n, into another file")
    chat.wait_for_prompt("Not then.")
    assert not (project / "notes.txt").exists()
    assert "✘ write_file" in chat.text
    assert "→ n, into another file" in chat.text
    assert "approval:denied" in _end(chat)


def test_always_is_exactly_what_was_shown(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Always allows the same again, in this session, and asks for another thing."""
    chat = start("--bundle", scripted(_TWICE, tools=True), "--trust")
    chat.line("go")
    chat.wait_for_question('allow process.exec command "make test"')
    chat.line("a")
    chat.wait_for_question("make clean")
    chat.line("n")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make test\nmake test\n"
    _end(chat)


def test_unknown_answers_are_no_consent(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """What is neither yes nor no is asked again, and refused in the end."""
    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust")
    chat.line("write")
    chat.wait_for_question("Allow filesystem.write?")
    chat.line("perhaps")
    for times in (1, 2):
        chat.wait_for_question("not an answer", times=times)
        chat.line("perhaps")
    chat.wait_for_prompt("Written, or not.")
    assert not (project / "notes.txt").exists()
    _end(chat)


def test_end_of_input_refuses(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Ctrl-D at a question refuses it, and the chat goes on."""
    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust")
    chat.line("write")
    chat.wait_for("Allow? [y/n/a/e/l]")
    chat.send("\x04")
    chat.wait_for_prompt("Written, or not.")
    assert not (project / "notes.txt").exists()
    assert "approval:denied" in _end(chat)


def test_interrupt_refuses_and_stops(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Ctrl-C at a question refuses it and stops the turn."""
    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust")
    chat.line("write")
    chat.wait_for("Allow? [y/n/a/e/l]")
    chat.send("\x03")
    chat.wait_for_prompt("stopped\n")
    assert not (project / "notes.txt").exists()
    _end(chat)


def test_signal_at_a_question(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """SIGTERM at a question ends the chat, with nothing done that was not allowed."""
    import signal

    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust")
    chat.line("write")
    chat.wait_for("Allow? [y/n/a/e/l]")
    chat.child.kill(signal.SIGTERM)
    assert chat.end() == 143
    assert not (project / "notes.txt").exists()
    assert chat.events[-1]["event"] == "session:end"


def test_timeout_refuses(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """A question that nobody answers in time is refused, as a timeout and not as a refusal."""
    bundle = scripted(_WRITE, tools=True)
    text = (project / bundle).read_text(encoding="utf-8")
    (project / bundle).write_text(text.replace("session:\n", "session:\n  approval_timeout: 0.5\n"), encoding="utf-8")
    chat = start("--bundle", bundle, "--trust")
    chat.line("write")
    chat.wait_for_prompt("Written, or not.")
    assert not (project / "notes.txt").exists()
    _end(chat)
    reasons = [record["data"]["reason"] for record in chat.events if record["event"] == "approval:denied"]
    assert len(reasons) == 1
    assert "timeout" in reasons[0]


def test_half_a_line_is_no_answer(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """What was being typed when a question came up is put aside, and is back when it is answered."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: gate, arguments: {}}]
          - tool_calls: [{id: c2, name: run, arguments: {command: make}}]
          - text: Done.
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.send("yes, and another thing")
    chat.wait_for("> yes, and another thing")
    (project / "go").touch()
    chat.wait_for("Allow? [y/n/a/e/l]", absent="another thing")
    chat.line("n")
    chat.wait_for("Done.", "> yes, and another thing")
    assert not (project / "ran").exists()
    chat.send("\x15")
    chat.wait_for_prompt("Done.")
    _end(chat)


def test_one_question_at_a_time(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Two calls that run side by side are asked about one after the other."""
    turns = """
        turns:
          - tool_calls:
              - {id: c1, name: run, arguments: {command: first}}
              - {id: c2, name: run, arguments: {command: second}}
          - text: Done.
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.line("go")
    chat.wait_for("Allow? [y/n/a/e/l]")
    assert chat.text.count("Allow process.exec?") == 1
    chat.line("y")
    chat.wait_for_question("Allow process.exec?", times=2)
    chat.line("n")
    chat.wait_for_prompt("Done.")
    assert len((project / "ran").read_text(encoding="utf-8").splitlines()) == 1
    _end(chat)


def test_nobody_is_asked_with_no_input(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """With --no-input a question is never put: it is denied."""
    chat = start("--bundle", scripted(_WRITE, tools=True), "--trust", "--no-input")
    chat.line("write")
    chat.wait_for_prompt("Written, or not.")
    assert "Allow?" not in chat.text
    assert not (project / "notes.txt").exists()
    _end(chat)


def test_left_to_somebody_else(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path, amplifier: Callable[..., Any]
) -> None:
    """With `l` the turn ends and the call waits; once it is allowed elsewhere, the next prompt of the chat runs it."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
          - text: "It ran."
            expect: {contains: [The call c1, go on]}
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.line("go")
    chat.wait_for_question("leave it to another approver")
    chat.line("l")
    chat.wait_for_prompt("left to another approver: Allow process.exec?")
    assert "1 call left to `amplifier approval`" in chat.text
    assert not (project / "ran").exists()
    session = next(record["session_id"] for record in chat.events)
    allowed = amplifier("approval", "allow", session)
    assert allowed.returncode == 0, allowed.stderr
    chat.line("go on")
    chat.wait_for_prompt("It ran.")
    assert (project / "ran").read_text(encoding="utf-8") == "make test\n"
    (granted,) = [record["data"] for record in chat.events if record["event"] == "approval:granted"]
    assert (granted["answered_by"]["kind"], granted["answered_by"]["via"]) == ("person", "approval")
    names = _end(chat)
    assert names.count("approval:escalated") == 1
    assert names.count("approval:answered") == 1
