"""Standard output carries the result and nothing else, whatever modules do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

TURNS = """
turns:
  - tool_calls:
      - {id: c1, name: echo, arguments: {word: one, wait: 0.05}}
      - {id: c2, name: echo, arguments: {word: two}}
  - {text: Done., usage: {input_tokens: 3, output_tokens: 4, cost_usd: 0.25}}
"""


@pytest.mark.parametrize("form", ["text", "json", "json-trace", "stream-json"])
def test_a_module_that_prints_everywhere(
    amplifier_process: Amplifier, scripted: Callable[..., str], noisy: str, form: str
) -> None:
    """Noise at import, in mount, in a tool, by descriptor, child or libc, at exit: none of it is in the result."""
    result = amplifier_process("run", "go", "--bundle", scripted(TURNS, noisy), "--output-format", form)
    assert result.returncode == 0, result.stderr
    assert "NOISE" not in result.stdout
    for when in ("import", "mount", "tool", "cleanup", "exit"):
        assert f"NOISE print {when}" in result.stderr
    for how in ("descriptor", "child", "shell", "libc"):
        assert f"NOISE {how}" in result.stderr
    if form == "text":
        assert result.stdout == "Done.\n"
    elif form == "stream-json":
        assert all(isinstance(json.loads(line), dict) for line in result.stdout.splitlines())
    else:
        assert json.loads(result.stdout)["response"] == "Done."


@pytest.mark.parametrize("command", [("tool", "list"), ("tool", "list", "--format", "json")])
def test_other_commands_that_load_modules(
    amplifier_process: Amplifier, scripted: Callable[..., str], noisy: str, command: tuple[str, ...]
) -> None:
    """A command that prints after it has loaded modules prints its own result alone, whatever these print at exit."""
    result = amplifier_process(*command, "--bundle", scripted(TURNS, noisy))
    assert result.returncode == 0, result.stderr
    assert "echo" in result.stdout
    assert "NOISE" not in result.stdout
    assert "NOISE print exit" in result.stderr


def test_a_tool_that_ends_the_program(amplifier_process: Amplifier, scripted: Callable[..., str], noisy: str) -> None:
    """A tool that calls sys.exit, as many a parser of arguments does, has failed; the turn goes on."""
    turns = "turns: [{tool_calls: [{id: c1, name: echo, arguments: {leave: true}}]}, {text: I go on.}]"
    result = amplifier_process("run", "go", "--bundle", scripted(turns, noisy))
    assert (result.returncode, result.stdout) == (0, "I go on.\n"), result.stderr
    logged = [json.loads(line) for line in amplifier_process("logs", "--json").stdout.splitlines()]
    (error,) = (line for line in logged if line["event"] == "tool:error")
    assert "SystemExit: 0" in json.dumps(error)
    assert logged[-1]["event"] == "session:end"


def test_a_hook_that_ends_the_program(amplifier_process: Amplifier, scripted: Callable[..., str], noisy: str) -> None:
    """A hook that calls sys.exit(0) does not turn a run without an answer into a success."""
    leaving = noisy.replace("tool-noisy}", "tool-noisy, config: {leaves_at: 'provider:request'}}")
    assert leaving != noisy
    result = amplifier_process("run", "go", "--bundle", scripted("turns: [{text: unreachable}]", leaving), "--json")
    assert result.returncode == 1, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert records[0]["type"] == "session"
    assert records[-1]["type"] == "result"
    assert records[-1]["status"] != "success"
    assert [record["type"] for record in records].count("result") == 1
    logged = [json.loads(line)["event"] for line in amplifier_process("logs", "--json").stdout.splitlines()]
    assert logged[-1] == "session:end"


def test_odd_values_are_valid_json(amplifier_process: Amplifier, scripted: Callable[..., str], noisy: str) -> None:
    """What JSON has no word for, and what would steer a terminal, is written so that every reader can parse it."""
    turns = "turns: [{tool_calls: [{id: c1, name: echo, arguments: {odd: true}}]}, {text: Ünï 漢}]"

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    bundle = scripted(turns, noisy)
    for form in ("json-trace", "stream-json"):
        result = amplifier_process("run", "go", "--bundle", bundle, "--output-format", form)
        assert result.returncode == 0, result.stderr
        assert "\x9b" not in result.stdout
        for line in result.stdout.splitlines() if form == "stream-json" else [result.stdout]:
            json.loads(line, parse_constant=refuse)
    plain = amplifier_process("run", "go", "--bundle", bundle, "--output-format", "json", PYTHONIOENCODING="ascii")
    assert json.loads(plain.stdout)["response"] == "Ünï 漢"
