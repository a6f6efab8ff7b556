"""A scripted agent fixes a small real project under the default policy; the log answers who allowed what."""

from __future__ import annotations

import codecs
import json
import os
import pwd
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_PATIENCE = 60.0
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>78])")

_PRICES = '''\
def total(prices, discount=0):
    """Return the sum of some prices, less a discount in percent."""
    return sum(prices) - discount
'''
_TESTS = """\
from prices import total


def test_no_discount():
    assert total([1, 2]) == 3


def test_discount():
    assert total([100, 100], 10) == 180
    assert isinstance(total([100, 100], 10), int)
"""
_BUNDLE = """\
bundle: {name: shop}
includes:
  - bundle: amplifier:default
providers:
  - {module: provider-mock, config: {scenario: run.yaml}}
"""
_PYTEST = "python -B -m pytest -q -p no:cacheprovider tests"

#: What the model does: it looks around, tries things, some of them wrong, and believes what it is told.
_SCENARIO = f"""
turns:
  - text: I look for it first.
    tool_calls:
      - {{id: look, name: grep, arguments: {{pattern: "def total", output_mode: content}}}}
      - {{id: read, name: read_file, arguments: {{file_path: src/prices.py}}}}
      - {{id: outside, name: read_file, arguments: {{file_path: ../secret.txt}}}}
      - id: plan
        name: todo
        arguments:
          action: create
          todos: [{{content: Fix the discount, activeForm: Fixing the discount, status: in_progress}}]
  - expect: {{contains: ["sum(prices) - discount", "src/prices.py"]}}
    tool_calls:
      - id: wrong
        name: edit_file
        arguments: {{file_path: src/prices.py, old_string: prices) - discount, new_string: prices) * discount}}
  - tool_calls: [{{id: fails, name: bash, arguments: {{command: "{_PYTEST}"}}}}]
  - expect: {{contains: 2 failed}}
    text: Perhaps the test is wrong.
    tool_calls:
      - id: cheat
        name: edit_file
        arguments: {{file_path: tests/test_prices.py, old_string: "== 180", new_string: "== 2000"}}
  - expect: {{contains: the tests are right}}
    tool_calls:
      - id: right
        name: edit_file
        arguments:
          file_path: src/prices.py
          old_string: prices) * discount
          new_string: prices) * (100 - discount) / 100
  - tool_calls: [{{id: passes, name: bash, arguments: {{command: "{_PYTEST}"}}}}]
  - expect: {{contains: 2 passed}}
    tool_calls: [{{id: harm, name: bash, arguments: {{command: rm -r tests}}}}]
  - tool_calls:
      - {{id: notes, name: write_file, arguments: {{file_path: CHANGES.md, content: "The discount is in percent.\\n"}}}}
      - id: tick
        name: todo
        arguments:
          action: update
          todos: [{{content: Fix the discount, activeForm: Fixing the discount, status: completed}}]
  - text: Fixed, and the tests pass.
"""
#: The person wants whole numbers.
_EDITOR = """\
import sys
from pathlib import Path
file = Path(sys.argv[1])
file.write_text(file.read_text(encoding="utf-8").replace("/ 100", "// 100"), encoding="utf-8")
"""


#: The events that answer who allowed what, and no others.
_DECISIONS = ("approval:granted", "policy:remembered", "tool:post")


