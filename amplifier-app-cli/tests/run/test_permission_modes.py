"""Permission modes and rules for one run, as `run`, `continue` and `resume` have them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

_TOOLS = "tools:\n  - {module: tool-filesystem}\n  - {module: tool-bash}\n"
_AGENT = "  - {module: tool-delegate}\nagents: {include: [helper]}\n"
_WRITE = "turns: [{tool_calls: [{id: c1, name: write_file, arguments: {file_path: a.txt, content: x}}]}, {text: Done.}]"
_RUN = "turns: [{tool_calls: [{id: c1, name: bash, arguments: {command: touch made}}]}, {text: Done.}]"
_DELEGATE = """
    turns:
      - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Go., context_depth: none}}]
      - text: All done.
    agents:
      helper:
        - tool_calls: [{id: c2, name: write_file, arguments: {file_path: a.txt, content: x}}]
        - text: Done.
"""
_HELPER = """\
---
meta: {name: helper, description: Helps.}
hooks:
  - module: hooks-approval
    config: {rules: [{action: "*", verdict: allow}]}
---
Help.
"""


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the home of the program."""
    folder = Path(environment["HOME"]) / ".amplifier"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture
def needs_sandbox(project: Path) -> None:
    """Skip the test where no sandbox works."""
    if not Sandbox(SandboxConfig(), project).status.is_active:
        pytest.skip("there is no sandbox here")


def _metadata(home: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in home.glob("projects/*/sessions/*/metadata.json")]


