"""The answer `edit` with a real coordinator and a scripted person: what may be changed, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.ui.approval.edit import (
    EditorError,
    InputProblem,
    edit_text,
    escape_modelines,
    find_editor,
    format_input,
    input_diff,
    read,
)
from amplifier_app_cli.ui.approval.terminal import TerminalApproval
from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.plain import plain
from amplifier_core import AmplifierSession, HookResult
from amplifier_core.testing import wait_for
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.permissions import SessionPermissions

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class _Person:
    """Give answers in order, then none; keep what was shown and which drafts were offered."""

    ink = Ink(False)
    width = 80
    height = 50
    has_menus = False
    can_answer = True

    def __init__(self, *answers: str | None, can_lend: bool = False) -> None:
        self.answers = list(answers)
        self.can_lend = can_lend
        self.seen: list[str] = []
        self.drafts: list[str] = []
        self.was_lent = 0

    def show(self, text: str) -> None:
        self.seen.append(text)

    async def ask(self, label: str, draft: str = "", options: Any = ()) -> str | None:
        self.seen.append(label)
        self.drafts += [draft] if draft else []
        return self.answers.pop(0) if self.answers else None

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        self.was_lent += 1
        yield

    @property
    def text(self) -> str:
        return "\n".join(self.seen)


def _asking(person: _Person, project: Path, **environ: str) -> tuple[Any, TerminalApproval]:
    """Return the coordinator of a session with the default rules, and who answers."""
    plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
    coordinator = AmplifierSession(plan).coordinator
    permissions = SessionPermissions.of(Prepared.from_plan(plan, project / "home", project), project / "session")
    approval = TerminalApproval(
        person, project, lambda value: str(value).replace("hunter2", "***"), environ, permissions
    )
    approval.connect(coordinator)
    coordinator.approval_system = approval
    coordinator.register_policy("rules", permissions.policy, 0)
    return coordinator, approval


def _details(**tool_input: Any) -> dict[str, Any]:
    return {"tool_name": "run", "tool_input": tool_input, "tool_call_id": "c"}


async def test_an_edit_is_a_no_with_something_to_take(tmp_path: Path) -> None:
    """The input that was asked about is refused, and the changed one is there once, for the loop to take."""
    person = _Person("e", '{"command": "make check"}')
    coordinator, approval = _asking(person, tmp_path)
    answer = await coordinator.authorize("process.exec", _details(command="make clean"))
    assert (answer.granted, answer.reason) == (False, "not approved: Deny: the user wants another input")
    assert person.drafts == ['{"command": "make clean"}']
    assert '+  "command": "make check"' in person.text
    assert coordinator.get_capability("approval.edited_input")("c") == {"command": "make check"}
    assert approval.edited_input("c") is None


async def test_always_does_not_cover_a_changed_input(tmp_path: Path) -> None:
    """What was allowed for the session is asked again when it is changed, unless the rule is about just that."""
    person = _Person("a", "e", '{"command": "make all"}', "n")
    coordinator, _ = _asking(person, tmp_path)
    assert (await coordinator.authorize("process.exec", _details(command="make all"))).granted
    assert not (await coordinator.authorize("process.exec", _details(command="make clean"))).granted
    assert (await coordinator.authorize("process.exec", _details(command="make all"))).granted
    assert not (await coordinator.authorize("process.exec", _details(command="make check"))).granted
    assert person.answers == []


@pytest.mark.parametrize("typed", ["", "   ", '{"command":"make"}', None])
async def test_no_change_asks_again(tmp_path: Path, typed: str | None) -> None:
    """Nothing typed, or the same again, is no answer and no change: the question comes back."""
    person = _Person("e", typed, "y")
    coordinator, approval = _asking(person, tmp_path)
    assert (await coordinator.authorize("process.exec", _details(command="make"))).granted
    assert "nothing was changed" in person.text
    assert approval.edited_input("c") is None


async def test_a_mistake_is_told_and_kept(tmp_path: Path) -> None:
    """What cannot be read is told with its line, and offered again to be mended; patience does not end over it."""
    broken = '{"command": make}'
    person = _Person(*["e", broken] * 4, "e", '{"command": "make all"}')
    coordinator, approval = _asking(person, tmp_path)
    assert not (await coordinator.authorize("process.exec", _details(command="make"))).granted
    assert f"not changed: line 1, column 13: Expecting value: {broken}" in person.text
    assert person.drafts[1] == broken
    assert approval.edited_input("c") == {"command": "make all"}


@pytest.mark.parametrize(
    "details",
    [
        {"tool_name": "run", "tool_input": {"a": 1}},
        {"tool_name": "run", "tool_input": "text", "tool_call_id": "c"},
        {"path": "somewhere"},
        {"tool_name": "run", "tool_input": {"password": "hunter2"}, "tool_call_id": "c"},
    ],
)
async def test_what_cannot_be_changed_is_not_offered(tmp_path: Path, details: dict[str, Any]) -> None:
    """Only the input of a call can be changed, and none that holds a secret: it would be masked, or be in a file."""
    person = _Person("e", "edit", "e")
    coordinator, approval = _asking(person, tmp_path)
    assert not (await coordinator.authorize("process.exec", details)).granted
    assert {"Allow? [y/n] ", "Allow? [y/n/a] "} & set(person.seen)
    assert person.text.count("not an answer") == 3
    assert approval.edited_input("c") is None


async def test_the_question_of_a_hook(tmp_path: Path) -> None:
    """A hook's question about a call takes another input while the call has not run; a later one does not."""
    person = _Person("e", '{"command": "make all"}', "e", "n")
    coordinator, approval = _asking(person, tmp_path)
    question = HookResult(action="ask_user", approval_prompt="Sure?", approval_options=["Allow", "Deny"])
    with coordinator.span("tool:run"):
        await coordinator.hooks.emit("tool:pre", _details(command="make"))
        assert (await coordinator.process_hook_result(question, "tool:pre", "hook")).action == "deny"
        assert approval.edited_input("c") == {"command": "make all"}
        await coordinator.hooks.emit("tool:post", _details(command="make"))
        assert (await coordinator.process_hook_result(question, "tool:post", "hook")).action == "deny"
    assert person.seen[-1] == "Allow? [y/n] "
    assert person.answers == []


