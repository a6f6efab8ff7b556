"""`--model` without a provider, and the system prompt of one run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_BUNDLE = """\
---
bundle: {name: two}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, id: first, config: {scenario: run.yaml, default_model: fast-1, priority: 1}}
  - {module: provider-mock, id: second, config: {scenario: run.yaml, default_model: big-2, priority: 2}}
hooks: [{module: hooks-logging}]
---
You are careful. The house rules are in @two:rules.md.
"""


@pytest.fixture
def bundle(project: Path) -> str:
    """Return a bundle with two providers and a file that its instruction mentions."""
    (project / "run.yaml").write_text("turns: [{text: Done.}, {text: Done.}]", encoding="utf-8")
    folder = project / "two"
    folder.mkdir()
    (folder / "run.yaml").write_text("turns: [{text: Done.}, {text: Done.}]", encoding="utf-8")
    (folder / "rules.md").write_text("No shouting.", encoding="utf-8")
    (folder / "bundle.md").write_text(_BUNDLE, encoding="utf-8")
    return str(folder / "bundle.md")


def _result(amplifier: Amplifier, *arguments: str) -> dict[str, Any]:
    result = amplifier("run", "go", "--output-format", "json", *arguments)
    record: dict[str, Any] = json.loads(result.stdout)
    return record


@pytest.mark.parametrize(
    ("model", "provider", "answered"),
    [
        ("big-2", "second", "second/big-2"),
        ("fast-1", "first", "first/fast-1"),
        ("second/huge", "second", "second/huge"),
        ("mock/other", "first", "first/other"),
    ],
)
def test_the_provider_of_a_model_is_found(
    amplifier: Amplifier, bundle: str, model: str, provider: str, answered: str
) -> None:
    """By the configuration of an entry, or by a name before the model."""
    record = _result(amplifier, "--bundle", bundle, "--model", model)
    assert (record["exit_code"], record["provider"], record["model"]) == (0, provider, answered), record
    (listed,) = json.loads(amplifier("session", "list", "--json").stdout)["sessions"]
    assert listed["model"] == answered


def test_a_model_that_no_provider_serves(amplifier: Amplifier, bundle: str) -> None:
    """It says which were asked, and whose models have such names and what is missing; no other one answers."""
    record = _result(amplifier, "--bundle", bundle, "--model", "claude-opus-9")
    assert (record["exit_code"], record["error_type"]) == (2, "model_unknown")
    assert "first does not serve it; second does not serve it" in record["error"]
    assert "ANTHROPIC_API_KEY is not set" in record["error"]


def test_the_maker_of_a_model_answers(amplifier: Amplifier, bundle: str) -> None:
    """With its key set, models with its names are asked of it, without a question to the network."""
    result = amplifier("run", "go", "--bundle", bundle, "-m", "claude-x", "--max-turns", "0", ANTHROPIC_API_KEY="k")
    assert "provider: anthropic, model claude-x (models of this name are from Anthropic)" in result.stderr


@pytest.mark.parametrize(
    ("option", "instruction", "mentioned"),
    [
        ("--append-system-prompt", "in @two:rules.md.\n\nAnswer in French.", ["@two:rules.md"]),
        ("--system-prompt", "Answer in French.", []),
    ],
)
def test_the_system_prompt_of_a_run(
    amplifier: Amplifier, bundle: str, project: Path, option: str, instruction: str, mentioned: list[str]
) -> None:
    """It is the bundle's with more behind it, which still brings the files it mentions, or another one; it is kept."""
    assert _result(amplifier, "--bundle", bundle, option, "Answer in French.")["exit_code"] == 0
    (record,) = (project.parent / "home").glob("**/record.json")
    kept = json.loads(record.read_text(encoding="utf-8"))["instruction"]
    assert kept.endswith(instruction)
    assert ("careful" in kept) is bool(mentioned)
    events = amplifier("logs", "--json", "--event", "mentions:resolved").stdout.splitlines()
    found = [one["mention"] for event in events for one in json.loads(event)["data"]["resolutions"]]
    assert found == mentioned
    result = amplifier("continue", "again")
    assert result.returncode == 0
    assert "instruction: the system instruction has changed: the recorded one is used" in result.stderr


def test_a_chosen_model_is_no_change_of_the_bundle(amplifier: Amplifier) -> None:
    """A session that is resumed keeps the model of --model, and that nothing else names one is not worth a note."""
    assert _result(amplifier, "--bundle", "minimal", "--model", "mock-model")["exit_code"] == 0
    result = amplifier("continue", "again")
    assert result.returncode == 0
    assert "note:" not in result.stderr
    assert "provider: mock, model mock-model (as recorded with the session)" in result.stderr


def test_a_limit_of_the_answer_is_known_to_the_scripted_model(amplifier: Amplifier) -> None:
    """`--max-tokens` is given to every provider as a config key; the scripted one takes it without a warning."""
    result = amplifier("run", "go", "--bundle", "minimal", "--max-tokens", "50")
    assert (result.returncode, "unknown config key" in result.stderr) == (0, False)
