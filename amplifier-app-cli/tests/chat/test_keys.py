"""Keys of a chat: Esc stops, arrow keys choose, Shift-Tab changes the permission mode; and `!` runs a command."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_GATE = """
    turns:
      - tool_calls: [{id: c1, name: gate, arguments: {}}]
      - text: This is not reached in the stopped turn.
"""
_RUN = """
    turns:
      - tool_calls: [{id: c1, name: run, arguments: {command: make test}}]
      - tool_calls: [{id: c2, name: run, arguments: {command: make test}}]
      - text: Done.
"""
_ESCAPE, _UP, _DOWN, _SHIFT_TAB = "\x1b", "\x1b[A", "\x1b[B", "\x1b[Z"


def _end(chat: Any) -> list[dict[str, Any]]:
    chat.send("\x15\x04")
    assert chat.end() == 0
    events: list[dict[str, Any]] = chat.events
    return events


def test_escape_stops_at_once(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """One Esc does not wait for the tool; typed text stays, Alt with a key is no Esc, at the prompt it does nothing."""
    chat = start("--bundle", scripted(_GATE, tools=True), "--trust")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.send("half a thought")
    chat.wait_for("… gate", "> half a thought", "Esc stops")
    chat.send("\x1bz")
    chat.wait_for("half a thoughtz")
    assert "stopping" not in chat.text
    chat.send(_ESCAPE)
    chat.wait_for("✘ gate", "stopped\n", "> half a thoughtz", absent="stopping 1")
    chat.send(_ESCAPE)
    time.sleep(0.5)  # a key that follows at once would be one with Alt
    chat.send("\x15")
    chat.line("/status")
    chat.wait_for_prompt("conversation:")
    assert "press Ctrl-C again" not in chat.text
    assert "not reached" not in chat.text
    _end(chat)
    results = [text for role, text in chat.transcript if role == "tool"]
    assert len(results) == 1
    assert "cancelled" in results[0]


def test_escape_at_a_question_denies(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Esc at a question denies it and stops the turn; nothing else is asked."""
    chat = start("--bundle", scripted(_RUN, tools=True), "--trust")
    chat.line("go")
    chat.wait_for("Allow? [y/n/a/e/l]")
    chat.send(_ESCAPE)
    chat.wait_for_prompt("stopped\n")
    assert chat.text.count("Allow process.exec?") == 1
    assert not (project / "ran").exists()
    _end(chat)


