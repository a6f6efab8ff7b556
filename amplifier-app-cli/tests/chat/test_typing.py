"""Typing at the prompt: several lines, pasting, what was typed before, and completion."""

from __future__ import annotations

import os
import stat
import termios
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.chat.prompt_screen import read_typed, typed_ahead

_ANSWERS = "{turns: [{text: Yes.}], repeat: true}"


def _users(chat: Any) -> list[str]:
    return [text for role, text in chat.transcript if role == "user"]


def _end(chat: Any) -> None:
    chat.send("\x04")
    assert chat.end() == 0
    assert chat.events[-1]["event"] == "session:end"


def test_banner_says_what_one_talks_with(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """One line names program, bundle and model, one says what the session may do; nothing else precedes the prompt."""
    chat = start("--bundle", scripted(_ANSWERS), columns=200)
    first, second, prompt = chat.text.strip().splitlines()
    for part in ("amplifier 3.0.0", "scripted 1.0.0", "mock (mock-model)", f"session {chat.folder.name[:8]}"):
        assert part in first
    assert second == "permissions: ask · project not trusted · /help · Ctrl-D leaves."
    assert prompt == ">"
    _end(chat)


def test_new_line_and_submit(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Ctrl-J makes a new line, Enter sends all of them as one prompt."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send("one\ntwo\nthree")
    chat.wait_for("> one", "three")
    assert "Yes." not in chat.text
    chat.send("\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["one\ntwo\nthree"]


def test_paste_is_one_input(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """What is pasted is one input, whatever line ends it has, and is sent by Enter alone."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send("\x1b[200~first\r\nsecond\rthird\nfourth\x1b[201~")
    chat.wait_for("> first", "fourth")
    assert "Yes." not in chat.text
    chat.send("\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["first\nsecond\nthird\nfourth"]


def test_blank_input_is_no_prompt(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Enter on nothing, or on blanks, asks nobody anything."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send("\r   \r")
    chat.line("real")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["real"]


def test_typed_before_the_prompt(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """What is typed while the program starts is the first prompt."""
    # Not forked: the interpreter itself has to read this variable.
    chat = start("--bundle", scripted(_ANSWERS), is_ready=False, PYTHONHASHSEED="0")
    chat.send("early\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["early"]


def test_typed_while_the_terminal_changes() -> None:
    """What is typed before and after a terminal stops to read lines are lines and the keys of the next one."""
    master, terminal = os.openpty()
    try:
        os.write(master, b"first\rsec")
        typed = read_typed(terminal)
        tty.setraw(terminal, termios.TCSANOW)
        os.write(master, b"ond\rhalf\x1b[D")
        lines, keys = typed_ahead(typed + read_typed(terminal))
    finally:
        os.close(master)
        os.close(terminal)
    assert lines == ["first", "second"]
    assert [press.key for press in keys] == ["h", "a", "l", "f", "left"]


def test_half_a_line_before_the_prompt(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Half a line that was typed while the program starts is in the prompt, to be finished there."""
    chat = start("--bundle", scripted(_ANSWERS), is_ready=False, PYTHONHASHSEED="0")
    chat.send("ear")
    chat.wait_for("> ear", "leaves.")
    chat.send("ly\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["early"]


def test_history_is_kept_for_the_project(
    start: Callable[..., Any], scripted: Callable[..., str], environment: dict[str, str]
) -> None:
    """Inputs come back with the arrow key, in the next chat too; the file is the owner's alone."""
    bundle = scripted(_ANSWERS)
    before = os.umask(0o022)
    try:
        chat = start("--bundle", bundle)
    finally:
        os.umask(before)
    chat.line("remember this")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    [file] = Path(environment["HOME"]).glob(".amplifier/projects/*/repl_history")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    chat = start("--bundle", bundle)
    chat.send("\x1b[A")
    chat.wait_for("> remember this")
    chat.send("\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["remember this"]


def test_history_holds_no_secrets(
    start: Callable[..., Any], scripted: Callable[..., str], environment: dict[str, str]
) -> None:
    """A secret of the environment that is typed does not get into the history file."""
    chat = start("--bundle", scripted(_ANSWERS), ACME_API_KEY="opensesame-1234567890")
    chat.line("is opensesame-1234567890 a good key?")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    [file] = Path(environment["HOME"]).glob(".amplifier/projects/*/repl_history")
    text = file.read_text(encoding="utf-8")
    assert "a good key?" in text
    assert "opensesame" not in text


def test_history_search(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Ctrl-R finds what was typed before."""
    chat = start("--bundle", scripted(_ANSWERS))
    for number, text in enumerate(("the quick fox", "a lazy dog"), start=1):
        chat.line(text)
        chat.wait_until(lambda number=number: chat.text.count("out ·") == number)
        chat.wait_for_prompt("out ·")
    chat.send("\x12quick")
    chat.wait_for("the quick fox\n", "quick")
    chat.send("\r\r")
    chat.wait_until(lambda: chat.text.count("out ·") == 3)
    chat.wait_for_prompt("out ·")
    _end(chat)
    assert _users(chat) == ["the quick fox", "a lazy dog", "the quick fox"]


def test_files_are_completed_behind_an_at_sign(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """`@` offers files of the project, and the chosen one comes along with the prompt."""
    (project / "src").mkdir()
    (project / "src" / "window.txt").write_text("a broken window", encoding="utf-8")
    chat = start("--bundle", scripted("turns: [{text: Yes., expect: {contains: a broken window}}]"))
    chat.send("look at @wind")
    chat.wait_for("src/window.txt")
    chat.send("\t")
    chat.wait_for("> look at @src/window.txt")
    chat.send("\r")
    chat.send("\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert "look at @src/window.txt" in _users(chat)[-1]


def test_commands_are_completed(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A slash at the beginning offers the commands with what they are for."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send("/sta")
    chat.wait_for("Show what this session is")
    chat.send("\t\r\r")
    chat.wait_for_prompt("conversation: 0 turns")
    assert "> /status" in chat.text
    _end(chat)
    assert _users(chat) == []


def test_path_at_the_beginning_is_a_prompt(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A prompt that begins with a path is no command."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.line("/etc/hosts says what?")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == ["/etc/hosts says what?"]


@pytest.mark.parametrize("text", ["日本語の文章", "e\u0301té 🎉", "a\tb"])
def test_any_script_can_be_typed(start: Callable[..., Any], scripted: Callable[..., str], text: str) -> None:
    """Wide, combined and odd characters reach the model as they were pasted."""
    chat = start("--bundle", scripted(_ANSWERS))
    chat.send(f"\x1b[200~{text}\x1b[201~\r")
    chat.wait_for_prompt("Yes.")
    _end(chat)
    assert _users(chat) == [text]
