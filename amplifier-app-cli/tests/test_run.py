"""`amplifier run` and `amplifier logs`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_SCRIPTED = """\
bundle: {name: scripted}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: run.yaml}}
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""


def _scenario(project: Path, turns: str) -> Path:
    (project / "run.yaml").write_text(textwrap.dedent(turns))
    (project / "bundle.yaml").write_text(_SCRIPTED)
    return project / "bundle.yaml"


def _log(result: subprocess.CompletedProcess[str]) -> Path:
    found = re.search(r"^log: (.+)$", result.stderr, re.MULTILINE)
    assert found is not None, result.stderr
    return Path(found.group(1))


def test_default_bundle_answers_offline(amplifier: Amplifier) -> None:
    """The answer is on standard output, alone; on standard error are the provider and how to see the log, no more."""
    result = amplifier("run", "hello there")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Hello. I am the scripted model")
    assert result.stdout.count("\n") == 1
    assert len(result.stderr.splitlines()) == 2
    assert _log(amplifier("-v", "run", "hello there")).is_file()


def test_seeds_end_to_end_check(amplifier: Amplifier) -> None:
    """After a run, grep finds session:start, prompt:submit and session:end in events.jsonl."""
    log = _log(amplifier("run", "-v", "hello"))
    for event in ("session:start", "prompt:submit", "session:end"):
        found = subprocess.run(
            ["grep", "-c", f'"event": "{event}"', str(log)], capture_output=True, text=True, check=False
        )
        assert found.stdout.strip() == "1", event


def test_every_line_is_numbered(amplifier: Amplifier) -> None:
    """The log counts from 1 without gaps, and every line carries the session's id."""
    log = _log(amplifier("run", "-v", "hello"))
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["session_id"] for record in records} == {log.parent.name}


def test_home_can_be_moved(amplifier: Amplifier, tmp_path: Path) -> None:
    """With AMPLIFIER_HOME nothing is written to the home directory."""
    result = amplifier("run", "-v", "hello", AMPLIFIER_HOME=str(tmp_path / "moved"))
    assert _log(result).is_relative_to(tmp_path / "moved")
    assert not list((tmp_path / "home").iterdir())


@pytest.mark.parametrize("arguments", [("run",), ("run", "-")])
def test_prompt_from_standard_input(amplifier: Amplifier, project: Path, arguments: tuple[str, ...]) -> None:
    """Without a prompt, or with -, the prompt is what is piped in."""
    bundle = _scenario(project, 'turns: [{text: "yes", expect: {contains: from the pipe}}]')
    result = amplifier(*arguments, "--bundle", str(bundle), stdin="a question from the pipe\n")
    assert (result.returncode, result.stdout) == (0, "yes\n"), result.stderr


@pytest.mark.parametrize("stdin", [None, "", "  \n"])
def test_no_prompt_is_a_usage_error(amplifier: Amplifier, stdin: str | None) -> None:
    """An empty prompt is refused with exit code 2 and a reason."""
    result = amplifier("run", stdin=stdin)
    assert result.returncode == 2
    assert "prompt" in result.stderr


def test_tools_need_permission(amplifier: Amplifier, project: Path) -> None:
    """Headless, a call of a tool that no rule is about does not run: it is pending, and the run ends with 3."""
    package = project / "tool-danger" / "amplifier_module_tool_danger"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        textwrap.dedent(
            """
            from pathlib import Path
            from amplifier_core import ToolResult

            class Danger:
                name = "danger"
                description = "Do something dangerous"
                input_schema = {"type": "object", "properties": {}}
                async def execute(self, input):
                    Path("ran").touch()
                    return ToolResult(output="ran")

            async def mount(coordinator, config=None):
                await coordinator.mount("tools", Danger())
            """
        )
    )
    bundle = _scenario(
        project,
        """
        turns:
          - tool_calls: [{id: c1, name: danger, arguments: {}}]
        """,
    )
    bundle.write_text(_SCRIPTED + "tools:\n  - {module: tool-danger}\n")
    result = amplifier("run", "go", "--bundle", str(bundle), PYTHONPATH=_with_path(project / "tool-danger"))
    assert (result.returncode, result.stdout) == (3, ""), result.stderr
    assert not (project / "ran").exists()
    events = [json.loads(line)["event"] for line in amplifier("logs", "--json").stdout.splitlines()]
    assert "approval:denied" in events
    assert "approval:waiting" in events


