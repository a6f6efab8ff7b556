"""`amplifier session fork`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from amplifier_foundation.paths import Home

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"


def test_a_fork_can_be_resumed_with_the_command_that_is_printed(amplifier: Amplifier) -> None:
    """A session of two turns is forked at the first; the fork is resumed and the original stays as it was."""
    assert amplifier("run", "first").returncode == 0
    session_id = json.loads(amplifier("session", "list", "--format", "json").stdout)["sessions"][0]["id"]
    assert amplifier("run", "--resume", session_id, "second").returncode == 0
    forked = amplifier("session", "fork", session_id, "--at-turn", "1", "--name", "another way")
    assert forked.returncode == 0, forked.stderr
    fork_id = forked.stdout.strip()
    assert f"amplifier run --resume {fork_id}" in forked.stderr
    resumed = amplifier("run", "--resume", fork_id, "third")
    assert resumed.returncode == 0, resumed.stderr
    by_id = {one["id"]: one for one in json.loads(amplifier("session", "list", "--format", "json").stdout)["sessions"]}
    assert (by_id[fork_id]["turn_count"], by_id[fork_id]["name"]) == (2, "another way")
    assert (by_id[fork_id]["parent_id"], by_id[fork_id]["is_fork"]) == (session_id, True)
    assert by_id[session_id]["turn_count"] == 2


def test_a_fork_at_an_event_and_without_events(amplifier: Amplifier, home: Home, project: Path) -> None:
    """A fork may be cut at an event, and may be made without the log."""
    assert amplifier("run", "first").returncode == 0
    (folder,) = home.sessions(project).iterdir()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    seq = next(event["seq"] for event in events if event["event"] == "prompt:submit")
    forked = amplifier("session", "fork", folder.name, "--at-event", str(seq), "--format", "json")
    record = json.loads(forked.stdout)
    assert (record["turns"], record["messages"], record["parent_id"]) == (1, 1, folder.name)
    assert record["events"] > 0
    assert record["resume"][-1] == record["id"]
    assert (
        json.loads(amplifier("session", "fork", folder.name, "--no-events", "--format", "json").stdout)["events"] == 0
    )


def test_what_cannot_be_forked_is_refused_and_leaves_nothing(give: Give, made: Made) -> None:
    """A turn or event that is not there, both at once, and a name that is taken leave no half-made session."""
    folder = made(ONE, "first")
    made(TWO, "x", name="taken")
    cases = {
        ("--at-turn", "7"): (2, "turn 7 does not exist: the conversation has turns 1 to 1"),
        ("--at-turn", "0"): (2, "0 is not in the range"),
        ("--at-event", "99"): (2, "99"),
        ("--at-turn", "1", "--at-event", "1"): (2, "give one of them"),
        ("--name", "taken"): (1, f"session {TWO} of the same project has the name 'taken'"),
        ("--name", "n" * 51): (1, "1 to 50 printable characters"),
    }
    for arguments, (code, reason) in cases.items():
        result = give("fork", ONE, *arguments)
        assert result.exit_code == code
        assert reason in result.stderr
        assert result.stdout == ""
    assert sorted(path.name for path in folder.parent.iterdir() if path.is_dir()) == [ONE, TWO]
