"""The exit codes, one by one, and what is said with each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

CALL = "{tool_calls: [{id: c1, name: echo, arguments: {word: x}}], usage: {input_tokens: 50, cost_usd: 1}}"


def test_zero_for_an_answer(amplifier: Amplifier, scripted: Scripted) -> None:
    """0: there is an answer."""
    assert amplifier("run", "go", "--bundle", scripted("turns: [{text: Sure}]")).returncode == 0


def test_one_for_a_failure(amplifier: Amplifier, project: Path) -> None:
    """1: something of the user's cannot be used."""
    (project / "broken.yaml").write_text("bundle: [", encoding="utf-8")
    assert amplifier("run", "go", "--bundle", "./broken.yaml").returncode == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "go", "--nonsense"),
        ("run", "go", "--max-usd", "-1"),
        ("run", "go", "--max-turns", "few"),
        ("run", "go", "--output-format", "xml"),
        ("run", "go", "--mode", "chat"),
        ("run", "go", "-m", "some-model"),
        ("run", "go", "-p", "nonsense"),
        ("run", "go", "--bundle", "nowhere.yaml"),
        ("run", "go", "--bundle", "no-such-bundle"),
        ("run", "go", "--resume", "no-such-session"),
        ("logs", "no-such-session"),
        ("session", "show", "no-such-session"),
        ("bundle", "show", "no-such-bundle"),
        ("provider", "test", "no-such-provider"),
        ("agents", "show", "no-such-agent"),
        ("module", "show", "no-such-module"),
        ("mcp", "show", "no-such-server"),
        ("policy", "remove", "no-such-rule"),
        ("settings", "get", "no-such-setting"),
        ("run", ""),
        ("fly",),
        ("continue", "go"),
        ("resume",),
        (),
    ],
)
def test_two_for_the_wrong_use(amplifier: Amplifier, arguments: tuple[str, ...]) -> None:
    """2: the command was used wrongly; the reason is on standard error, nothing on standard output."""
    result = amplifier(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr


def test_four_for_a_denied_prompt(
    amplifier: Amplifier, project: Path, environment: dict[str, str], scripted: Scripted
) -> None:
    """4: a hook denied the prompt itself; its reason is told, and there is no answer on standard output."""
    package = project / "hooks-no" / "amplifier_module_hooks_no"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from amplifier_core import HookResult\n"
        "async def no(event, data):\n"
        "    return HookResult(action='deny', reason='not on Sundays')\n"
        "async def mount(coordinator, config=None):\n"
        "    return coordinator.hooks.register('prompt:submit', no, name='no')\n"
    )
    bundle = scripted("turns: [{text: unreachable}]", "  - {module: hooks-no}\n")
    place = {"PYTHONPATH": f"{project / 'hooks-no'}:{environment.get('PYTHONPATH', '')}"}
    result = amplifier("run", "go", "--bundle", bundle, **place)
    assert (result.returncode, result.stdout) == (4, "")
    assert "not on Sundays" in result.stderr
    told = json.loads(amplifier("run", "go", "-B", bundle, "--output-format", "json", **place).stdout)
    assert (told["status"], told["error_type"], told["exit_code"]) == ("denied", "prompt_denied", 4)


@pytest.mark.parametrize(
    ("flag", "value", "name"),
    [
        ("--max-turns", "1", "turns"),
        ("--max-total-tokens", "50", "tokens"),
        ("--max-usd", "0.5", "usd"),
        ("--max-tool-calls", "1", "tool_calls"),
        ("--max-seconds", "0.2", "seconds"),
    ],
)
def test_five_for_a_limit(
    amplifier: Amplifier, scripted: Scripted, echo: str, flag: str, value: str, name: str
) -> None:
    """5: a limit was reached; which one, and how to go on, is told, and the session can go on."""
    slow = "{tool_calls: [{id: c0, name: echo, arguments: {wait: 0.3}}], usage: {input_tokens: 50, cost_usd: 1}}"
    bundle = scripted(f"turns: [{slow}, {CALL}, {{text: too late}}]", echo)
    result = amplifier("run", "go", "--bundle", bundle, flag, value, "--json")
    assert result.returncode == 5, result.stderr
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["status"], last["exit_code"]) == ("budget_exhausted", 5)
    assert name in last["error"]
    assert f"amplifier run --resume {last['session_id'][:8]}`" in result.stderr
    scripted("turns: [{text: There.}]", echo)
    again = amplifier("run", "--resume", last["session_id"], "go on", "--quiet")
    assert (again.returncode, again.stdout) == (0, "There.\n"), again.stderr


def test_five_for_a_loop(amplifier: Amplifier, scripted: Scripted, echo: str) -> None:
    """5: the loop guard stopped a model that made the same call over and over; the answer says so."""
    bundle = scripted(f"turns: [{', '.join([CALL] * 20)}, {{text: Done}}]", echo)
    result = amplifier("run", "go", "--bundle", bundle, "--json")
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.returncode, last["exit_code"], last["status"]) == (5, 5, "incomplete"), result.stderr
    assert "Stopped: the same calls (echo)" in last["response"]


def test_six_for_a_required_server(amplifier: Amplifier, scripted: Scripted) -> None:
    """6: an MCP server that the session requires is missing, so the model is never asked."""
    server = "{command: no-such-program, required: true}"
    tools = f"tools:\n  - {{module: tool-mcp, config: {{servers: {{notes: {server}}}, retry: {{attempts: 1}}}}}}\n"
    result = amplifier("run", "go", "--bundle", scripted("turns: [{text: unreachable}]", tools), "--json")
    last = json.loads(result.stdout.splitlines()[-1])
    assert (result.returncode, last["error_type"]) == (6, "mcp_server_missing"), result.stderr
    assert "there is no program 'no-such-program'" in last["error"]


def test_six_for_modules(amplifier: Amplifier, project: Path, scripted: Scripted) -> None:
    """6: a module is missing, or the project that names it is not trusted; every one is named."""
    bundle = scripted("turns: [{text: Sure}]", "tools:\n  - {module: tool-absent}\n")
    result = amplifier("run", "go", "--bundle", bundle, "--json")
    assert result.returncode == 6
    last = json.loads(result.stdout.splitlines()[-1])
    assert (last["error_type"], last["exit_code"]) == ("modules_missing", 6)
    assert "tool-absent" in result.stderr
    (project / "tool-own").mkdir()
    scripted("turns: [{text: Sure}]", "tools:\n  - {module: tool-own, source: ./tool-own}\n")
    untrusted = amplifier("run", "go", "--bundle", bundle, "--output-format", "json")
    assert untrusted.returncode == 6
    assert json.loads(untrusted.stdout)["error_type"] == "untrusted"
    assert "amplifier trust" in untrusted.stderr


def test_seven_for_the_model(amplifier: Amplifier, scripted: Scripted) -> None:
    """7: the model failed."""
    bundle = scripted("turns: [{error: {type: ProviderUnavailableError, message: down}}]")
    result = amplifier("run", "go", "--bundle", bundle)
    assert result.returncode == 7
    assert "down" in result.stderr


def test_a_denied_tool_ends_nothing(amplifier: Amplifier, scripted: Scripted) -> None:
    """A tool call that cannot be carried out is the model's business: the run goes on and its exit code is 0."""
    bundle = scripted(f"turns: [{CALL}, {{text: Well then., expect: {{last_role: tool}}}}]")
    result = amplifier("run", "go", "--bundle", bundle)
    assert (result.returncode, result.stdout) == (0, "Well then.\n"), result.stderr
