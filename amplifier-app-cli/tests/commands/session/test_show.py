"""`amplifier session show`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from amplifier_foundation.sessions.checkpoints import Checkpoints
from amplifier_kit.log.writer import SessionLog

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
FORK = "22222222-0000-4000-8000-000000000002"
CHILD = "0000000000000000-1111111111111111_explorer"


def test_a_session_that_ran_tells_all_of_itself(amplifier: Amplifier, project: Path) -> None:
    """After a real run: id, usage, cost, and the modules it is made of; the conversation when asked for."""
    assert amplifier("run", "hello there").returncode == 0
    session_id = json.loads(amplifier("session", "list", "--format", "json").stdout)["sessions"][0]["id"]
    result = amplifier("session", "show", session_id[:8], "-T")
    assert result.returncode == 0, result.stderr
    facts = dict(line.split(":", 1) for line in result.stdout.split("\n\n")[0].splitlines())
    assert facts["Session"].strip() == session_id
    assert facts["Project"].strip() == str(project)
    assert "tokens in" in facts["Used"]
    assert "$" in facts["Cost"]
    assert facts["Made of"].strip().startswith("default ")
    assert "provider-mock" in facts["  Providers"]
    assert "--- user (turn 1)" in result.stdout
    assert "hello there" in result.stdout.split("--- user")[1]
    record = json.loads(amplifier("session", "show", session_id, "--format", "json").stdout)
    assert record["made_of"]["plan"]["providers"]
    assert record["metadata"]["session_id"] == session_id
    assert (record["state"], record["problems"]) == ("idle", [])


def test_relations_are_shown(give: Give, made: Made) -> None:
    """Children with their agents, forks with their names, and where a fork comes from."""
    made(ONE, "root")
    made(CHILD, "look", parent_id=ONE, agent_name="explorer")
    made(FORK, "root", parent_id=ONE, forked_from_turn=1, forked_at="2026-01-02T00:00:00+00:00", name="copy")
    shown = give("show", ONE).stdout
    assert f"{CHILD} (explorer)" in shown
    assert f"{FORK} (copy)" in shown
    assert f"Fork of:      {ONE}, turn 1" in give("show", "copy").stdout
    assert f"Started by:   {ONE}" in give("show", CHILD).stdout
    record = json.loads(give("show", ONE, "--format", "json").stdout)
    assert (record["children"], record["forks"], record["lineage"]) == ([CHILD], [FORK], [])
    assert json.loads(give("show", CHILD, "--format", "json").stdout)["lineage"] == [ONE]


def test_messages_are_in_the_record_when_asked_for(give: Give, made: Made) -> None:
    """`--with-transcript` adds all messages to the record; without it there are none."""
    made(ONE, "first", "second")
    assert "messages" not in json.loads(give("show", ONE, "--format", "json").stdout)
    record = json.loads(give("show", ONE, "-T", "--format", "json").stdout)
    assert [message["role"] for message in record["messages"]] == ["user", "assistant"] * 2


def test_tools_and_thinking_are_shown_and_long_results_cut(give: Give, made: Made) -> None:
    """Calls and results stand in the conversation; a long result is cut, which is said; nothing steers the terminal."""
    folder = made(ONE)
    messages = [
        {"role": "user", "content": "read it"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "I read."}, {"type": "tool_use", "id": "1", "name": "x", "input": {}}],
            "thinking_text": "hm",
            "tool_calls": [{"id": "1", "tool": "read_file", "arguments": {"path": "a.txt"}}],
        },
        {"role": "tool", "tool_call_id": "1", "name": "read_file", "content": "line\x1b[2J\n" * 50},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "look", "input": {"at": "sky"}}]},
        {"role": "assistant", "content": {"odd": 1}},
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    (folder / "transcript.jsonl").write_text(text, encoding="utf-8")
    result = give("show", ONE, "-T")
    assert 'calls read_file: {"path": "a.txt"}' in result.stdout
    assert "(thinking) hm" in result.stdout
    assert 'calls look: {"at": "sky"}' in result.stdout
    assert "--- read_file answers" in result.stdout
    assert result.stdout.count("line") == 12
    assert "\x1b" not in result.stdout
    assert f"amplifier session export {ONE}" in result.stderr


def test_the_state_is_told(give: Give, made: Made) -> None:
    """A session that runs, and one whose last turn was cut off, say so."""
    folder = made(ONE, "x", incremental=True)
    assert "State:        cut off" in give("show", ONE).stdout
    log = SessionLog(folder)
    try:
        assert json.loads(give("show", ONE, "--format", "json").stdout)["state"] == "running"
    finally:
        log.close()


def test_what_is_damaged_is_told(give: Give, made: Made) -> None:
    """Garbage in metadata and record is a warning, and everything else is shown."""
    folder = made(ONE, "x")
    (folder / "metadata.json").write_text("[]", encoding="utf-8")
    (folder / "record.json").write_text("{", encoding="utf-8")
    result = give("show", ONE, "--with-transcript")
    assert result.exit_code == 0
    assert "An answer to x" in result.stdout
    assert "metadata.json is damaged" in result.stderr
    assert "record.json: the recorded plan cannot be read" in result.stderr
    (folder / "record.json").write_text('{"plan": {"session": 1, "tools": [3, {"module": "t"}], "agents": []}}')
    assert give("show", ONE).exit_code == 0


def test_costs_that_are_not_whole_say_so(give: Give, made: Made) -> None:
    """Answers without a price are counted beside the cost, and the start of counting is reported."""
    made(ONE, "x", usage={"cost_usd": "0.5", "calls_without_price": 2, "output_tokens": 1200})
    shown = give("show", ONE).stdout
    assert "$0.5000 (2 answers without a price)" in shown
    assert "1,200 tokens out" in shown
    made(FORK, "x", usage={"calls_without_price": 1, "since": "2026-01-02"})
    assert "not known (1 answer without a price) (since 2026-01-02)" in give("show", FORK).stdout


def test_written_files_are_counted(give: Give, made: Made, project: Path) -> None:
    """A session that has written files says how to take it back."""
    checkpoints = Checkpoints(made(ONE, "x"))
    checkpoints.before_write(project / "f", tool="write_file")
    assert f"1 time; undo with: amplifier session restore {ONE}" in give("show", ONE).stdout
    assert json.loads(give("show", ONE, "--format", "json").stdout)["checkpoints"] == 1


def test_an_unknown_and_an_ambiguous_session_are_refused(give: Give, made: Made) -> None:
    """One line says that it is missing, and a list which exist; both end with 1."""
    made(ONE, "x")
    made("11111111-9999-4000-8000-000000000001", "x")
    missing = give("show", "nothing")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "amplifier session list --all-projects" in missing.stderr
    several = give("show", "1111")
    assert several.exit_code == 2
    assert ONE in several.stderr
