"""The answer `edit`, in a real terminal with a real editor: what runs is what the person has made of the input."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_RUN = """
    turns:
      - tool_calls: [{id: c1, name: run, arguments: {command: make clean}}]
      - text: Done.
"""
#: Replaces a word, and notes what it was given and who may read it.
_REPLACING = """\
import json, os, pathlib, sys
file = pathlib.Path(sys.argv[1])
modes = [oct(path.stat().st_mode & 0o777) for path in (file, file.parent)]
seen = json.dumps([str(file), *modes, file.read_text("utf-8")])
pathlib.Path(os.environ["PROJECT"], "seen.json").write_text(seen, "utf-8")
file.write_text(file.read_text("utf-8").replace("clean", "check"), "utf-8")
"""
#: Has the terminal for itself: it asks there, and waits for an answer.
_ASKING = """\
import os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
file = pathlib.Path(sys.argv[1])
pathlib.Path(os.environ["PROJECT"], "pid").write_text(str(os.getpid()))
file.write_text(file.read_text("utf-8").replace("clean", input("what instead? ")), "utf-8")
"""
_BREAKING = """\
import pathlib, sys
file = pathlib.Path(sys.argv[1])
text = file.read_text("utf-8")
file.write_text(text.replace("clean", "check") if "broken" in text else text.replace('"', "broken", 1), "utf-8")
if "broken" in text:
    file.write_text('{"command": "make check"}', "utf-8")
