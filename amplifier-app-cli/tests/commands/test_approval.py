"""Answers from another process: a run ends because it needs approval, the user answers, and the session is resumed."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

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
_ONE_MAKE = "turns: [{tool_calls: [{id: c1, name: bash, arguments: {command: echo made}}]}]"
_TWO = """
    turns:
      - text: "I try."
        tool_calls:
          - {id: c1, name: bash, arguments: {command: "echo first >> ran.txt"}}
          - {id: c2, name: read_file, arguments: {file_path: notes.txt}}
          - {id: c3, name: write_file, arguments: {file_path: made.txt, content: "made"}}
      - text: The model must not be asked.
"""


class Place:
    """A project where runs end for want of a person."""

    def __init__(self, project: Path, environment: dict[str, str], amplifier: Amplifier) -> None:
        self.project, self.amplifier = project, amplifier
        self._home = Path(environment["HOME"])
        (project / "bundle.yaml").write_text(_BUNDLE, encoding="utf-8")
        (project / "notes.txt").write_text("a note\n", encoding="utf-8")

    def script(self, turns: str) -> None:
        (self.project / "run.yaml").write_text(textwrap.dedent(turns), encoding="utf-8")

    def run(self, turns: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.script(turns)
        return self.amplifier("run", *(arguments or ("go", "--bundle", "./bundle.yaml")))

    def go_on(self, turns: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(turns, "--resume", self.session, *arguments)

    @property
    def folder(self) -> Path:
        (folder,) = self._home.glob(".amplifier/projects/*/sessions/*")
        return folder

    @property
    def session(self) -> str:
        return self.folder.name

    @property
    def waiting(self) -> list[dict[str, Any]]:
        result = self.amplifier("approval", "list", "--format", "json")
        assert result.returncode == 0, result.stderr
        listed: list[dict[str, Any]] = json.loads(result.stdout)
        return listed

    def events(self, *names: str) -> list[dict[str, Any]]:
        lines = (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if event["event"] in names]

    @property
    def ran(self) -> list[str]:
        file = self.project / "ran.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.fixture
def place(project: Path, environment: dict[str, str], amplifier: Amplifier) -> Place:
    """Return a project with real tools and a scripted model."""
    return Place(project, environment, amplifier)


def test_allowed_in_another_process(place: Place) -> None:
    """A call that waits runs once it is allowed, exactly once, as it was asked; the log says who allowed what."""
    ended = place.run(_TWO)
    assert ended.returncode == 3
    assert "must not be asked" not in ended.stdout
    assert f"amplifier approval allow {place.session[:8]}`" in ended.stderr
    assert "of bash: echo first >> ran.txt)" in ended.stderr
    assert {call["tool"]: call["input"] for call in place.waiting} == {
        "bash": {"command": "echo first >> ran.txt"},
        "write_file": {"file_path": "made.txt", "content": "made"},
    }
    assert place.ran == []
    allowed = place.amplifier("approval", "allow", place.session)
    assert allowed.returncode == 0
    assert allowed.stderr.count("allowed: ") == 2
    assert place.ran == []
    done = place.go_on("turns: [{text: All done., expect: {contains: [a note, The call c1, The call c3]}}]")
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    assert place.ran == ["first"]
    assert (place.project / "made.txt").read_text(encoding="utf-8") == "made"
    assert place.waiting == []

    story = place.events("approval:required", "approval:waiting", "approval:answered", "approval:granted", "tool:post")
    of_bash = [one for one in story if '"c1"' in json.dumps(one["data"]) and "first" in json.dumps(one["data"])]
    assert [one["event"] for one in of_bash] == [
        "approval:required",
        "approval:waiting",
        "approval:required",
        "approval:granted",
        "tool:post",
    ]
    granted = of_bash[3]["data"]
    assert (granted["source"], granted["reason"]) == ("approval_system", "approved: Allow")
    answers = {one["data"]["tool_call_id"]: one["data"] for one in story if one["event"] == "approval:answered"}
    assert set(answers) == {"c1", "c3"}
    assert all(answer["answer"] == "allow" and answer["by"] and answer["at"] for answer in answers.values())
    assert answers["c1"]["action"] == "process.exec"
    me = {"kind": "person", "user": pwd.getpwuid(os.getuid()).pw_name, "via": "approval"}
    assert granted["answered_by"] == me | {"at": answers["c1"]["at"]}
    (refused,) = [one["data"] for one in place.events("approval:denied") if '"c1"' in json.dumps(one["data"])]
    assert refused["answered_by"] == {"kind": "nobody"}
    assert len([one for one in story if one["event"] == "tool:post"]) == 3

    again = place.go_on("turns: [{text: Never}]")
    assert (again.returncode, again.stdout) == (2, "")
    assert "no pending calls" in again.stderr
    assert place.ran == ["first"]


def test_denied_with_a_reason(place: Place) -> None:
    """A denied call does not run, the model reads why, and the log has who denied it; the other call waits on."""
    place.run(_TWO)
    bash = next(call for call in place.waiting if call["tool"] == "bash")
    denied = place.amplifier("approval", "deny", place.session[:8], bash["id"][:5], "--reason", "use the other file")
    assert denied.returncode == 0, denied.stderr
    done = place.go_on('turns: [{text: I see., expect: {contains: ["was not allowed: use the other file"]}}]')
    assert (done.returncode, done.stdout) == (0, "I see.\n"), done.stderr
    assert place.ran == []
    assert [call["tool"] for call in place.waiting] == ["write_file"]
    (answer,) = place.events("approval:answered")
    assert (answer["data"]["answer"], answer["data"]["reason"]) == ("deny", "use the other file")
    assert answer["data"]["by"]


def test_allowed_and_denied_before_it_runs(place: Place) -> None:
    """An allowed call can be denied until the session is resumed."""
    place.run(_TWO)
    assert place.amplifier("approval", "allow", place.session).returncode == 0
    denied = place.amplifier("approval", "deny", place.session, "--reason", "not today")
    assert (denied.returncode, denied.stderr.count("denied: ")) == (0, 2), denied.stderr
    done = place.go_on('turns: [{text: I see., expect: {contains: ["was not allowed: not today"]}}]')
    assert (done.returncode, done.stdout) == (0, "I see.\n"), done.stderr
    assert place.ran == []
    assert not (place.project / "made.txt").exists()


def test_json_has_what_waits(place: Place) -> None:
    """With --output-format json the result says what is needed, with the ids to answer by."""
    result = place.run(_TWO, "go", "--bundle", "./bundle.yaml", "--output-format", "json")
    record = json.loads(result.stdout)
    assert (result.returncode, record["status"], record["exit_code"]) == (3, "approval_needed", 3)
    assert record["error_type"] == "approval_needed"
    assert {(call["id"], call["tool"]) for call in record["approvals"]} == {
        (call["id"], call["tool"]) for call in place.waiting
    }
    assert all(call["question"].startswith("Allow ") for call in record["approvals"])
    assert {json.dumps(call["input"]) for call in record["approvals"]} == {
        json.dumps(call["input"]) for call in place.waiting
    }
    place.amplifier("approval", "allow", record["session_id"])
    done = place.go_on("turns: [{text: Done.}]", "--output-format", "json")
    assert json.loads(done.stdout)["response"] == "Done."
    assert place.ran == ["first"]


def test_stream_has_what_waits(place: Place) -> None:
    """With stream-json the events report requests and pending calls as they happen, and the last record sums up."""
    result = place.run(_TWO, "go", "--bundle", "./bundle.yaml", "--output-format", "stream-json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    events = [record["event"] for record in records if record["type"] == "event"]
    assert events.count("approval:waiting") == 2
    assert events.index("approval:required") < events.index("approval:waiting") < events.index("approval:denied")
    assert (records[-1]["type"], records[-1]["status"], records[-1]["exit_code"]) == ("result", "approval_needed", 3)
    assert len(records[-1]["approvals"]) == 2


def test_prompt_goes_with_what_was_answered(place: Place) -> None:
    """A session can be resumed with answers and a prompt; unanswered calls stay pending."""
    place.run(_TWO)
    bash = next(call for call in place.waiting if call["tool"] == "bash")
    place.amplifier("approval", "allow", place.session, bash["id"])
    turns = "turns: [{text: Both., expect: {last_role: user, contains: [The call c1, be quick]}}]"
    done = place.go_on(turns, "be quick")
    assert (done.returncode, done.stdout) == (0, "Both.\n"), done.stderr
    assert place.ran == ["first"]
    assert [call["tool"] for call in place.waiting] == ["write_file"]


def test_rule_that_denies_by_then(place: Place, environment: dict[str, str]) -> None:
    """A rule that denies, written after the call was allowed, is stronger than the answer."""
    place.run(_TWO)
    place.amplifier("approval", "allow", place.session)
    policy = Path(environment["HOME"]) / ".amplifier" / "policy.yaml"
    policy.write_text('rules: [{verdict: deny, command: "echo *", reason: no echoes}]\n', encoding="utf-8")
    done = place.go_on("turns: [{text: Oh., expect: {contains: no echoes}}]")
    assert done.returncode == 0, done.stderr
    assert place.ran == []
    assert (place.project / "made.txt").exists()


def test_nothing_to_go_on_with(place: Place) -> None:
    """A session with unanswered calls is not resumed without a prompt, and says what to do."""
    place.run(_TWO)
    result = place.go_on("turns: [{text: Never}]")
    assert result.returncode != 0
    assert result.stdout == ""
    assert "amplifier approval list" in result.stderr
    assert len(place.waiting) == 2


def test_listed_for_people(place: Place) -> None:
    """The list shows the id, the question and the whole input; an empty one says so on standard error."""
    place.run(_TWO)
    shown = place.amplifier("approval", "list", place.session[:6])
    (call, *_) = place.waiting
    assert call["id"] in shown.stdout
    assert "Allow process.exec? running a command" in shown.stdout
    assert 'bash: {"command": "echo first >> ran.txt"}' in shown.stdout
    assert "waits" in shown.stdout
    place.amplifier("approval", "deny", place.session)
    assert "deny" in place.amplifier("approval", "list").stdout
    place.go_on("turns: [{text: Oh.}]")
    empty = place.amplifier("approval", "list")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "no call waits" in empty.stderr


def test_wrong_names_answer_nothing(place: Place) -> None:
    """Unknown sessions and calls, empty ids, and calls that are answered already are errors that change nothing."""
    place.run(_TWO)
    before = place.waiting
    for arguments in (
        ["nowhere"],
        [place.session, "zzzz"],
        [place.session, ""],
        [place.session, before[0]["id"], "zz"],
    ):
        result = place.amplifier("approval", "allow", *arguments, "--format", "json")
        assert result.returncode == 2, arguments
        assert json.loads(result.stdout)["status"] == "error"
    assert place.waiting == before
    assert place.amplifier("approval", "deny", place.session).returncode == 0
    late = place.amplifier("approval", "allow", place.session)
    assert late.returncode == 1
    assert "no call waits" in late.stderr
    assert {call["answer"] for call in place.waiting} == {"deny"}


def test_answer_as_json(place: Place) -> None:
    """What was answered is printed for programs."""
    place.run(_TWO)
    result = place.amplifier("approval", "deny", place.session, "--reason", "no", "--format", "json")
    records = json.loads(result.stdout)
    assert [record["answer"] for record in records] == ["deny", "deny"]
    assert {question["reason"] for record in records for question in record["questions"]} == {"no"}
    assert {record["session_id"] for record in records} == {place.session}


def test_broken_file_runs_nothing(place: Place) -> None:
    """A file that cannot be read is said, with its name, by every command; nothing runs and nothing is forgotten."""
    place.run(_TWO)
    place.amplifier("approval", "allow", place.session)
    file = place.folder / "waiting-calls.json"
    file.write_text('{"version": 1, "calls": [{', encoding="utf-8")
    for result in (
        place.amplifier("approval", "list", place.session),
        place.amplifier("approval", "allow", place.session),
        place.go_on("turns: [{text: Never}]"),
    ):
        assert result.returncode == 1
        assert "waiting-calls.json: cannot be read" in result.stderr
    everything = place.amplifier("approval", "list")
    assert everything.returncode == 0
    assert "waiting-calls.json: cannot be read" in everything.stderr
    assert place.ran == []
    assert file.exists()


def test_secret_is_not_kept(place: Place, environment: dict[str, str]) -> None:
    """A call with a secret in its input cannot wait: the run says so without it, and no file holds it."""
    secret = environment["SOME_API_KEY"] = "sk-" + "0123456789abcdef" * 2
    call = f"{{id: c1, name: bash, arguments: {{command: 'echo {secret} > ran.txt'}}}}"
    result = place.run(f"turns: [{{tool_calls: [{call}]}}, {{text: Never}}]")
    assert result.returncode == 3
    assert "secret" in result.stderr
    assert "amplifier resume" in result.stderr
    assert secret not in result.stderr + result.stdout
    assert place.waiting == []
    assert place.ran == []
    for file in place.folder.iterdir():
        assert secret.encode() not in file.read_bytes(), file


def test_what_was_allowed_later_makes_a_rule(place: Place) -> None:
    """`policy suggest` counts the answer from the other process, and not the denial for want of a terminal."""
    for _ in range(2):
        place.run(_ONE_MAKE)
        waiting = place.waiting[0]["session_id"]
        assert place.amplifier("approval", "allow", waiting).returncode == 0
        (place.project / "run.yaml").write_text("turns: [{text: Done.}]", encoding="utf-8")
        assert place.amplifier("run", "--resume", waiting).returncode == 0
    suggested = place.amplifier("policy", "suggest")
    assert suggested.returncode == 0, suggested.stderr
    assert 'allow process.exec command "echo made"' in suggested.stdout + suggested.stderr


_LONG = "turns: [{tool_calls: [{id: c1, name: bash, arguments: {command: 'echo " + "x" * 4000 + "END'}}]}]"


def test_what_is_allowed_is_shown_whole(place: Place) -> None:
    """A list and an answer without a terminal show all of the call, with what a terminal would obey made visible."""
    command = r"echo \u202e" + "x" * 5000 + r"\u001b[2J END"
    place.run(f'turns: [{{tool_calls: [{{id: c1, name: bash, arguments: {{command: "{command}"}}}}]}}]')
    whole = r"echo \u202e" + "x" * 5000 + r"\u001b[2J END"
    listed = place.amplifier("approval", "list")
    assert whole in listed.stdout
    allowed = place.amplifier("approval", "allow", place.session)
    assert allowed.returncode == 0
    assert whole in allowed.stderr
    assert [call["answer"] for call in place.waiting] == ["allow"]


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(["\r", "\r", "y\r"], "allow"), (["y\r"], None), (["\r", "n\r"], None), (["\x04"], None), (["\x03"], None)],
)
def test_a_long_call_is_allowed_after_its_last_page(
    place: Place, at_terminal: Callable[..., Any], keys: list[str], answer: str | None
) -> None:
    """At a terminal every page is shown before a yes counts; anything else, Ctrl-C and Ctrl-D allow nothing."""
    place.run(_LONG)
    terminal = at_terminal("approval", "allow", place.session, dimensions=(20, 80))
    for key in keys:
        terminal.expect(r"\[Enter = next page, n = allow nothing\] |Allow\? \[y/n\] ")
        assert "allowed:" not in terminal.before
        terminal.send(key)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert [question["answer"] for call in place.waiting for question in call["questions"]] == [answer]
    assert (terminal.exitstatus == 0) == (answer == "allow")


def test_yes_reads_the_pages_for_a_script(place: Place) -> None:
    """With --yes nothing is waited for."""
    place.run(_LONG)
    assert place.amplifier("approval", "allow", "--yes", place.session).returncode == 0