async def test_an_option_of_that_name_is_the_option(tmp_path: Path) -> None:
    """A hook whose own options say edit gets that answer."""
    person = _Person("edit")
    coordinator, approval = _asking(person, tmp_path)
    with coordinator.span("tool:run"):
        await coordinator.hooks.emit("tool:pre", _details(command="make"))
        assert await approval.request_approval("Sure?", ["Edit", "Deny"], 5, "deny") == "Edit"


async def test_nothing_is_left_for_another_call(tmp_path: Path) -> None:
    """A change that nobody took is gone when the next call begins, even one with the same id."""
    coordinator, approval = _asking(_Person("e", '{"command": "make all"}'), tmp_path)
    await coordinator.authorize("process.exec", _details(command="make"))
    await coordinator.hooks.emit("tool:pre", _details(command="other"))
    assert approval.edited_input("c") is None


async def test_nothing_is_shown_raw(tmp_path: Path) -> None:
    """Escape sequences that a person writes into an input are written out; what looks like a secret is shown."""
    person = _Person("e", '{"command": "echo \\u001b[2J\\u009b hunter2"}')
    coordinator, approval = _asking(person, tmp_path)
    await coordinator.authorize("process.exec", _details(command="make"))
    assert "\x1b" not in person.text
    assert "\x9b" not in person.text
    assert "hunter2" in person.text
    assert approval.edited_input("c") == {"command": "echo \x1b[2J\x9b hunter2"}


async def test_the_editor_is_used_where_the_terminal_can_be_lent(tmp_path: Path) -> None:
    """VISUAL comes before EDITOR, and the terminal is lent for as long as it runs."""
    script = tmp_path / "an editor.py"
    script.write_text("import sys; open(sys.argv[1], 'w').write('{\"command\": \"made\"}')", encoding="utf-8")
    person = _Person("e", can_lend=True)
    coordinator, approval = _asking(person, tmp_path, VISUAL=f"{sys.executable} '{script}'", EDITOR="false")
    await coordinator.authorize("process.exec", _details(command="make"))
    assert approval.edited_input("c") == {"command": "made"}
    assert person.was_lent == 1


async def test_a_deadline_ends_the_editor(tmp_path: Path) -> None:
    """A question that runs out of time while the editor is open is refused, and the editor is ended."""
    from amplifier_core.approval import ApprovalTimeoutError

    script = tmp_path / "slow.py"
    script.write_text("import time; time.sleep(60)", encoding="utf-8")
    person = _Person("e", can_lend=True)
    coordinator, approval = _asking(person, tmp_path, EDITOR=f"{sys.executable} '{script}'")
    with coordinator.span("tool:run"):
        await coordinator.hooks.emit("tool:pre", _details(command="make"))
        with pytest.raises(ApprovalTimeoutError):
            await approval.request_approval("Sure?", [], 0.2, "deny")
    assert approval.edited_input("c") is None


# -- the parts --


@given(st.dictionaries(st.text(), _values, max_size=4))
def test_what_is_written_is_read_again(tool_input: dict[str, Any]) -> None:
    """An input that nobody changed is the same afterwards, and safe to show on the way."""
    for text in (format_input(tool_input), format_input(tool_input, on_one_line=True)):
        assert read(text) == tool_input
        assert plain(text) == text
    assert "\n" not in format_input(tool_input, on_one_line=True)
    assert input_diff(tool_input, tool_input) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1, column 1"),
        ('{\n  "a": 1,\n}', "line 3, column 1"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('{"a": NaN}', "NaN is not valid JSON"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ("[1]", "this is a list"),
        ('"x"', "this is a text"),
        ("7", "this is a number"),
        ("true", "this is true or false"),
        ("null", "this is null"),
        ("[" * 100_000, "cannot be read"),
        ('{"a": ' + "9" * 5000 + "}", "cannot be read"),
    ],
)
def test_what_is_no_input_is_told(text: str, told: str) -> None:
    """Everything but a JSON object is refused, with what is wrong and where."""
    with pytest.raises(InputProblem, match=told):
        read(text)


