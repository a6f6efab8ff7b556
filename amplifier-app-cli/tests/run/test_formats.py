"""The formats for programs: what is in them, whatever becomes of the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

TWO_CALLS = """
turns:
  - tool_calls:
      - {id: c1, name: echo, arguments: {word: one, wait: 0.2}}
      - {id: c2, name: echo, arguments: {word: two}}
    usage: {input_tokens: 10, output_tokens: 2, cost_usd: 0.5}
  - {text: Done., usage: {input_tokens: 3, output_tokens: 4, cost_usd: 0.25}}
"""


def _records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _is_framed(records: list[dict[str, Any]]) -> None:
    """First the session, last the result, one of each."""
    kinds = [record["type"] for record in records]
    assert (kinds[0], kinds[-1]) == ("session", "result")
    assert (kinds.count("session"), kinds.count("result")) == (1, 1)
    assert {"status", "usage", "cost_usd", "session_id", "exit_code", "duration_ms"} <= records[-1].keys()
    assert records[-1]["session_id"] == records[0]["session_id"]


def test_trace_pairs_results_by_call(amplifier: Amplifier, scripted: Scripted, echo: str) -> None:
    """Two calls of one tool at the same time keep their own results, in the order they were made."""
    result = amplifier("run", "go", "--bundle", scripted(TWO_CALLS, echo), "--output-format", "json-trace")
    told = json.loads(result.stdout)
    trace = told["execution_trace"]
    assert [(call["tool_call_id"], call["arguments"]["word"]) for call in trace] == [("c1", "one"), ("c2", "two")]
    assert ["one" in json.dumps(trace[0]["result"]), "two" in json.dumps(trace[1]["result"])] == [True, True]
    assert "two" not in json.dumps(trace[0]["result"])
    assert [call["sequence"] for call in trace] == [1, 2]
    assert all(datetime.fromisoformat(call["timestamp"]).tzinfo for call in trace)
    assert trace[0]["duration_ms"] > trace[1]["duration_ms"] >= 0
    assert told["metadata"]["total_tool_calls"] == 2
    assert told["usage"] == {"input_tokens": 13, "output_tokens": 6}
    assert told["cost_usd"] == "0.75"


def test_json_of_an_answer(amplifier: Amplifier, scripted: Scripted) -> None:
    """The object has status, answer, full id, bundle, provider, time, and the model that answered, named or not."""
    told = json.loads(amplifier("run", "go", "-B", scripted("turns: [{text: Sure}]"), "--output-format", "json").stdout)
    assert (told["status"], told["response"], told["bundle"]) == ("success", "Sure", "scripted")
    assert len(told["session_id"]) == 36
    assert (told["provider"], told["model"]) == ("provider-mock", "provider-mock/mock-model")
    assert datetime.fromisoformat(told["timestamp"]).tzinfo is not None
    assert "execution_trace" not in told


def test_stream_of_an_answer(amplifier: Amplifier, scripted: Scripted, echo: str) -> None:
    """`--json` is stream-json: the session first, then what happens, last status, usage and cost."""
    result = amplifier("run", "go", "--bundle", scripted(TWO_CALLS, echo), "--json")
    records = _records(result.stdout)
    _is_framed(records)
    assert len(records[0]["session_id"]) == 36
    assert Path(records[0]["working_dir"]).is_dir()
    assert records[-1]["model"] == "provider-mock/mock-model"
    assert (records[-1]["status"], records[-1]["response"], records[-1]["cost_usd"]) == ("success", "Done.", "0.75")
    assert "".join(record["text"] for record in records if record["type"] == "text").strip() == "Done."
    happened = [record["event"] for record in records if record["type"] == "event"]
    assert (happened.count("tool:pre"), happened.count("tool:post")) == (2, 2)
    assert all(datetime.fromisoformat(record["timestamp"]) for record in records)


@pytest.mark.parametrize(
    ("arguments", "code", "error_type"),
    [
        (("--bundle", "nowhere.yaml"), 2, None),
        (("--resume", "nothing"), 2, "session_not_found"),
        (("--model", "m"), 2, "model_unknown"),
        (("--image", "nothing.png"), 2, "image_invalid"),
        (("--provider", "nonsense"), 2, "provider_unknown"),
    ],
)
def test_failures_before_there_is_a_session(
    amplifier: Amplifier, arguments: tuple[str, ...], code: int, error_type: str | None
) -> None:
    """A run that never had a session is framed and explained all the same, without an id, and nothing is made."""
    for form in ("stream-json", "json"):
        result = amplifier("run", "go", *arguments, "--output-format", form)
        assert result.returncode == code, result.stderr
        records = _records(result.stdout) if form == "stream-json" else [json.loads(result.stdout)]
        last = records[-1]
        assert (last["status"], last["session_id"], last["exit_code"]) == ("error", None, code)
        assert last["error"]
        assert last["error_type"] == error_type or error_type is None
        if form == "stream-json":
            _is_framed(records)
    assert amplifier("logs").returncode == 2


def test_failure_of_the_model(amplifier: Amplifier, scripted: Scripted) -> None:
    """A model that fails is the last record, with its kind, under the session's id."""
    bundle = scripted("turns: [{error: {type: RateLimitError, message: slow down}}]")
    result = amplifier("run", "go", "--bundle", bundle, "--json")
    records = _records(result.stdout)
    _is_framed(records)
    assert result.returncode == 7
    assert (records[-1]["status"], records[-1]["error_type"], records[-1]["exit_code"]) == ("error", "provider", 7)
    assert len(records[-1]["session_id"]) == 36


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_the_last_record(
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    wait_for_line: Callable[..., None],
    logged: Callable[..., list[dict[str, Any]]],
    scripted: Scripted,
    number: int,
    code: int,
) -> None:
    """Stopped by a signal, the stream still ends with a result."""
    bundle = scripted("turns: [{text: late, delay_ms: 600000}]")
    process = start("run", "go", "--bundle", bundle, "--json")
    assert process.stdout is not None
    first = process.stdout.readline()
    wait_until(lambda: bool(logged("llm:request")), process)
    process.send_signal(number)
    if number == signal.SIGINT:
        wait_for_line("press Ctrl-C again", process)
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    records = _records(first + out)
    _is_framed(records)
    assert process.returncode == code, err
    assert (records[-1]["status"], records[-1]["exit_code"]) == ("cancelled", code)


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_reader_that_leaves(
    amplifier: Amplifier, start: Callable[..., subprocess.Popen[str]], scripted: Scripted, form: str
) -> None:
    """When nobody reads any more, as with `| head -1`, the work is done to its end, quietly."""
    bundle = scripted("turns: [{text: one two three four five, delay_ms: 300}]")
    process = start("run", "go", "--bundle", bundle, "--output-format", form)
    assert process.stdout is not None
    assert process.stderr is not None
    if form == "stream-json":
        assert json.loads(process.stdout.readline())["type"] == "session"
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    logged = [record["event"] for record in _records(amplifier("logs", "--json").stdout)]
    assert logged[-1] == "session:end"


@pytest.mark.parametrize("form", ["text", "json", "json-trace", "stream-json"])
def test_a_full_disk(on_full_disk: Amplifier, scripted: Scripted, form: str) -> None:
    """An answer that cannot be written is a failure that is told, once, without a traceback."""
    result = on_full_disk("run", "go", "-B", scripted("turns: [{text: Sure}]"), "--output-format", form)
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("could not be printed") == 1
    assert os.strerror(28) in result.stderr
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr
