"""`amplifier tool`: looking at tools and running one by hand."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from amplifier_kit.engine.pairing import check_pairing

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_MODULE = '''\
"""Tools for tests."""

import asyncio
import os
from pathlib import Path

from amplifier_core import ToolResult

print("noise at import")


class Tool:
    input_schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

    def __init__(self, name, action, answer):
        self.name, self.description, self.answer = name, f"This is {name}.", answer
        if action:
            self.action = action

    async def execute(self, input):
        print("noise at work")
        os.write(1, b"noise at the descriptor\\n")
        return await self.answer(input)


async def census(input):
    if "path" not in input:
        return ToolResult(success=False, error={"message": "census needs a path"})
    return ToolResult(output={"files": len(list(Path(input["path"]).iterdir())), "given": input})


async def escape(input):
    return ToolResult(output="\\x1b[2Jclear")


async def crash(input):
    raise OSError("the disk is on fire")


async def sleep(input):
    Path("started").touch()
    await asyncio.sleep(600)


async def mount(coordinator, config=None):
    for tool in (
        Tool("census", "filesystem.read", census),
        Tool("escape", "filesystem.read", escape),
        Tool("crash", "filesystem.read", crash),
        Tool("sleep", "filesystem.read", sleep),
        Tool("write", "filesystem.write", census),
        Tool("plain", None, census),
        Tool("needy", "test.free", census),
    ):
        await coordinator.mount("tools", tool, name=tool.name)
'''


@pytest.fixture(autouse=True)
def _tools(project: Path, environment: dict[str, str], free_tools: None) -> None:
    """Put the tools into the user's home, so that they need no trust, and add them to every session."""
    home = Path(environment["HOME"]) / ".amplifier"
    package = home / "own" / "tool-things" / "amplifier_module_tool_things"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_MODULE, encoding="utf-8")
    (home / "settings.yaml").write_text(
        f"bundle: {{active: minimal}}\nmodules: {{tools: [{{module: tool-things, source: {package.parent}}}]}}\n",
        encoding="utf-8",
    )


def _events(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(record["log"]).read_text(encoding="utf-8").splitlines()]


def _names(record: dict[str, Any]) -> list[str]:
    return [event["event"] for event in _events(record)]