"""


@pytest.fixture
def begin(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path, tmp_path: Path, environment: dict[str, str]
) -> Callable[[str], Any]:
    """Return a function that starts a chat with an editor and goes as far as the question."""

    def go(editor: str, **more: str) -> Any:
        tools = tmp_path / "tools"
        tools.mkdir()
        # A short name: errors tell it, and what a line has room for is not to depend on where Python is.
        (tools / "change").write_text(f"#!{sys.executable}\n{editor}", encoding="utf-8")
        (tools / "change").chmod(0o755)
        path = os.pathsep.join((str(tools), environment["PATH"]))
        named = {"EDITOR": "change", "PROJECT": str(project), "PATH": path, **more}
        chat = start("--bundle", scripted(_RUN, tools=True), "--trust", **named)
        chat.line("go")
        chat.wait_for_question("Allow process.exec?", "make clean", "change the input first")
        assert "Allow? [y/n/a/e/l]" in chat.text
        return chat

    return go


def _end(chat: Any) -> None:
    chat.send("\x04")
    assert chat.end() == 0
    assert chat.events[-1]["event"] == "session:end"


def _data(chat: Any, event: str) -> list[dict[str, Any]]:
    return [record["data"] for record in chat.events if record["event"] == event]


def test_what_the_editor_leaves_is_what_runs(begin: Callable[..., Any], project: Path) -> None:
    """The changed input is shown and asked about again; the tool gets it, and the log has both."""
    chat = begin(_REPLACING)
    chat.line("e")
    chat.wait_for('+  "command": "make check"', absent="Traceback")
    chat.wait_for_question("Allow process.exec?", times=2)
    assert not (project / "ran").exists()
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make check\n"
    _end(chat)
    assert [data["tool_input"] for data in _data(chat, "tool:pre")] == [
        {"command": "make clean"},
        {"command": "make check"},
    ]
    assert [data["tool_input"] for data in _data(chat, "tool:post")] == [{"command": "make check"}]
    assert [data["details"]["tool_input"] for data in _data(chat, "approval:granted")] == [{"command": "make check"}]
    assert [data["details"]["tool_input"] for data in _data(chat, "approval:denied")] == [{"command": "make clean"}]
    assert any("changed the input" in text for role, text in chat.transcript if role == "tool")


def test_the_file_is_private_and_goes_away(begin: Callable[..., Any], project: Path) -> None:
    """Nobody else can read the file that the editor gets, and it is gone when the editor is."""
    chat = begin(_REPLACING)
    chat.line("edit")
    chat.wait_for_question("Allow process.exec?", times=2)
    chat.line("n")
    chat.wait_for_prompt("Done.")
    file, *modes, text = json.loads((project / "seen.json").read_text(encoding="utf-8"))
    assert modes == [oct(stat.S_IRUSR | stat.S_IWUSR), oct(stat.S_IRWXU)]
    assert json.loads(text) == {"command": "make clean"}
    assert not Path(file).parent.exists()
    assert not (project / "ran").exists()
    _end(chat)


def test_the_editor_has_the_terminal(begin: Callable[..., Any], project: Path) -> None:
    """What is typed while the editor runs goes to the editor, and afterwards to the chat again."""
    chat = begin(_ASKING, VISUAL="change", EDITOR="false")
    chat.line("e")
    chat.wait_for("what instead?")
    chat.send("everything\n")
    chat.wait_for('+  "command": "make everything"')
    chat.wait_for_question("Allow process.exec?", times=2)
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make everything\n"
    chat.line("/cost")
    chat.wait_for_prompt("> /cost")
    _end(chat)


def test_what_is_no_json_is_asked_again(begin: Callable[..., Any], project: Path) -> None:
    """A mistake is told with its line, nothing runs, and the next edit begins where the last one ended."""
    chat = begin(_BREAKING)
    chat.line("e")
    chat.wait_for_question("not changed: line 2, column 3")
    chat.line("e")
    chat.wait_for('+  "command": "make check"')
    chat.wait_for_question("Allow process.exec?", times=2)
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make check\n"
    _end(chat)


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ("", "nothing was changed"),
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import os, sys; os.remove(sys.argv[1])", "cannot be read"),
        ("import sys; open(sys.argv[1], 'w').write('[1]')", "a JSON object"),
    ],
)
def test_an_edit_that_comes_to_nothing(begin: Callable[..., Any], project: Path, editor: str, told: str) -> None:
    """An editor that changes nothing or fails brings the question back; it is answered as if it had not been run."""
    chat = begin(editor)
    chat.line("e")
    chat.wait_for_question(told)
    chat.line("y")
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make clean\n"
    _end(chat)
    assert len(_data(chat, "tool:pre")) == 1


def test_an_editor_that_is_not_there(begin: Callable[..., Any], project: Path) -> None:
    """An editor that cannot be started is told, and the question comes back."""
    chat = begin("", EDITOR="no-such-editor-anywhere")
    chat.line("e")
    chat.wait_for_question("cannot be started")
    chat.line("n")
    chat.wait_for_prompt("Done.")
    assert not (project / "ran").exists()
    _end(chat)


@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_one_line_without_an_editor(begin: Callable[..., Any], project: Path, terminal: str) -> None:
    """Without an editor, the input is one line: to be changed where it stands, or typed anew in a dumb terminal."""
    chat = begin("", EDITOR="", TERM=terminal)
    chat.line("e")
    chat.wait_for("new input, as JSON")
    if terminal == "dumb":
        chat.line('{"command": "make check"}')
    else:
        chat.wait_for('as it is): {"command": "make clean"}')
        chat.send("\x7f" * len('clean"}'))
        chat.line('check"}')
    chat.wait_for_question("Allow process.exec?", times=2)
    chat.line("y")
    chat.wait_until((project / "ran").exists)
    chat.wait_for_prompt("Done.")
    assert (project / "ran").read_text(encoding="utf-8") == "make check\n"
    _end(chat)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_a_signal_while_the_editor_runs(
    begin: Callable[..., Any], project: Path, number: signal.Signals, code: int
) -> None:
    """SIGTERM ends the editor and the chat, Ctrl-C the turn; nothing runs that was not allowed."""
    chat = begin(_ASKING)
    chat.line("e")
    chat.wait_for("what instead?")
    if number == signal.SIGTERM:
        chat.child.kill(number)
    else:
        chat.send("\x03")
        chat.wait_for_prompt("stopped\n")
        chat.send("\x04")
    assert chat.end() == code
    assert not (project / "ran").exists()
    assert chat.events[-1]["event"] == "session:end"
    pid = int((project / "pid").read_text(encoding="utf-8"))
    assert not Path(f"/proc/{pid}").exists()