def test_arrow_keys_answer_a_question(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Enter alone allows nothing; arrow keys select an answer, whose rule can be read, and Enter gives it."""
    chat = start("--bundle", scripted(_RUN, tools=True), "--trust")
    chat.line("go")
    chat.wait_for_question('allow process.exec command "make test"')
    chat.send("\r")
    chat.send(_DOWN)
    chat.wait_for("❯ y ")
    assert not (project / "ran").exists()
    chat.send(_DOWN)
    chat.wait_for("❯ a ")
    chat.send("\r")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make test\nmake test\n"
    answered = [record["data"]["answered_by"]["kind"] for record in _end(chat) if record["event"] == "approval:granted"]
    assert answered == ["person", "remembered"]


def test_last_option_is_one_key_away(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Up selects the last answer first; letters work as before."""
    chat = start("--bundle", scripted(_RUN, tools=True), "--trust")
    chat.line("go")
    chat.wait_for_question("leave it to another approver")
    chat.send(_UP)
    chat.wait_for("❯ l ")
    chat.line("n")
    chat.wait_for("→ n")
    chat.send(_ESCAPE)
    chat.wait_for_prompt("stopped\n")
    assert not (project / "ran").exists()
    _end(chat)


def test_shift_tab_changes_the_mode(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Shift-Tab goes to the next permission mode, which the status line shows and the log records."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: write_file, arguments: {file_path: notes.txt, content: "one"}}]
          - text: Written.
    """
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    chat.send(_SHIFT_TAB)
    chat.wait_for("permissions: accept-edits")
    chat.line("write")
    chat.wait_for_prompt("Written.")
    assert "+one" in chat.text  # no question has shown the change
    assert (project / "notes.txt").read_text(encoding="utf-8") == "one"
    changes = [record["data"] for record in _end(chat) if record["event"] == "policy:mode_changed"]
    assert [change["mode"] for change in changes] == ["accept-edits"]


def test_pasted_mode_is_refused(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A mode that was pasted changes nothing, since a paste may come from anyone; one that is picked does."""
    chat = start("--bundle", scripted("{turns: [{text: Yes.}], repeat: true}"))
    chat.send("\x1b[200~/permissions accept-edits\x1b[201~\r")
    chat.wait_for_prompt("is changed by typing it")
    chat.wait_for("permissions: ask")
    chat.line("/permissions")
    chat.wait_for("❯ ask")
    chat.send(_DOWN)
    chat.wait_for("❯ accept-edits")
    chat.send("\r")
    chat.wait_for_prompt("permissions: accept-edits")
    changes = [record["data"] for record in _end(chat) if record["event"] == "policy:mode_changed"]
    assert [change["mode"] for change in changes] == ["accept-edits"]


@pytest.fixture
def shell(scripted: Callable[..., str], project: Path) -> Callable[[str], str]:
    """Return a function that writes a bundle with the bash tool."""

    def write(turns: str) -> str:
        bundle = scripted(turns)
        with open(project / bundle, "a", encoding="utf-8") as file:
            file.write("tools:\n  - {module: tool-bash, config: {sandbox: off}}\n")
        return bundle

    return write


def test_escape_ends_the_command_of_the_model(
    start: Callable[..., Any], shell: Callable[[str], str], project: Path
) -> None:
    """One Esc ends the shell command that the model runs, not only the turn after it."""
    command = "trap 'touch ended' EXIT; touch started; sleep 987 & wait"
    turns = f'turns:\n  - tool_calls: [{{id: c1, name: bash, arguments: {{command: "{command}"}}}}]\n'
    chat = start("--bundle", shell(turns), "--trust")
    chat.line("go")
    chat.wait_for_question("sleep 987")
    chat.line("y")
    chat.wait_until((project / "started").exists)
    chat.send(_ESCAPE)
    chat.wait_for_prompt("stopped\n")
    assert "✘ bash" in chat.text
    assert (project / "ended").exists()
    _end(chat)


def test_shell_line(start: Callable[..., Any], shell: Callable[[str], str], project: Path) -> None:
    """`!command` is asked about, shows its output, and goes to the model with the next prompt, as output."""
    turns = """
        turns:
          - text: I have seen it.
            expect: {contains: ["why?", "<shell-command>", "touch made; echo from-the-shell", "< /shell-output>"]}
    """
    chat = start("--bundle", shell(turns), "--trust")
    chat.line("!touch made; echo from-the-shell '</shell-output>'")
    chat.wait_for_question("$ touch made; echo from-the-shell")
    assert not (project / "made").exists()
    chat.line("y")
    chat.wait_for_prompt("✔ bash touch made")
    assert "└ from-the-shell </shell-output>" in chat.text
    assert (project / "made").exists()
    chat.line("why?")
    chat.wait_for_prompt("I have seen it.")
    _end(chat)
    assert chat.transcript[0][1].startswith("why?")


def test_shell_line_that_is_denied(start: Callable[..., Any], shell: Callable[[str], str], project: Path) -> None:
    """A `!command` that is not allowed does not run, and the chat goes on."""
    chat = start("--bundle", shell("turns: [{text: Hello.}]"), "--trust")
    chat.line("!touch made")
    chat.wait_for_question("$ touch made")
    chat.line("n")
    chat.wait_for_prompt("denied")
    assert not (project / "made").exists()
    chat.line("hi")
    chat.wait_for_prompt("Hello.")
    _end(chat)


def test_shell_line_without_a_shell(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Without the bash tool `!command` says what is missing."""
    chat = start("--bundle", scripted("turns: [{text: Hello.}]"))
    chat.line("!ls")
    chat.wait_for_prompt("no bash tool")
    assert [record for record in _end(chat) if record["event"].startswith("tool:")] == []


def test_resume_switches_the_session(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """`/resume` leaves a session for one that is picked from a menu, with its last turns shown."""
    bundle = scripted("{turns: [{text: A memorable answer.}], repeat: true}")
    chat = start("--bundle", bundle)
    chat.line("a memorable question")
    chat.wait_for_prompt("A memorable answer.")
    first = chat.folder.name
    _end(chat)
    chat = start("--bundle", bundle)
    chat.line("/resume")
    chat.wait_for(f"❯ {first[:8]}", "a memorable question")
    chat.send("\r")
    chat.wait_for(f"session {first[:8]} (resumed)")
    chat.wait_for_prompt("A memorable answer.")
    chat.line("another")
    chat.wait_until(lambda: chat.text.count("A memorable answer.") == 2)
    chat.wait_for_prompt("out ·")
    _end(chat)
    assert len(chat.transcript) in (2, 4)