@pytest.fixture
def changes(amplifier: Amplifier) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that returns the changes of the mode in the log of the newest session."""

    def read() -> list[dict[str, Any]]:
        lines = amplifier("logs", "--json", "--event", "policy:mode_changed").stdout.splitlines()
        return [json.loads(line)["data"] for line in lines]

    return read


def test_edits_are_accepted_and_commands_are_not(amplifier: Amplifier, scripted: Scripted, project: Path) -> None:
    """In accept-edits, a file of the project is written unasked, and a command needs an answer as before."""
    result = amplifier("run", "go", "--bundle", scripted(_WRITE, _TOOLS), "--permission-mode", "accept-edits")
    assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr
    assert (project / "a.txt").exists()
    result = amplifier("run", "go", "--bundle", scripted(_RUN, _TOOLS), "--permission-mode", "accept-edits")
    assert result.returncode == 3
    assert not (project / "made").exists()


def test_read_only_denies_and_says_why(
    amplifier: Amplifier, scripted: Scripted, project: Path, home: Path, changes: Callable[[], Any]
) -> None:
    """The model reads the reason, the run goes on, and the log has who chose the mode."""
    (home / "policy.yaml").write_text("rules: [{action: filesystem.write, verdict: allow}]\n", encoding="utf-8")
    result = amplifier("run", "go", "--bundle", scripted(_WRITE, _TOOLS), "--permission-mode", "read-only")
    assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr
    assert not (project / "a.txt").exists()
    (denied,) = amplifier("logs", "--json", "--event", "approval:denied").stdout.splitlines()
    assert json.loads(denied)["data"]["reason"] == "read-only mode: it writes a file"
    (change,) = changes()
    assert (change["mode"], change["previous"]) == ("read-only", "ask")
    assert (change["by"]["kind"], change["by"]["via"]) == ("person", "--permission-mode")


def test_resume_keeps_the_mode(
    amplifier: Amplifier, scripted: Scripted, project: Path, home: Path, changes: Callable[[], Any]
) -> None:
    """Also when settings have changed since; another mode is an option, and an event."""
    bundle = scripted("turns: [{text: Done.}]", _TOOLS)
    assert amplifier("run", "go", "--bundle", bundle, "--permission-mode", "read-only").returncode == 0
    (home / "settings.yaml").write_text("permissions: {mode: accept-edits}\n", encoding="utf-8")
    scripted(_WRITE, _TOOLS)
    assert amplifier("continue", "and now").returncode == 0
    assert not (project / "a.txt").exists()
    assert [one["permission_mode"] for one in _metadata(home)] == ["read-only"]
    assert len(changes()) == 1
    scripted(_WRITE, _TOOLS)
    assert amplifier("continue", "and now", "--permission-mode", "accept-edits").returncode == 0
    assert (project / "a.txt").exists()
    assert [(one["previous"], one["mode"]) for one in changes()][1:] == [("read-only", "accept-edits")]


def test_the_mode_of_settings(
    amplifier: Amplifier, scripted: Scripted, project: Path, home: Path, changes: Callable[[], Any]
) -> None:
    """The user's setting holds for new sessions, and the log names the file; a project's looser one does not."""
    bundle = scripted(_WRITE, _TOOLS)
    (project / ".amplifier").mkdir()
    (project / ".amplifier" / "settings.yaml").write_text("permissions: {mode: accept-edits}\n", encoding="utf-8")
    assert amplifier("run", "go", "--bundle", bundle).returncode == 3
    (home / "settings.yaml").write_text("permissions: {mode: accept-edits}\n", encoding="utf-8")
    assert amplifier("run", "go", "--bundle", scripted(_WRITE, _TOOLS)).returncode == 0
    (change,) = changes()
    assert change["by"] == {"kind": "setting", "where": f"{home / 'settings.yaml'}:1"}
    (home / "settings.yaml").write_text("permissions: {mode: yolo}\n", encoding="utf-8")
    result = amplifier("run", "go", "--bundle", bundle)
    assert result.returncode == 2
    assert "settings.yaml:1: unknown permission mode 'yolo'" in result.stderr


@pytest.mark.parametrize(("mode", "is_written"), [("accept-edits", True), ("read-only", False), ("ask", False)])
def test_agents_have_the_mode_of_their_session(
    mode: str, is_written: bool, amplifier: Amplifier, scripted: Scripted, project: Path, home: Path
) -> None:
    """Rules of an agent, trusted or not, loosen nothing; the mode is in its metadata, and kept when it is resumed."""
    (home / "policy.yaml").write_text("rules: [{action: session.spawn, verdict: allow}]\n", encoding="utf-8")
    (project / "agents").mkdir()
    (project / "agents" / "helper.md").write_text(_HELPER, encoding="utf-8")
    result = amplifier(
        "run", "go", "--bundle", scripted(_DELEGATE, _TOOLS + _AGENT), "--trust", "--permission-mode", mode
    )
    assert (project / "a.txt").exists() is is_written, result.stderr
    assert [one["permission_mode"] for one in _metadata(home)] == [mode, mode], result.stderr
    if mode == "ask":
        return  # resumed by itself, what a trusted agent's file allows counts as that of any bundle
    child = next(one["session_id"] for one in _metadata(home) if one.get("parent_id"))
    (project / "a.txt").unlink(missing_ok=True)
    (project / "run.yaml").write_text(_WRITE, encoding="utf-8")
    amplifier("run", "again", "--resume", child, "--trust")
    assert (project / "a.txt").exists() is is_written


def test_auto_is_refused_without_a_sandbox(amplifier: Amplifier, scripted: Scripted, tmp_path: Path) -> None:
    """The reason and what to do are said, with 2, and no model is asked; so it is when the sandbox is off."""
    (tmp_path / "empty").mkdir()
    asked = ("run", "go", "--permission-mode", "auto", "--bundle")
    result = amplifier(*asked, scripted(_RUN, _TOOLS), PATH=str(tmp_path / "empty"))
    assert result.returncode == 2
    assert "does not work here: bubblewrap (bwrap) is not on PATH" in result.stderr
    assert "use the mode accept-edits" in result.stderr
    session = "  context: {module: context-simple}\n"
    bundle = Path(scripted(_RUN, _TOOLS))
    text = bundle.read_text(encoding="utf-8").replace(session, f"{session}  sandbox: off\n")
    bundle.write_text(text, encoding="utf-8")
    result = amplifier(*asked, str(bundle))
    assert result.returncode == 2
    assert "`session.sandbox` is off" in result.stderr


def test_auto_asks_for_a_command_that_runs_outside_of_the_sandbox(
    amplifier: Amplifier, scripted: Scripted, project: Path, needs_sandbox: None
) -> None:
    """Where the session has a sandbox and the tool switches it off for itself, its commands are asked for."""
    for config, code in (("", 0), (", config: {sandbox: off}", 3)):
        (project / "made").unlink(missing_ok=True)
        tools = f"tools:\n  - {{module: tool-bash{config}}}\n"
        result = amplifier("run", "go", "--bundle", scripted(_RUN, tools), "--permission-mode", "auto")
        assert result.returncode == code, result.stderr
        assert (project / "made").exists() is (code == 0)


def test_the_mode_of_a_session_is_shown(amplifier: Amplifier, scripted: Scripted) -> None:
    """`session show` and the JSON of lists say which mode a resumed session will have, a fork's too."""
    turns = "turns: [{text: Done.}]"
    assert amplifier("run", "go", "--bundle", scripted(turns), "--permission-mode", "read-only").returncode == 0
    (session,) = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    fork = amplifier("session", "fork", session["id"]).stdout.strip()
    assert session["permission_mode"] == "read-only"
    for one in (session["id"], fork):
        assert re.search(r"^Permissions: +read-only$", amplifier("session", "show", one).stdout, re.MULTILINE)


