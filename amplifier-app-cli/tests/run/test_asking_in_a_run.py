"""A run at a terminal asks on standard error; standard output has the answer alone, and only a clear yes counts."""

from __future__ import annotations

import io
import json
import os
import pty
import pwd
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.ui.approval.stderr_terminal import StderrTerminal

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[bytes]]

_PATIENCE = 60.0
_ME = pwd.getpwuid(os.getuid()).pw_name
_BUNDLE = """\
bundle: {name: scripted}
includes:
  - bundle: amplifier:behaviors/logging
  - bundle: amplifier:behaviors/tools
session:
  orchestrator: {module: loop-streaming}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: run.yaml}}
"""
_ONE = """
    turns:
      - tool_calls: [{id: c1, name: bash, arguments: {command: "echo first >> ran.txt"}}]
      - text: All done.
"""
#: Gives people all the time there is, once a question has run out of its own.
_PATIENT = """\
async def mount(coordinator, config=None):
    async def be_patient(event, data):
        coordinator.config["session"]["approval_timeout"] = 600
    coordinator.hooks.register("approval:denied", be_patient)
"""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """The program with a terminal for standard input and error; its standard output is a pipe, or the terminal."""

    def __init__(self, start: Start, env: dict[str, str], arguments: Sequence[str], *, is_piped: bool) -> None:
        self._master, slave = pty.openpty()
        self.process = start(
            *arguments,
            env={**env, "TERM": "xterm-256color", "COLUMNS": "100"},
            stdin=slave,
            stdout=subprocess.PIPE if is_piped else slave,
            stderr=slave,
            text=False,
            start_new_session=True,
            has_terminal=True,
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        self._raw = b""

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", self._raw.decode("utf-8", "replace")).replace("\r", "")

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def line(self, text: str, *, after: str = "Allow? [y/n/a/e/l] ", count: int = 1) -> None:
        """Type a line when a question has been put so often."""
        self.wait_for(after, count=count)
        self.send(f"{text}\n")

    def wait_for(self, text: str, *, count: int, unless: str | None = None) -> None:
        """Wait until a text was shown so often, or another one at all."""
        self.wait_until(lambda: self.text.count(text) >= count or (unless is not None and unless in self.text))

    def wait_until(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not condition():
            assert time.monotonic() < until, f"it never happened; the terminal shows:\n{self.text}"
            if not self._read() and not condition():
                assert self.process.poll() is None, f"it has ended; the terminal shows:\n{self.text}"
                time.sleep(0.02)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return exit code and standard output."""
        output = b""
        until = time.monotonic() + _PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it does not end; the terminal shows:\n{self.text}"
            self._read()
            time.sleep(0.02)
        if self.process.stdout is not None:
            output = self.process.stdout.read()
            self.process.stdout.close()
        while self._read():
            pass
        return self.process.returncode, output.decode("utf-8")

    def close(self) -> None:
        os.close(self._master)

    def _read(self) -> bool:
        try:
            text = os.read(self._master, 65_536)
        except OSError:  # nothing there, or nobody at the other end
            return False
        self._raw += text
        return bool(text)


@pytest.fixture
def ask(start: Start, project: Path, environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Return a function that starts the program at a terminal, in a project with real tools."""
    (project / "bundle.yaml").write_text(_BUNDLE, encoding="utf-8")
    started: list[Terminal] = []

    def begin(turns: str, *arguments: str, is_piped: bool = True) -> Terminal:
        (project / "run.yaml").write_text(textwrap.dedent(turns), encoding="utf-8")
        given = arguments or ("run", "go", "--bundle", "./bundle.yaml")
        started.append(Terminal(start, environment, given, is_piped=is_piped))
        return started[-1]

    yield begin
    for terminal in started:
        terminal.close()


@pytest.fixture
def events(logged: Callable[..., list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that reads the data of the named events."""
    return lambda *names: [record["data"] for record in logged(*names)]


def _ran(project: Path) -> list[str]:
    file = project / "ran.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_yes(ask: Callable[..., Terminal], project: Path, events: Callable[..., list[dict[str, Any]]]) -> None:
    """The question is on the terminal, the answer alone in the pipe, and the log says who allowed it, and where."""
    terminal = ask(_ONE)
    terminal.line("y")
    assert terminal.end() == (0, "All done.\n")
    assert "Allow process.exec? running a command" in terminal.text
    assert "echo first >> ran.txt" in terminal.text
    assert "All done." not in terminal.text
    assert _ran(project) == ["first"]
    (granted,) = events("approval:granted")
    assert (granted["source"], granted["reason"]) == ("approval_system", "approved: Allow")
    assert granted["answered_by"] == {"kind": "person", "user": _ME, "via": "run"}


def test_all_on_one_terminal(ask: Callable[..., Terminal], project: Path) -> None:
    """Where answer and question share a screen, both can be read."""
    terminal = ask(_ONE.replace("- tool_calls", "- text: I try.\n        tool_calls"), is_piped=False)
    terminal.line("y")
    assert terminal.end()[0] == 0
    lines = [line.strip() for line in terminal.text.split("\n")]
    assert "I try." in lines
    assert "Allow process.exec? running a command" in lines
    assert "All done." in lines
    assert _ran(project) == ["first"]


def test_no_with_a_reason(
    ask: Callable[..., Terminal],
    project: Path,
    environment: dict[str, str],
    events: Callable[..., list[dict[str, Any]]],
) -> None:
    """The words behind a no reach the model; nothing runs, nothing waits, and the run goes on."""
    terminal = ask(_ONE.replace("- text: All done.", "- text: Oh.\n        expect: {contains: not on Fridays}"))
    terminal.line("n, not on Fridays")
    assert terminal.end() == (0, "Oh.\n")
    assert _ran(project) == []
    (denied,) = events("approval:denied")
    assert denied["source"] == "approval_system"
    assert not list(Path(environment["HOME"]).glob("**/waiting-calls.json"))


def test_always(ask: Callable[..., Terminal], project: Path, events: Callable[..., list[dict[str, Any]]]) -> None:
    """With `a` the rule that is shown holds for the rest of the session: the same command is not asked about again."""
    turns = """
        turns:
          - tool_calls: [{id: c1, name: bash, arguments: {command: "echo first >> ran.txt"}}]
          - tool_calls: [{id: c2, name: bash, arguments: {command: "echo first >> ran.txt"}}]
          - tool_calls: [{id: c3, name: bash, arguments: {command: "echo other >> ran.txt"}}]
          - text: All done.
    """
    terminal = ask(turns)
    terminal.line("a")
    terminal.line("n", count=2)
    assert terminal.end() == (0, "All done.\n")
    assert terminal.text.count("Allow? [y/n/a/e/l]") == 2
    assert _ran(project) == ["first", "first"]
    remembered = events("policy:remembered")
    assert {data["scope"] for data in remembered} == {"session"}
    assert f"a = allow for this session: {remembered[0]['rule']}\n    and: {remembered[1]['rule']}\n" in terminal.text
    assert all(f"amplifier policy remove {data['rule_id']}" in terminal.text for data in remembered)
    granted = events("approval:granted")
    assert [data["source"] for data in granted] == ["approval_system", "rules"]
    assert [data["answered_by"]["kind"] for data in granted] == ["person", "remembered"]
    assert {data["answered_by"]["user"] for data in remembered} == {_ME}


def test_edit_on_one_line(
    ask: Callable[..., Terminal],
    project: Path,
    environment: dict[str, str],
    events: Callable[..., list[dict[str, Any]]],
) -> None:
    """With e the input is changed, asked about again, and runs as it was allowed last; the log has both."""
    environment.pop("EDITOR", None)
    environment.pop("VISUAL", None)
    terminal = ask(_ONE)
    terminal.line("e")
    terminal.line('{"command": "echo second >> ran.txt"}', after="as it is): ")
    terminal.line("y", count=2)
    assert terminal.end() == (0, "All done.\n")
    assert _ran(project) == ["second"]
    asked = [data["details"]["tool_input"]["command"] for data in events("approval:required")]
    assert asked == ["echo first >> ran.txt", "echo second >> ran.txt"]
    (granted,) = events("approval:granted")
    assert granted["details"]["tool_input"]["command"] == "echo second >> ran.txt"


@pytest.mark.parametrize("typed", ["\x04", "perhaps\nmaybe\nwell\n"])
def test_no_clear_yes_is_a_no(ask: Callable[..., Terminal], project: Path, typed: str) -> None:
    """The end of input, and three answers that are none, refuse the call; the run goes on."""
    terminal = ask(_ONE)
    answers = typed.splitlines() if "\n" in typed else []
    for number, answer in enumerate(answers, 1):
        terminal.line(answer, count=number)
    if not answers:
        terminal.wait_until(lambda: "Allow? [" in terminal.text)
        terminal.send(typed)
    assert terminal.end() == (0, "All done.\n")
    assert _ran(project) == []


def test_what_was_typed_before_is_no_answer(ask: Callable[..., Terminal], project: Path, gate: str) -> None:
    """A line that was typed before the question was there does not answer it."""
    (project / "bundle.yaml").write_text(f"{_BUNDLE}hooks:\n{gate}", encoding="utf-8")
    terminal = ask(_ONE)
    terminal.wait_until((project / "asked").exists)
    terminal.send("y\n")
    (project / "go").touch()
    terminal.line("n")
    assert terminal.end() == (0, "All done.\n")
    assert _ran(project) == []


def test_answer_after_a_question_that_ran_out_of_time(
    ask: Callable[..., Terminal], project: Path, add_module: Callable[[str, str], None]
) -> None:
    """A question that nobody answered in time leaves the next answer whole, and to the next question."""
    add_module("hooks-patient", _PATIENT)
    text = _BUNDLE.replace("session:\n", "session:\n  approval_timeout: 0.5\n")
    (project / "bundle.yaml").write_text(f"{text}hooks:\n  - {{module: hooks-patient}}\n", encoding="utf-8")
    turns = """
        turns:
          - tool_calls: [{id: c1, name: bash, arguments: {command: "echo first >> ran.txt"}}]
          - tool_calls: [{id: c2, name: bash, arguments: {command: "echo second >> ran.txt"}}]
          - text: All done.
    """
    terminal = ask(turns)
    terminal.wait_until(lambda: "Allow? [y/n/a/e/l] \nnot answered, so not allowed" in terminal.text)
    terminal.line("yes", count=2)
    assert terminal.end() == (0, "All done.\n")
    assert _ran(project) == ["second"]


def test_ctrl_c_at_the_question(ask: Callable[..., Terminal], project: Path) -> None:
    """Ctrl-C at a question ends the run at once with 130; nothing has run."""
    terminal = ask(_ONE)
    terminal.wait_until(lambda: "Allow? [" in terminal.text)
    terminal.send("\x03")
    assert terminal.end() == (128 + signal.SIGINT, "")
    assert _ran(project) == []


def test_ctrl_c_leaves_what_was_not_reached(
    ask: Callable[..., Terminal], amplifier: Amplifier, project: Path, environment: dict[str, str]
) -> None:
    """Ctrl-C at the first of several calls that wait refuses that one; the others go on waiting."""
    session = _left_waiting(amplifier, project, environment)
    terminal = ask("turns: [{text: Never.}]", "run", "--resume", session)
    terminal.wait_until(lambda: "Allow? [" in terminal.text)
    terminal.send("\x03")
    assert terminal.end()[0] == 128 + signal.SIGINT
    assert terminal.text.count("Allow? [") == 1
    assert _ran(project) == []
    assert len(_waiting(amplifier)) == 1


def test_nobody_may_be_asked(ask: Callable[..., Terminal], project: Path) -> None:
    """With --no-input a terminal changes nothing: the call waits."""
    terminal = ask(_ONE, "--no-input", "run", "go", "--bundle", "./bundle.yaml")
    assert terminal.end() == (3, "")
    assert "Allow? [" not in terminal.text
    assert _ran(project) == []


def _left_waiting(amplifier: Amplifier, project: Path, environment: dict[str, str]) -> str:
    turns = """
        turns:
          - tool_calls:
              - {id: c1, name: bash, arguments: {command: "echo first >> ran.txt"}}
              - {id: c2, name: bash, arguments: {command: "echo second >> ran.txt"}}
          - text: Never.
    """
    (project / "run.yaml").write_text(textwrap.dedent(turns), encoding="utf-8")
    (project / "bundle.yaml").write_text(_BUNDLE, encoding="utf-8")
    assert amplifier("run", "go", "--bundle", "./bundle.yaml").returncode == 3
    (folder,) = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*")
    return folder.name


def _waiting(amplifier: Amplifier) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(amplifier("approval", "list", "--format", "json").stdout)
    return listed


def test_run_asks_what_waits(
    ask: Callable[..., Terminal], amplifier: Amplifier, project: Path, environment: dict[str, str]
) -> None:
    """At a terminal, what waits is asked; what was answered meanwhile is not asked again."""
    session = _left_waiting(amplifier, project, environment)
    first = next(call for call in _waiting(amplifier) if "first" in call["input"]["command"])
    assert amplifier("approval", "allow", session, first["id"]).returncode == 0
    terminal = ask("turns: [{text: Then., expect: {contains: [The call c1, The call c2]}}]", "run", "--resume", session)
    terminal.line("y")
    assert terminal.end() == (0, "Then.\n")
    assert terminal.text.count("Allow? [") == 1
    assert "echo second" in terminal.text
    assert sorted(_ran(project)) == ["first", "second"]
    assert _waiting(amplifier) == []


def test_resume_asks_what_waits(
    ask: Callable[..., Terminal], amplifier: Amplifier, project: Path, environment: dict[str, str]
) -> None:
    """A chat that takes up a session asks first what waits; a no is told to the model, and the chat goes on."""
    session = _left_waiting(amplifier, project, environment)
    terminal = ask(
        "turns: [{text: 'One of two.', expect: {contains: [not the second]}}, {text: Bye.}]",
        "resume",
        session,
        is_piped=False,
    )
    for number in (1, 2):
        terminal.wait_for("running a command", count=number)
        terminal.wait_until(lambda: "Allow? [" in terminal.text.rsplit("running a command", 1)[-1])
        is_second = "echo second" in terminal.text.rsplit("running a command", 1)[-1]
        terminal.send("n not the second\r" if is_second else "y\r")
    terminal.wait_until(lambda: "One of two." in terminal.text and " out · $" in terminal.text)
    assert "2 pending calls need your answer" in terminal.text
    terminal.send("\x04")
    assert terminal.end()[0] == 0
    assert _ran(project) == ["first"]
    assert _waiting(amplifier) == []


def test_left_to_somebody_else(
    ask: Callable[..., Terminal],
    project: Path,
    environment: dict[str, str],
    events: Callable[..., list[dict[str, Any]]],
    amplifier: Amplifier,
) -> None:
    """With `l` the call waits for whoever answers in another process; the log says who left it to whom, and why."""
    terminal = ask(_ONE)
    terminal.line("l the release manager knows")
    code, output = terminal.end()
    assert (code, output) == (3, "")
    assert "left to another approver: Allow process.exec?" in terminal.text
    assert _ran(project) == []
    (escalated,) = events("approval:escalated")
    assert (escalated["from"], escalated["to"], escalated["reason"]) == (
        "terminal",
        "waiting",
        "the release manager knows",
    )
    assert escalated["answered_by"] == {"kind": "person", "user": _ME, "via": "run"}
    (session,) = (path.name for path in Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*"))
    assert amplifier("approval", "allow", session).returncode == 0
    (project / "run.yaml").write_text("turns: [{text: All done.}]", encoding="utf-8")
    done = amplifier("run", "--resume", session)
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    assert _ran(project) == ["first"]


def test_a_long_call_is_read_to_its_end_in_a_run(ask: Callable[..., Terminal], project: Path) -> None:
    """A run at a terminal pages as a chat does: a yes before the last page runs nothing."""
    steps = "; ".join(f"true step {number:04}" for number in range(300))
    terminal = ask(_ONE.replace("echo first", f"{steps}; echo first"))
    more = "% shown [Enter = next page, n = deny] "
    terminal.line("y", after=more)
    asked = 2
    terminal.wait_until(lambda: terminal.text.count(more) >= asked)
    while "Allow? [" not in terminal.text:
        terminal.send("\n")
        asked += 1
        terminal.wait_for(more, count=asked, unless="Allow? [")
    assert not (project / "ran.txt").exists()
    assert "step 0299; echo first" in terminal.text.replace("\n", "")
    terminal.line("y", after="Allow? [y/n/a/e/l/v] ")
    assert terminal.end() == (0, "All done.\n")
    assert (project / "ran.txt").read_text(encoding="utf-8") == "first\n"


async def test_what_could_not_be_shown_is_not_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that breaks while a question is shown gives no answer, whatever is typed."""

    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    person = StderrTerminal({}, lambda: None)
    monkeypatch.setattr(sys, "stderr", Broken())
    person.show("what would run")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert await person.ask("Allow? ") is None