@pytest.mark.parametrize(
    ("environ", "editor"),
    [
        ({}, None),
        ({"EDITOR": " "}, None),
        ({"EDITOR": "vi"}, "vi"),
        ({"VISUAL": "code -w", "EDITOR": "vi"}, "code -w"),
        ({"VISUAL": "", "EDITOR": "vi"}, "vi"),
    ],
)
def test_which_editor(environ: dict[str, str], editor: str | None) -> None:
    """VISUAL is asked before EDITOR, and an empty one is none."""
    assert find_editor(environ) == editor


@pytest.mark.parametrize(
    ("editor", "told"), [("vi 'open", "cannot be parsed"), ("false", "exit code 1"), ("no-such-editor", "started")]
)
async def test_an_editor_that_fails(editor: str, told: str) -> None:
    """An editor that cannot be run, or fails, is told."""
    with pytest.raises(EditorError, match=told):
        await edit_text("{}", editor, _Person(), os.environ)


@pytest.mark.parametrize("name", ["vim", "./vim", "bin/vim"])
async def test_an_editor_is_not_taken_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A program of the editor's name that lies in the project is never run, however PATH is set."""
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        (folder / "vim").write_text(f"#!/bin/sh\ntouch '{tmp_path}/planted'\n", encoding="utf-8")
        (folder / "vim").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EditorError, match="cannot be started"):
        await edit_text("{}", name, _Person(), {"PATH": f".:bin:{tmp_path}/bin"})
    assert not (tmp_path / "planted").exists()


async def test_an_editor_does_not_run_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The editor runs in a folder with nothing in it but the file: settings and modules of the project do not count."""
    project = tmp_path / "project"
    project.mkdir()
    (project / ".exrc").write_text(f":!touch {tmp_path}/planted\n", encoding="utf-8")
    (project / "json.py").write_text(f"open({str(tmp_path / 'planted')!r}, 'w')\n", encoding="utf-8")
    monkeypatch.chdir(project)
    code = "import json, os, sys; json.dump({'in': os.listdir()}, open(sys.argv[1], 'w'))"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": f":{project}"}
    after = await edit_text("{}", f'"{sys.executable}" -c "{code}"', _Person(), environ)
    assert read(after) == {"in": ["input.json"]}
    assert not (tmp_path / "planted").exists()


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
async def test_vim_obeys_neither_the_project_nor_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vim follows no .exrc or .vimrc of the project, and no modeline that a model put into an input."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    for name in (".exrc", ".vimrc", "_vimrc"):
        (project / name).write_text(f"call writefile(['x'], '{tmp_path}/planted')\n", encoding="utf-8")
    (home / ".vimrc").write_text("set exrc modeline modelines=50\n", encoding="utf-8")
    monkeypatch.chdir(project)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb"}
    given = {"command": "ls # vim: set textwidth=7 :", "other": "x"}
    script = f"call writefile([&textwidth], '{tmp_path}/width') | qall!"
    command = f'vim --not-a-term -n -c "{script}"'
    after = await edit_text(escape_modelines(format_input(given)), command, _Person(), environ)
    assert read(after) == given
    assert (tmp_path / "width").read_text(encoding="utf-8") == "0\n"
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    "line",
    [
        "vim: set x :",
        "# vi:noai:sw=3",
        "// ex: set x",
        "/* vim>=702: set x */",
        "Vim: y",
        "-*- mode: lisp; eval: (shell) -*-",
        "Local Variables: eval",
        "kate: x",
    ],
)
def test_no_modeline_in_the_file_to_edit(line: str) -> None:
    """What a model wrote is given to an editor without anything that reads as its settings, and means the same."""
    given = {"text": line, line: f"{line}\n\t{line}", "list": [line]}
    text = escape_modelines(format_input(given))
    assert read(text) == given
    for mark in ("vi:", "vim:", "ex:", "Vim:", ">=702:", "-*-", "Local Variables:", "kate:"):
        assert mark not in text


def test_ordinary_text_is_given_to_the_editor_as_it_is() -> None:
    """Nothing but such lines is written otherwise: addresses, times and names with a colon stay readable."""
    text = format_input({"url": "https://example.com:80/x", "at": "12:30", "index: 3": "flex: 1; previ: 2"})
    assert escape_modelines(text) == text


async def test_a_cancelled_edit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the question is taken back, the editor is ended, even one that will not, and its file is gone."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("amplifier_app_cli.ui.approval.edit._GRACE", 0.05)
    script = tmp_path / "deaf.py"
    script.write_text(
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch()\n"
        "time.sleep(60)\n",
        encoding="utf-8",
    )
    editing = asyncio.create_task(edit_text("{}", f"{sys.executable} '{script}'", _Person(), os.environ))
    assert await wait_for((tmp_path / "started").exists, timeout=60)
    editing.cancel()
    await asyncio.wait({editing})
    assert editing.cancelled()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deaf.py", "started"]