def test_list_and_info(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """Tools are listed by the names that models use, with the permission each needs; no session is left behind."""
    result = amplifier("tool", "list", "--format", "json")
    assert result.returncode == 0, result.stderr
    tools = {one["name"]: one for one in json.loads(result.stdout)}
    assert sorted(tools) == ["census", "crash", "escape", "needy", "plain", "sleep", "write"]
    assert tools["write"]["action"] == "filesystem.write"
    assert tools["plain"]["action"] == "tool.plain"
    assert json.loads(amplifier("tool", "info", "census", "--format", "json").stdout) == tools["census"]
    assert "path (string, required)" in amplifier("tool", "info", "census").stdout
    assert not (Path(environment["HOME"]) / ".amplifier" / "projects").exists()


def test_modules_of_the_tools(amplifier: Amplifier) -> None:
    """With -m the list names modules, of which nothing is loaded, and `info` shows every tool of a module."""
    result = amplifier("tool", "list", "-m", "--json")
    assert [one["module"] for one in json.loads(result.stdout)] == ["tool-things"]
    assert "noise" not in result.stderr
    result = amplifier("tool", "info", "tool-things", "-m", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == json.loads(amplifier("tool", "list", "--json").stdout)
    assert "This is census." in amplifier("tool", "info", "tool-things", "-m").stdout
    result = amplifier("tool", "info", "tool-thngs", "-m")
    assert result.returncode == 2
    assert "did you mean 'tool-things'?" in result.stderr


def test_bundle_without_tools_says_what_to_do(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """An empty list is empty on standard output, and gives a hint."""
    (Path(environment["HOME"]) / ".amplifier" / "settings.yaml").unlink()
    result = amplifier("tool", "list", "-b", "minimal")
    assert (result.returncode, result.stdout) == (0, "")
    assert "amplifier module add" in result.stderr


def test_invoke_prints_the_answer_alone(amplifier: Amplifier) -> None:
    """Values are JSON where they can be; whatever the module prints is not in the result."""
    result = amplifier("tool", "invoke", "census", "path=.", "depth=2", "word=two", 'list=["a"]', "flag=true")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["given"] == {"path": ".", "depth": 2, "word": "two", "list": ["a"], "flag": True}
    assert "noise at work" in result.stderr


def test_invoked_call_is_logged_and_can_be_taken_up(amplifier: Amplifier) -> None:
    """The log has the whole turn and the session's end, the transcript pairs, and the session can be resumed."""
    result = amplifier("tool", "invoke", "census", "path=.", "-o", "json")
    record = json.loads(result.stdout)
    assert record["status"] == "success"
    assert record["result"]["output"]["given"] == {"path": "."}
    names = _names(record)
    assert names[0] == "session:start"
    assert names[-1] == "session:end"
    assert [name for name in names if name.startswith("tool:")] == ["tool:pre", "tool:post"]
    transcript = Path(record["log"]).with_name("transcript.jsonl").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line) for line in transcript]
    assert not check_pairing(messages)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert amplifier("run", "--resume", record["session_id"], "go on").returncode == 0


@pytest.mark.parametrize("providers", ["[{module: provider-anthropic}]", "[]"])
def test_tool_needs_no_key_of_a_model(amplifier: Amplifier, project: Path, providers: str) -> None:
    """A call by hand asks no model, so it runs where the provider has no key, and where there is no provider at all."""
    modules = "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}"
    bundle = f"bundle: {{name: keyless}}\nincludes: [{{bundle: 'amplifier:behaviors/logging'}}]\n{modules}\n"
    (project / "keyless.yaml").write_text(f"{bundle}providers: {providers}\n", encoding="utf-8")
    result = amplifier("tool", "invoke", "census", "path=.", "-b", "keyless.yaml", "-o", "json")
    assert result.returncode == 0, result.stderr
    assert "KEY" not in result.stderr
    record = json.loads(result.stdout)
    assert record["result"]["output"]["given"] == {"path": "."}
    kept = json.loads(Path(record["log"]).with_name("record.json").read_text(encoding="utf-8"))
    assert ("provider-anthropic" in json.dumps(kept)) is (providers != "[]")


def test_arguments_bring_no_files(amplifier: Amplifier, project: Path) -> None:
    """An @ in a value is text for the tool: it mentions nothing."""
    (project / "notes.md").write_text("the secret of the notes", encoding="utf-8")
    record = json.loads(amplifier("tool", "invoke", "census", "path=.", "about=@notes.md", "-o", "json").stdout)
    assert "the secret of the notes" not in Path(record["log"]).read_text(encoding="utf-8")


def test_what_needs_permission_is_refused_without_a_terminal(amplifier: Amplifier) -> None:
    """A call that the rules ask for ends with 3, says so, and did not happen."""
    result = amplifier("tool", "invoke", "write", "path=.", "-o", "json")
    assert result.returncode == 3
    record = json.loads(result.stdout)
    assert record["status"] == "approval_needed"
    assert "needs permission" in result.stderr
    assert "noise at work" not in result.stderr
    assert _names(record)[-1] == "session:end"
    assert "approval:denied" in _names(record)


def test_a_tool_without_a_rule_is_asked(amplifier: Amplifier) -> None:
    """A tool that no rule is about is asked as any other: without a person, the call ends with 3 and did not happen."""
    result = amplifier("tool", "invoke", "plain", "path=.")
    assert result.returncode == 3
    assert "using a tool that no rule is about" in result.stderr
    assert "noise at work" not in result.stderr


def test_what_no_rule_covers_is_denied(amplifier: Amplifier) -> None:
    """A path that leads out of the project ends with 1 and how to find a rule."""
    result = amplifier("tool", "invoke", "census", "path=/")
    assert result.returncode == 1
    assert "amplifier policy explain" in result.stderr
    assert "noise at work" not in result.stderr


def test_person_at_the_terminal_is_asked(
    at_terminal: Callable[..., Any], logged: Callable[..., list[dict[str, Any]]]
) -> None:
    """At a terminal yes runs the tool, and no ends with 1, after its input was shown; the log names the person."""
    for answer, code in (("y", 0), ("n", 1)):
        child = at_terminal("tool", "invoke", "write", "path=.", TERM="dumb")
        child.expect("Allow filesystem.write")
        child.expect(r"Allow\? \[y/n")
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code, child.before
    decided = {one["event"]: one["data"] for one in logged("approval:granted", "approval:denied")}
    me = {"kind": "person", "user": pwd.getpwuid(os.getuid()).pw_name, "via": "tool invoke"}
    assert {name: data["answered_by"] for name, data in decided.items()} == dict.fromkeys(decided, me)
    assert len(decided) == 2


def test_failures_have_a_message_and_exit_code(amplifier: Amplifier) -> None:
    """A tool that crashes, or gets an input that does not fit, ends with 1, an unknown one with 2; each says why."""
    for arguments, code, said in (
        (("needy",), 1, "does not match its schema: at $: 'path' is a required property"),
        (("crash", "path=."), 1, "the disk is on fire"),
        (("cenus", "path=."), 2, "did you mean 'census'?"),
    ):
        result = amplifier("tool", "invoke", *arguments)
        assert result.returncode == code, arguments
        assert result.stdout == ""
        assert said in result.stderr


@pytest.mark.parametrize("argument", ["path", "=x", "path=1"])
def test_bad_arguments_are_mistakes_of_usage(amplifier: Amplifier, argument: str) -> None:
    """An argument that is not KEY=VALUE, or a key twice, ends with 2 before anything is loaded."""
    result = amplifier("tool", "invoke", "census", "path=.", argument)
    assert result.returncode == 2
    assert "noise" not in result.stderr


def test_answer_cannot_steer_the_terminal(amplifier: Amplifier) -> None:
    """Escapes in an answer are not printed raw, in no form."""
    for form in ("text", "json"):
        result = amplifier("tool", "invoke", "escape", "path=.", "-o", form)
        assert "clear" in result.stdout
        assert "\x1b" not in result.stdout


def test_project_that_is_not_trusted_runs_nothing(amplifier: Amplifier, project: Path) -> None:
    """A module that the project names is refused with 6, and --trust allows it once."""
    package = project / "modules" / "tool-own" / "amplifier_module_tool_own"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_MODULE, encoding="utf-8")
    (project / "bundle.yaml").write_text(
        "bundle: {name: own}\nincludes: [minimal]\ntools: [{module: tool-own, source: ./modules/tool-own}]\n",
        encoding="utf-8",
    )
    for command in (("list",), ("info", "census"), ("invoke", "census", "path=.")):
        result = amplifier("tool", *command, "-b", ".")
        assert result.returncode == 6
        assert "amplifier trust" in result.stderr
        assert "noise" not in result.stderr
        assert amplifier("tool", *command, "-b", ".", "--trust").returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_close_the_session(
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    wait_for_line: Callable[..., None],
    logged: Callable[..., list[dict[str, Any]]],
    project: Path,
    number: int,
    code: int,
) -> None:
    """A tool that runs is stopped by a signal (two for Ctrl-C), and the session is closed in the log."""
    process = start("tool", "invoke", "sleep", "path=.")
    wait_until((project / "started").exists, process)
    process.send_signal(number)
    if number == signal.SIGINT:
        wait_for_line("press Ctrl-C again", process)
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    names = [record["event"] for record in logged()]
    assert names[-1] == "session:end"
    assert "execution:end" in names