def test_rules_for_one_run(amplifier: Amplifier, scripted: Scripted, project: Path) -> None:
    """--allow and --deny hold for this run alone, in the forms of `amplifier policy allow`; deny wins."""
    bundle = scripted(_RUN, _TOOLS)
    assert amplifier("run", "go", "--bundle", bundle, "--allow", "touch *").returncode == 0
    assert (project / "made").exists()
    (project / "made").unlink()
    scripted(_RUN, _TOOLS)
    assert amplifier("continue", "again").returncode == 3
    scripted(_RUN, _TOOLS)
    both = ("--allow", "process.exec", "--deny", 'command "touch *"')
    assert amplifier("run", "go", "--bundle", bundle, *both).returncode == 0
    assert not (project / "made").exists()
    for option, text in (("--allow", "deny touch *"), ("--deny", "command: touch *")):
        result = amplifier("run", "go", "--bundle", bundle, option, text)
        assert result.returncode == 2
        assert f"the rule {text!r}" in result.stderr


def test_a_tool_that_no_rule_is_about_is_pending(
    amplifier: Amplifier, scripted: Scripted, add_module: Callable[[str, str], None], project: Path
) -> None:
    """Without a person the run ends with 3, and standard error names the rule and the command that allows the call."""
    add_module(
        "tool-count",
        "from amplifier_core import ToolResult\n"
        "class Count:\n"
        "    name, description, input_schema = 'count_words', 'Count words', {'type': 'object', 'properties': {}}\n"
        "    async def execute(self, input): return ToolResult(output='3 words')\n"
        "async def mount(coordinator, config=None): await coordinator.mount('tools', Count())\n",
    )
    call = "turns: [{tool_calls: [{id: c1, name: count_words, arguments: {text: a b c}}]}, {text: Counted.}]"
    result = amplifier("run", "go", "--bundle", scripted(call, "tools: [{module: tool-count}]\n"))
    assert result.returncode == 3
    assert "rule `ask tool.*`" in result.stderr
    session = result.stderr.partition("`amplifier approval allow ")[2].partition("`")[0]
    assert amplifier("approval", "allow", session).returncode == 0
    scripted(
        "turns: [{text: Counted., expect: {last_role: user, contains: 3 words}}]", "tools: [{module: tool-count}]\n"
    )
    result = amplifier("run", "--resume", session)
    assert (result.returncode, result.stdout) == (0, "Counted.\n"), result.stderr


