"""What commands become, and what guards them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, ToolResult
from amplifier_module_tool_slash_command.command_file import parse_command
from amplifier_module_tool_slash_command.expand import fill_arguments
from amplifier_testing.loop.fakes import PlainTool


class Rig:
    """A session with the tool, and a shell that answers with the command."""

    def __init__(self, session: AmplifierSession, bash: PlainTool) -> None:
        self.coordinator: Any = session.coordinator
        self.bash = bash

    async def call(self, command: Any = None, args: str = "", operation: str = "execute") -> Any:
        tool = self.coordinator.get("tools")["slash_command"]
        return await tool.execute({"operation": operation, "command": command, "args": args})

    async def prompt(self, command: str, args: str = "") -> str:
        result = await self.call(command, args)
        assert result.success, result.output
        return str(result.output["prompt"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project folder."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def write(project: Path) -> Callable[..., Path]:
    """Give `write(name, body, place="user", **front_matter)`, which writes a command."""

    def made(name: str, body: str, place: str = "user", **front: Any) -> Path:
        folder = project.parent / "home" if place == "user" else project / ".amplifier"
        file = folder / "commands" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        keys = "\n".join(f"{key.replace('_', '-')}: {value}" for key, value in {"description": name, **front}.items())
        file.write_text(f"---\n{keys}\n---\n{body}\n", encoding="utf-8")
        return file

    return made


@pytest.fixture
def open_rig(scripted_session: Callable[..., AmplifierSession], project: Path) -> Any:
    """Give `async with open_rig(config=None, policy=allow, has_bash=True, is_trusted=True, hooks=()) as rig`."""

    @asynccontextmanager
    async def open_(
        config: Any = None,
        policy: Any = lambda action, details: "allow",
        has_bash: bool = True,
        is_trusted: bool = True,
        hooks: Any = (),
    ) -> Any:
        def run(given: dict[str, Any]) -> ToolResult:
            return ToolResult(output={"stdout": f"<{given['command']}>\n", "stderr": "", "returncode": 0})

        bash = PlainTool("bash", run, action="process.exec")
        session = scripted_session(
            "done",
            tools=[{"module": "tool-slash-command", "config": config or {}}],
            mounted=[bash] if has_bash else [PlainTool("look")],
            hooks=hooks,
        )
        coordinator = session.coordinator
        coordinator.register_policy("test", policy)
        coordinator.register_capability("session.working_dir", str(project))
        coordinator.register_capability("amplifier.home", str(project.parent / "home"))
        coordinator.register_capability("project.is_trusted", lambda: is_trusted)
        async with session:
            yield Rig(session, bash)

    return open_


async def test_arguments_and_defaults(open_rig: Any, write: Any) -> None:
    """All that was typed, single words, quoted ones, and defaults for those that are missing."""
    write("review", 'All: $ARGUMENTS. First: $1. Second: {{$2 or "correctness"}}. Third: $3.')
    async with open_rig() as rig:
        assert await rig.prompt("review", "12") == "All: 12. First: 12. Second: correctness. Third: ."
        assert await rig.prompt("/review", '"a b" c') == 'All: "a b" c. First: a b. Second: c. Third: .'


async def test_shell_output_files_and_other_commands(open_rig: Any, write: Any, project: Path) -> None:
    """Each part of the file becomes what it stands for, and the result lists what was run and read."""
    (project / "RULES.md").write_text("Be kind.\n", encoding="utf-8")
    write("inner", "Inner $1.")
    write(
        "outer",
        "Log: !`git log -5`\n@RULES.md, and @nobody\n/inner $1\n/usr/bin is a path",
        allowed_tools="Bash(git log:*)",
    )
    async with open_rig() as rig:
        result = await rig.call("outer", "x")
    assert result.output["prompt"] == (
        'Log: <git log -5>\n<file path="RULES.md">\nBe kind.\n</file>, and @nobody\nInner x.\n/usr/bin is a path'
    )
    assert result.output["bash_commands_executed"] == ["git log -5"]
    assert result.output["files_included"] == [str(project / "RULES.md")]
    assert (result.output["command"], result.output["source"]) == ("outer", "user")


async def test_nothing_that_comes_in_is_expanded(open_rig: Any, write: Any, project: Path) -> None:
    """An argument or a file with shell commands, mentions or commands in it is text."""
    (project / "data.md").write_text("!`rm -rf /` @secret /outer $1", encoding="utf-8")
    write("outer", "$1\n@data.md", allowed_tools="Bash")
    async with open_rig() as rig:
        text = await rig.prompt("outer", "'!`rm -rf /` @data.md'")
        assert text.startswith("!`rm -rf /` @data.md\n")
        assert "!`rm -rf /` @secret /outer $1" in text
        assert rig.bash.inputs == []


async def test_arguments_are_quoted_for_the_shell(open_rig: Any, write: Any) -> None:
    """An argument is one word of the shell command, whatever is in it; inside of quotes it would not be."""
    write("log", "!`git log $1`", allowed_tools="Bash(git log:*)")
    write("bad", '!`echo "$1"`', allowed_tools="Bash")
    write("worse", "!`echo $'\\' $1'`", allowed_tools="Bash")
    async with open_rig() as rig:
        await rig.prompt("log", "'x; rm -rf /'")
        assert rig.bash.inputs[0]["command"] == "git log 'x; rm -rf /'"
        for name in ("bad", "worse"):
            assert (await rig.call(name, "'; id;'")).error["code"] == "not_allowed"
        assert len(rig.bash.inputs) == 1


@pytest.mark.parametrize(
    ("allowed", "line", "is_allowed"),
    [
        ("Bash", "make test", True),
        ("Bash(*)", "make test", True),
        ("Bash(make:*)", "make test", True),
        ("Bash(make:*)", "make", True),
        ("Bash(make:*)", "makefile", False),
        ("Bash(make test)", "make test", True),
        ("Bash(make test)", "make clean", False),
        ("Read, Bash(git add:*), Bash(git status)", "git status", True),
        ("Read", "make", False),
        ("[]", "make", False),
    ],
)
async def test_only_allowed_shell_commands_run(
    open_rig: Any, write: Any, allowed: str, line: str, is_allowed: bool
) -> None:
    """A shell command that the file's allowed-tools does not name is an error, and nothing runs."""
    write("it", f"!`{line}`", allowed_tools=allowed)
    async with open_rig() as rig:
        result = await rig.call("it")
    assert result.success is is_allowed
    assert [given["command"] for given in rig.bash.inputs] == ([line] if is_allowed else [])


