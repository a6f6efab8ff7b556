"""`amplifier session repair`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from amplifier_kit.log.writer import SessionLog

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"


def _break(folder: Path) -> bytes:
    """Add a turn whose call has no result, and a torn line; return all of it."""
    transcript = folder / "transcript.jsonl"
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "lost", "tool": "bash", "arguments": {}}]}
    with open(transcript, "a", encoding="utf-8") as file:
        file.write(json.dumps({"role": "user", "content": "do it"}) + "\n" + json.dumps(call) + "\n" + '{"role": "to')
    return transcript.read_bytes()


def test_repair_says_what_it_found_and_did(amplifier: Amplifier, made: Made) -> None:
    """A lost result and a torn line are found, repaired and reported, and the file before is kept."""
    folder = made(ONE, "first")
    before = _break(folder)
    result = amplifier("session", "repair", ONE[:4])
    assert result.returncode == 0, result.stderr
    assert "found: " in result.stdout
    assert "is torn" in result.stdout
    assert "calls without a result, or results without a call: lost" in result.stdout
    assert "done: a tool call without a result got one that says so: lost (bash)" in result.stdout
    assert "transcript.jsonl.backup" in result.stderr
    assert (folder / "transcript.jsonl.backup").read_bytes() == before
    again = amplifier("session", "repair", ONE)
    assert (again.returncode, again.stdout) == (0, "")
    assert "is sound" in again.stderr


def test_rewind_goes_back_to_the_last_sound_turn(give: Give, made: Made) -> None:
    """What came after the last good turn is removed."""
    folder = made(ONE, "first", "second")
    _break(folder)
    document = json.loads(give("repair", ONE, "--rewind", "--format", "json").stdout)
    assert document["found"]["status"] == "broken"
    assert document["found"]["orphaned_tool_ids"] == ["lost"]
    assert document["done"]["turns"] == 2
    assert len((folder / "transcript.jsonl").read_text(encoding="utf-8").splitlines()) == 4


def test_a_sound_session_is_left_alone(give: Give, made: Made) -> None:
    """Where nothing is wrong nothing is written, neither by repair nor by rewind."""
    folder = made(ONE, "first")
    before = (folder / "transcript.jsonl").stat()
    for arguments in ((), ("--rewind",)):
        result = give("repair", ONE, *arguments)
        assert (result.exit_code, result.stdout) == (0, "")
    assert (folder / "transcript.jsonl").stat().st_mtime_ns == before.st_mtime_ns
    assert not (folder / "transcript.jsonl.backup").exists()


def test_a_session_that_runs_is_not_mended(give: Give, made: Made) -> None:
    """The transcript of a running session belongs to the process that runs it."""
    folder = made(ONE, "first")
    before = _break(folder)
    log = SessionLog(folder)
    try:
        result = give("repair", ONE, "--format", "json")
    finally:
        log.close()
    assert result.exit_code == 1
    assert json.loads(result.stdout)["code"] == "session_running"
    assert (folder / "transcript.jsonl").read_bytes() == before


def test_damaged_metadata_are_told_and_left_alone(give: Give, made: Made) -> None:
    """The conversation of a session with damaged metadata can be repaired, and what becomes of the metadata is said."""
    folder = made(ONE, "first")
    (folder / "metadata.json").write_text("{", encoding="utf-8")
    result = give("repair", ONE)
    assert result.exit_code == 0
    assert "metadata.json:1 is damaged" in result.stdout
    assert "resuming the session writes a new one" in result.stderr