class Chat:
    """The program in a pseudo-terminal, answered as a person would."""

    def __init__(self, spawn: Callable[..., Any], project: Path, env: dict[str, str]) -> None:
        kept = {name: value for name, value in env.items() if name not in ("NO_COLOR", "VISUAL")}
        self._child = spawn(
            [sys.executable, "-m", "amplifier_app_cli", "run", "--mode", "chat", "--bundle", "./bundle.yaml"],
            cwd=str(project),
            env={**kept, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"},
            dimensions=(50, 160),
            encoding=None,
        )
        self._child.delaybeforesend = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._raw = ""
        self._seen = 0

    @property
    def text(self) -> str:
        return re.sub("[\r\b]", "", _ESCAPES.sub("", self._raw))

    @property
    def new(self) -> str:
        """Return what was shown since the last line was typed."""
        return self.text[self._seen :]

    def wait_for(self, *wanted: str) -> None:
        """Wait until all of this was shown since the last line was typed."""
        self._wait(lambda: all(part in self.new for part in wanted), wanted)

    def wait_for_question(self, *wanted: str) -> None:
        """Wait until all of this was shown, and behind the last of it, that an answer is waited for."""
        question = "Allow? [y/n/a/e/l]"
        self._wait(
            lambda: all(part in self.new for part in wanted) and question in self.new.split(wanted[-1])[-1],
            (*wanted, question),
        )

    def wait_for_prompt(self, after: str) -> None:
        """Wait until the chat waits for a prompt, behind a text."""
        self._wait(
            lambda: (
                "\x1b[?2004h" in self._raw and after in self.new and self.new.split(after)[-1].rstrip().endswith(">")
            ),
            (after, ">"),
        )

    def _wait(self, condition: Callable[[], bool], wanted: tuple[str, ...]) -> None:
        until = time.monotonic() + _PATIENCE
        while not condition():
            assert time.monotonic() < until, f"{wanted} never came; this did:\n{self.new}"
            try:
                self._raw += self._decoder.decode(self._child.read_nonblocking(65_536, timeout=0.1))
            except pexpect.TIMEOUT:
                continue
            except (pexpect.EOF, OSError):
                assert condition(), f"{wanted} never came; this did:\n{self.new}"

    def type(self, line: str) -> None:
        self._seen = len(self.text)
        self._child.send(f"{line}\r")

    def leave(self) -> int:
        self._child.send("\x04")
        self._child.expect(pexpect.EOF)
        self._child.close()
        return int(self._child.exitstatus)


def _talk(chat: Chat) -> None:
    """Give every answer there is: once, for the session, no with a reason, another input, no."""
    chat.wait_for_prompt("leaves.")
    chat.type("fix the discount")
    chat.wait_for_question("-    return sum(prices) - discount", "+    return sum(prices) * discount")
    assert "denied: no rule covers it" in chat.new  # what lies outside is not even asked for
    chat.type("y")
    chat.wait_for_question(f'allow process.exec command "{_PYTEST}"')
    chat.type("a")
    chat.wait_for("allowed for this session", "Command failed with exit code 1")
    chat.wait_for_question("tests/test_prices.py", "+    assert total([100, 100], 10) == 2000")
    chat.type("n the tests are right")
    chat.wait_for_question("+    return sum(prices) * (100 - discount) / 100")
    chat.type("e")
    chat.wait_for_question("+    return sum(prices) * (100 - discount) // 100")
    chat.type("y")
    chat.wait_for_question('allow process.exec command "rm -r tests"')
    assert chat.new.count("Allow process.exec?") == 1  # for this: the tests have run again, unasked
    chat.type("no")
    chat.wait_for_question("(no such file yet)", "+The discount is in percent.")
    chat.type("yes")
    chat.wait_for("Fixed, and the tests pass.")
    chat.wait_for_prompt("$0.00")
    assert chat.leave() == 0


@pytest.fixture
def shop(project: Path, environment: dict[str, str], tmp_path: Path) -> Path:
    """Return a project with a failing test, and a person who has an editor."""
    files = {"src/prices.py": _PRICES, "tests/test_prices.py": _TESTS, "bundle.yaml": _BUNDLE}
    files |= {"run.yaml": textwrap.dedent(_SCENARIO), "pytest.ini": "[pytest]\npythonpath = src\n"}
    for name, content in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
    (tmp_path / "secret.txt").write_text("the key under the mat", encoding="utf-8")
    (tmp_path / "editor.py").write_text(_EDITOR, encoding="utf-8")
    environment["EDITOR"] = f"{sys.executable} {tmp_path / 'editor.py'}"
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return project


def _files(project: Path) -> dict[str, bytes]:
    found = (path for path in project.rglob("*") if path.is_file())
    return {str(path.relative_to(project)): path.read_bytes() for path in found}


def _who(event: dict[str, Any], events: list[dict[str, Any]]) -> str:
    """Return who decided something, from the event that says so alone, or with the one that its rule came from."""
    by = event["data"]["answered_by"]
    if by["kind"] == "remembered":
        came = [one["data"] for one in events if one["event"] == "policy:remembered" and one["seq"] < event["seq"]]
        (asked,) = [one["answered_by"] for one in came if one["rule"] == by["rule"] and one["scope"] == by["scope"]]
        return f"{asked['user']} ({asked['via']}), for good: {by['rule']}"
    said = {"person": f"{by.get('user')} ({by.get('via')})", "default": f"the program: {by.get('rule')}"}
    return str(said.get(by["kind"], by["kind"]))


def _audit(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return who allowed each call that has run; fails for one that ran without, or with another input."""
    allowed: dict[str, str] = {}
    for ran in (event for event in events if event["event"] == "tool:post"):
        call = ran["data"]
        grants = [
            event
            for event in events
            if event["event"] == "approval:granted"
            and event["span_id"] == ran["span_id"]
            and event["seq"] < ran["seq"]
            and event["data"]["details"]["tool_call_id"] == call["tool_call_id"]
            and event["data"]["details"]["tool_input"] == call["tool_input"]
        ]
        assert grants, f"{call['tool_call_id']} ran, and nobody has allowed it"
        allowed[call["tool_call_id"]] = _who(grants[-1], events)
    return allowed


def test_fixed_end_to_end(
    spawn: Callable[..., Any],
    shop: Path,
    environment: dict[str, str],
    amplifier: Amplifier,
    logged: Callable[..., list[dict[str, Any]]],
) -> None:
    """The project is fixed, only what was allowed has happened, the log says by whom, and all of it can be undone."""
    before = _files(shop)
    _talk(Chat(spawn, shop, environment))
    after = _files(shop)
    assert {name for name in after if after[name] != before.get(name)} == {"src/prices.py", "CHANGES.md"}
    assert set(before) <= set(after)
    assert b"sum(prices) * (100 - discount) // 100" in after["src/prices.py"]
    events = logged()
    (session,) = {event["session_id"] for event in events}
    me = f"{pwd.getpwuid(os.getuid()).pw_name} (chat)"
    assert _audit(events) == {
        "look": 'the program: allow filesystem.read path "**"',
        "read": 'the program: allow filesystem.read path "**"',
        "plan": "the program: allow tool.todo",
        "wrong": me,
        "fails": me,
        "right": me,
        "passes": f'{me}, for good: allow process.exec command "{_PYTEST}"',
        "notes": me,
        "tick": "the program: allow tool.todo",
    }
    _check_refusals(events)
    _check_edit(events)
    assert _audit([one for one in events if one["event"] in _DECISIONS]) == _audit(events)
    unasked = [event for event in events if event["event"] != "approval:granted" or "wrong" not in json.dumps(event)]
    with pytest.raises(AssertionError, match="wrong ran, and nobody has allowed it"):
        _audit(unasked)
    (remembered,) = [event["data"] for event in events if event["event"] == "policy:remembered"]
    assert (remembered["rule"], remembered["scope"]) == (f'allow process.exec command "{_PYTEST}"', "session")

    undone = amplifier("session", "restore", session, "--last-turn", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert _files(shop) == before


def _check_refusals(events: list[dict[str, Any]]) -> None:
    """What was refused has not run, and the log says who refused it and why."""
    denials = {
        event["data"]["details"]["tool_call_id"]: (event["data"]["source"], event["data"]["reason"])
        for event in events
        if event["event"] == "approval:denied"
    }
    assert set(denials) == {"outside", "cheat", "right", "harm"}
    assert denials["outside"][0] == "rules"
    assert denials["cheat"] == ("approval_system", "not approved: Deny: the tests are right")
    assert denials["harm"] == ("approval_system", "not approved: Deny")
    assert "another input" in denials["right"][1]
    refused = {one["data"]["details"]["tool_call_id"]: one for one in events if one["event"] == "approval:denied"}
    me = f"{pwd.getpwuid(os.getuid()).pw_name} (chat)"
    who = {call: _who(one, events) for call, one in refused.items()}
    assert who == {"outside": "nobody", "cheat": me, "right": me, "harm": me}
    secrets = [event for event in events if "under the mat" in json.dumps(event)]
    assert secrets == []


def _check_edit(events: list[dict[str, Any]]) -> None:
    """The log has the input that the model wanted, and the one that a person has put in its place and allowed."""
    asked = [
        event["data"]["details"]["tool_input"]["new_string"]
        for event in events
        if event["event"] == "approval:required" and event["data"]["details"]["tool_call_id"] == "right"
    ]
    assert asked == ["prices) * (100 - discount) / 100", "prices) * (100 - discount) // 100"]
    (ran,) = [
        event["data"] for event in events if event["event"] == "tool:post" and event["data"]["tool_call_id"] == "right"
    ]
    assert (ran["tool_input"]["new_string"], ran["edits"]) == (asked[1], 1)


def test_headless_it_waits_at_the_first_write(
    shop: Path, amplifier: Amplifier, logged: Callable[..., list[dict[str, Any]]]
) -> None:
    """Without a person, the same agent looks around, and stops where it would change something; nothing has changed."""
    before = _files(shop)
    result = amplifier("run", "fix the discount", "--bundle", "./bundle.yaml")
    assert result.returncode == 3, result.stderr
    assert _files(shop) == before
    events = logged()
    assert set(_audit(events)) == {"look", "read", "plan"}
    (waiting,) = [event["data"] for event in events if event["event"] == "approval:waiting"]
    assert waiting["tool_call_id"] == "wrong"
    (denied,) = [one for one in events if one["event"] == "approval:denied" and "wrong" in json.dumps(one)]
    assert _who(denied, events) == "nobody"
