"""`amplifier logs --verify` and `session cleanup --keep-rotated`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from amplifier_kit.log.writer import SessionLog

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"


def test_a_changed_line_is_found(amplifier: Amplifier, made: Made) -> None:
    """A log with hashes is checked; after a line was changed the command names it and fails."""
    folder = made(ONE, "x")
    with SessionLog(folder, name="events.jsonl", verify=True) as log:
        for number in range(3):
            log.write({"event": "tool:post", "session_id": ONE, "data": {"n": number}})
    sound = amplifier("logs", "--verify", ONE, "--format", "json")
    report = json.loads(sound.stdout)
    assert (sound.returncode, report["ok"], report["problems"]) == (0, True, [])
    assert report["hashed"] >= 3

    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))
    changed = amplifier("logs", "--verify", ONE)
    assert changed.returncode == 1
    assert "is not the hash of the line before it" in changed.stdout


def test_rotated_files_are_deleted_on_request(amplifier: Amplifier, made: Made) -> None:
    """`--keep-rotated` deletes the oldest parts of a log whose session stays."""
    folder = made(ONE, "x")
    with SessionLog(folder, max_bytes=1000) as log:
        for number in range(20):
            log.write({"event": "tool:post", "session_id": ONE, "data": {"n": number, "output": "x" * 200}})
    rotated = list(folder.glob("events.*.jsonl"))
    done = amplifier("session", "cleanup", "--keep-rotated", "1", "--force", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["removed"], len(report["pruned"])) == ([], len(rotated) - 1)
    assert len(list(folder.glob("events.*.jsonl"))) == 1