async def test_shell_commands_are_authorized_as_those_of_bash(open_rig: Any, write: Any) -> None:
    """The session is asked about the same action with the same details as for a call of the model."""
    asked: list[tuple[str, Any]] = []

    def policy(action: str, details: Any) -> str:
        asked.append((action, details["tool_input"]["command"]))
        return "deny" if "rm" in details["tool_input"]["command"] else "allow"

    write("look", "!`ls`", allowed_tools="Bash")
    write("wipe", "!`rm -r build`", allowed_tools="Bash")
    async with open_rig(policy=policy) as rig:
        assert await rig.prompt("look") == "<ls>"
        result = await rig.call("wipe")
        assert "`rm -r build` was denied" in result.output
        assert result.error["code"] == "shell_failed"
    assert asked == [("process.exec", "ls"), ("process.exec", "rm -r build")]
    assert [given["command"] for given in rig.bash.inputs] == ["ls"]


async def test_a_mode_denies_shell_commands_too(open_rig: Any, write: Any) -> None:
    """What hooks deny the tool bash is denied here."""
    write("look", "!`ls`", allowed_tools="Bash")
    async with open_rig(hooks=[{"module": "hooks-mode"}]) as rig:
        rig.coordinator.session_state["active_mode"] = "explore"
        assert "'bash' is not in the allowed list" in (await rig.call("look")).output
    assert rig.bash.inputs == []


async def test_without_bash_nothing_runs(open_rig: Any, write: Any) -> None:
    """A session without a shell says so."""
    write("look", "!`ls`", allowed_tools="Bash")
    async with open_rig(has_bash=False) as rig:
        assert "this session has no tool bash" in (await rig.call("look")).output


async def test_commands_of_an_untrusted_project_are_left_out(open_rig: Any, write: Any) -> None:
    """The project's commands count only if it is trusted, and then before the user's."""
    write("ship", "theirs", place="project")
    write("ship", "mine")
    async with open_rig(is_trusted=True) as rig:
        assert await rig.prompt("ship") == "theirs"
    async with open_rig(is_trusted=False) as rig:
        assert await rig.prompt("ship") == "mine"


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_folders_that_an_untrusted_project_names_are_left_out(
    open_rig: Any, project: Path, is_trusted: bool
) -> None:
    """Also those that lie outside of it: whoever names them chooses what the model reads as a prompt of the user."""
    folder = project.parent / "elsewhere"
    folder.mkdir()
    (folder / "theirs.md").write_text("---\ndescription: d\n---\nx")
    async with open_rig({"commands": [str(folder)]}) as rig:
        rig.coordinator.register_capability("plan.is_trusted", lambda module: is_trusted)
        listed = (await rig.call(operation="list")).output["commands"]
    assert [each["name"] for each in listed] == ["theirs"] * is_trusted