def _with_path(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_missing_modules_are_all_named(amplifier: Amplifier, project: Path) -> None:
    """A run whose bundle names modules that are not there stops with exit code 6 and names each."""
    bundle = _scenario(project, "turns: [{text: unreachable}]")
    bundle.write_text(_SCRIPTED + "tools:\n  - {module: tool-absent}\n  - {module: tool-gone}\n")
    result = amplifier("run", "go", "--bundle", str(bundle))
    assert result.returncode == 6
    assert "tool-absent" in result.stderr
    assert "tool-gone" in result.stderr
    assert result.stdout == ""
    assert amplifier("run", "go", "--bundle", str(bundle), "--allow-missing-modules").returncode == 0


@pytest.mark.parametrize(("value", "code"), [("1", 0), ("true", 0), ("yes", 0), ("0", 6), ("", 6), ("perhaps", 2)])
def test_the_published_variable_allows_missing_modules(
    amplifier: Amplifier, project: Path, value: str, code: int
) -> None:
    """AMPLIFIER_ALLOW_PARTIAL_BUNDLE does what the option does; a value that says neither yes nor no is refused."""
    bundle = _scenario(project, "turns: [{text: done}]")
    bundle.write_text(_SCRIPTED + "tools:\n  - {module: tool-absent}\n")
    result = amplifier("run", "go", "--bundle", str(bundle), AMPLIFIER_ALLOW_PARTIAL_BUNDLE=value)
    assert (result.returncode, result.stdout) == (code, "done\n" if code == 0 else ""), result.stderr


def test_provider_failure_has_its_own_exit_code(amplifier: Amplifier, project: Path) -> None:
    """A model that fails ends the run with exit code 7, the reason on standard error and session:end in the log."""
    bundle = _scenario(project, "turns: [{error: {type: AuthenticationError, message: bad key}}]")
    result = amplifier("run", "go", "--bundle", str(bundle))
    assert result.returncode == 7
    assert "AuthenticationError: bad key" in result.stderr
    logs = amplifier("logs", "--json")
    assert [json.loads(line)["event"] for line in logs.stdout.splitlines()][-1] == "session:end"


def test_bad_bundle_is_told_with_its_line(amplifier: Amplifier, project: Path) -> None:
    """A malformed bundle is an error that names file and line, and no traceback."""
    (project / "bad.yaml").write_text("session: {\n")
    result = amplifier("run", "go", "--bundle", "bad.yaml")
    assert result.returncode == 1
    assert "bad.yaml:2: malformed YAML" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_close_the_session(
    amplifier: Amplifier,
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    wait_for_line: Callable[..., None],
    project: Path,
    gate: str,
    number: signal.Signals,
    code: int,
) -> None:
    """A signal ends the run with its own exit code, and the log still has session:end."""
    bundle = _scenario(project, "turns: [{text: late}]")
    bundle.write_text(_SCRIPTED + gate)
    process = start("run", "go", "--bundle", str(bundle))
    wait_until((project / "asked").exists, process)
    process.send_signal(number)
    if number == signal.SIGINT:  # the step that runs is waited for
        wait_for_line("stopping after the current step", process)
        (project / "go").touch()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code, stderr
    events = [json.loads(line)["event"] for line in amplifier("logs", "--json").stdout.splitlines()]
    assert events[-1] == "session:end"
    assert "execution:end" in events


def test_logs_are_readable(amplifier: Amplifier) -> None:
    """`amplifier logs` prints the newest session of the project, one event per line, or the named events."""
    log = _log(amplifier("run", "-v", "hello"))
    shown = amplifier("logs").stdout.splitlines()
    assert len(shown) == len(log.read_text().splitlines())
    only = amplifier("logs", log.parent.name[:8], "--event", "prompt:submit").stdout.splitlines()
    assert len(only) == 1
    assert "prompt=hello" in only[0]


def test_logs_without_a_session(amplifier: Amplifier) -> None:
    """Where there is nothing to show, that is the same usage error as with `continue`."""
    for command in ("logs", "continue"):
        result = amplifier(command)
        assert result.returncode == 2
        assert "has no session yet: run one with `amplifier run PROMPT`" in result.stderr
    assert amplifier("logs", "nope").returncode == 2


def test_version_and_unknown_commands(amplifier: Amplifier) -> None:
    """`--version` prints the version; an unknown command is a usage error."""
    assert amplifier("--version").stdout == "amplifier 3.0.0\n"
    assert amplifier("fly").returncode == 2