def test_what_a_command_changed_unasked_is_shown(
    amplifier: Amplifier, scripted: Scripted, project: Path, needs_sandbox: None
) -> None:
    """In auto mode a command that names no file may write one that others run: that is shown, and in the log."""
    (project / ".vscode").mkdir()
    (project / ".vscode" / "tasks.json").write_text("{}", encoding="utf-8")
    (project / "write.py").write_text(
        "from pathlib import Path\n"
        "Path('.en' + 'vrc').write_text('echo hello')\n"
        "Path('.vs' + 'code', 'tasks.json').write_text('[]')\n",
        encoding="utf-8",
    )
    call = "{tool_calls: [{id: c1, name: bash, arguments: {command: python3 write.py}}]}"
    bundle = scripted(f"turns: [{call}, {{text: Done.}}]", "tools: [{module: tool-bash}]\n")
    result = amplifier("run", "go", "--bundle", bundle, "--permission-mode", "auto")
    assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr
    assert "warning: this turn changed .envrc, .vscode/tasks.json: " in result.stderr
    assert amplifier("logs", "--event", "policy:unasked_change", "--json").stdout.count(".envrc") == 1
    again = amplifier("run", "go", "--bundle", scripted("turns: [{text: Done.}]"), "--permission-mode", "auto")
    assert "this turn changed" not in again.stderr


def test_an_added_folder(amplifier: Amplifier, scripted: Scripted, tmp_path: Path, needs_sandbox: None) -> None:
    """A folder beside the project is written in a mode that edits, by tools and commands, in this run alone."""
    library = tmp_path / "library"
    library.mkdir()
    turns = (
        f"turns: [{{tool_calls: [{{id: c1, name: write_file, arguments: {{file_path: {library}/a, content: x}}}}, "
        f"{{id: c2, name: bash, arguments: {{command: touch {library}/b}}}}]}}, {{text: Done.}}]"
    )
    bundle = scripted(turns, _TOOLS)
    added = ("--permission-mode", "auto", "--add-dir", str(library))
    assert amplifier("run", "go", "--bundle", bundle, *added).returncode == 0
    assert sorted(path.name for path in library.iterdir()) == ["a", "b"]
    for path in library.iterdir():
        path.unlink()
    scripted(turns, _TOOLS)
    assert amplifier("continue", "again").returncode == 0
    assert list(library.iterdir()) == []
    assert amplifier("run", "go", "--add-dir", str(library / "missing")).returncode == 2


def test_an_answer_from_before_does_not_lift_the_mode(
    amplifier: Amplifier, scripted: Scripted, project: Path, home: Path
) -> None:
    """A pending call that was allowed is judged again when it runs: in read-only it is denied."""
    assert amplifier("run", "go", "--bundle", scripted(_RUN, _TOOLS)).returncode == 3
    (session,) = (one["session_id"] for one in _metadata(home))
    assert amplifier("approval", "allow", session).returncode == 0
    scripted("turns: [{text: Done.}]", _TOOLS)
    amplifier("run", "--resume", session, "--permission-mode", "read-only")
    assert not (project / "made").exists()


def test_a_fork_keeps_the_mode(amplifier: Amplifier, scripted: Scripted, project: Path, home: Path) -> None:
    """A copy of a session in read-only is in read-only."""
    bundle = scripted("turns: [{text: Done.}]", _TOOLS)
    assert amplifier("run", "go", "--bundle", bundle, "--permission-mode", "read-only").returncode == 0
    (session,) = (one["session_id"] for one in _metadata(home))
    assert amplifier("session", "fork", session, "--name", "copy").returncode == 0
    scripted(_WRITE, _TOOLS)
    amplifier("run", "again", "--resume", "copy")
    assert not (project / "a.txt").exists()
    assert {one["permission_mode"] for one in _metadata(home)} == {"read-only"}


@pytest.mark.parametrize(("config", "code"), [("{}", 0), ("{tools: {write_file: {require_approval: true}}}", 3)])
def test_a_module_that_asks_each_time_is_not_lifted(
    config: str, code: int, amplifier: Amplifier, scripted: Scripted, project: Path
) -> None:
    """What hooks-approval asks for by the kind of tool is spared by the mode; what it is configured to ask is not."""
    more = f"  - {{module: hooks-approval, config: {config}}}\n{_TOOLS}"
    result = amplifier("run", "go", "--bundle", scripted(_WRITE, more), "--permission-mode", "accept-edits")
    assert result.returncode == code, result.stderr
    assert (project / "a.txt").exists() is (code == 0)