async def test_list_names_what_the_model_may_use(open_rig: Any, write: Any) -> None:
    """Folders are parts of names; commands for users alone are neither listed nor executed."""
    write("git/commit", "x", argument_hint="MESSAGE")
    write("mine", "x", disable_model_invocation="true")
    async with open_rig() as rig:
        listed = (await rig.call(operation="list")).output["commands"]
        assert listed == [
            {"name": "git:commit", "description": "git/commit", "source": "user", "argument_hint": "MESSAGE"}
        ]
        assert (await rig.call("mine")).error["code"] == "not_for_model"


async def test_a_command_that_wants_approval_is_asked_about(open_rig: Any, write: Any) -> None:
    """With `requires-approval` the user is asked, even where a rule allows the tool."""
    write("ship", "x", requires_approval="true")
    write("look", "x")
    async with open_rig() as rig:
        details = {"tool_name": "slash_command", "tool_input": {"operation": "execute", "command": "/ship"}}
        assert not (await rig.coordinator.authorize("tool.slash_command", details)).granted
        details["tool_input"] = {"operation": "execute", "command": "look"}
        assert (await rig.coordinator.authorize("tool.slash_command", details)).granted


@pytest.mark.parametrize("keys", [{"requires_approval": "true"}, {"disable_model_invocation": "true"}])
async def test_a_command_inside_of_another_keeps_its_conditions(
    open_rig: Any, write: Any, keys: dict[str, str]
) -> None:
    """What the user wants to be asked about, or to start themselves, is not reached through another command."""
    write("ship", "!`ship it`", allowed_tools="Bash", **keys)
    write("look", "/ship")
    async with open_rig() as rig:
        assert (await rig.call("look")).error["code"] == "not_allowed"
        assert rig.bash.inputs == []


@pytest.mark.parametrize(("place", "is_given"), [("user", True), ("project", False)])
async def test_a_command_of_the_project_includes_no_file_elsewhere(
    open_rig: Any, write: Any, project: Path, place: str, is_given: bool
) -> None:
    """It reaches what every other text of the project reaches; commands of the user are the user's word."""
    elsewhere = project.parent / "private.txt"
    elsewhere.write_text("private", encoding="utf-8")
    write("look", f"@{elsewhere}", place)
    async with open_rig() as rig:
        rig.coordinator.register_capability(
            "prompt.denied", lambda path, root: None if Path(path).is_relative_to(root) else "it lies elsewhere"
        )
        result = await rig.call("look")
    assert result.success is is_given
    assert ("<file" in str(result.output)) is is_given


async def test_limits(open_rig: Any, write: Any) -> None:
    """Prompts are cut by file and config, and commands cannot call each other for ever."""
    write("long", "x" * 100, max_chars=10)
    write("loop", "/loop")
    async with open_rig(config={"max_chars": 5}) as rig:
        assert await rig.prompt("long") == "xxxxx"
        assert (await rig.call("loop")).error["code"] == "too_deep"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "invalid_operation"),
        ({"operation": "run"}, "invalid_operation"),
        ({"operation": "execute"}, "invalid_input"),
        ({"operation": "execute", "command": "gone"}, "command_not_found"),
        ({"operation": "execute", "command": "gone", "args": 3}, "invalid_input"),
    ],
)
async def test_wrong_input_is_named(open_rig: Any, given: dict[str, Any], code: str) -> None:
    """What is wrong with a call has a stable code."""
    async with open_rig() as rig:
        result = await rig.coordinator.get("tools")["slash_command"].execute(given)
    assert (result.success, result.error["code"]) == (False, code)


@given(st.text(), st.text())
def test_any_text_can_be_filled(text: str, args: str) -> None:
    """Filling arguments never fails, and leaves a text without placeholders as it is."""
    filled = fill_arguments(text, args)
    assert "$" in text or filled == text


def test_a_command_needs_a_description() -> None:
    """The error names file and key."""
    with pytest.raises(ValueError, match=r"x\.md: config key 'description' is missing"):
        parse_command(Path("x.md"), b"---\nmodel: m\n---\nx", "user", "x")
