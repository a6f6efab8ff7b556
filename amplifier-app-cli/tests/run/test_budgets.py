"""Budgets as the program keeps them: each stops the run with its exit code, and the log says why and by whom."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_testing.llm import Reply
from amplifier_testing.llm.server import ModelServer

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

USAGE = "{input_tokens: 40, output_tokens: 10, cost_usd: 1}"
CALL = f"{{tool_calls: [{{id: c1, name: echo, arguments: {{wait: 0.3}}}}], usage: {USAGE}}}"
RETRYING = """\
bundle: {name: retrying}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
  budget: {seconds: 2}
providers:
  - module: provider-chat-completions
    config: {base_url: URL, min_retry_delay: 0.05, max_retry_delay: 0.1, max_retries: 1000}
hooks:
  - {module: hooks-logging}
"""


def _log(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the lines of the log that a run says it has written."""
    [path] = [line.partition(": ")[2] for line in result.stderr.splitlines() if line.startswith("log: ")]
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("limit", "value", "asked"),
    [("turns", 1, 1), ("tokens", 50, 1), ("usd", 0.5, 1), ("tool_calls", 1, 2), ("seconds", 0.2, None)],
)
def test_each_limit_of_a_bundle_stops_the_run(
    amplifier: Amplifier, scripted: Scripted, echo: str, limit: str, value: float, asked: int | None
) -> None:
    """Exit code 5, a last record that says so, and one event in the log with the limit and who used how much."""
    bundle = scripted(f"turns: [{CALL}, {CALL}, {{text: too late}}]", echo)
    text = Path(bundle).read_text(encoding="utf-8").replace("session:\n", f"session:\n  budget: {{{limit}: {value}}}\n")
    Path(bundle).write_text(text, encoding="utf-8")
    result = amplifier("run", "go", "--bundle", bundle, "--output-format", "json", "-v")
    assert result.returncode == 5, result.stderr
    last = json.loads(result.stdout)
    assert (last["status"], last["error_type"], last["exit_code"]) == ("budget_exhausted", "budget_exhausted", 5)
    log = _log(result)
    [told] = [line["data"] for line in log if line["event"] == "budget:exhausted"]
    assert (told["limit"], told["amount"], told["limit_of"]) == (limit, str(value), last["session_id"])
    assert told["reason"] in last["error"]
    assert log[-1]["event"] == "session:end"
    made = sum(line["event"] == "llm:request" for line in log)
    if asked is None:  # the time may be up before the first question
        assert made <= 1
        return
    assert made == asked
    [row] = last["spent"]
    assert [row] == told["spent"]
    used = {"source": "loop", "calls": asked, "tokens": 50 * asked, "usd": str(asked), "unpriced": 0}
    assert {key: row[key] for key in used} == used


def test_a_run_within_its_limits_is_not_stopped(amplifier: Amplifier, scripted: Scripted, echo: str) -> None:
    """Limits that are just enough let the run come to its end: its last answer comes after its last call."""
    bundle = scripted(f"turns: [{CALL}, {{text: There., usage: {{input_tokens: 1}}}}]", echo)
    result = amplifier(
        "run", "go", "--bundle", bundle, "--max-turns", "2", "--max-tool-calls", "1", "--max-usd", "1.5", "-v"
    )
    assert (result.returncode, result.stdout) == (0, "There.\n"), result.stderr
    near = {line["data"]["limit"] for line in _log(result) if line["event"] == "budget:warning"}
    assert near == {"turns", "tool_calls"}


def test_a_limit_ends_a_call_that_is_tried_again_and_again(
    amplifier: Amplifier, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that is down is not asked any more when the time is up: that is the budget's end, not the model's."""
    with ModelServer() as service:
        # The time that a slow machine needs to come so far does not count.
        started = time.monotonic()
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() if service.requests else started)
        monkeypatch.setattr("amplifier_foundation.usage.budget.time", clock)
        service.answers(Reply.error(503, {"error": {"message": "down"}}))
        bundle = project / "bundle.yaml"
        bundle.write_text(RETRYING.replace("URL", f"{service.url}/v1"), encoding="utf-8")
        result = amplifier("run", "go", "--bundle", str(bundle), "--output-format", "json", "-v")
        assert service.requests
    assert result.returncode == 5, result.stderr
    last = json.loads(result.stdout)
    assert (last["status"], last["error_type"]) == ("budget_exhausted", "budget_exhausted")
    assert "the budget of 2 seconds is used up" in last["error"]
    assert [line["data"]["limit"] for line in _log(result) if line["event"] == "budget:exhausted"] == ["seconds"]
