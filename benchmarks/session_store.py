"""Measure how long a list of sessions takes, from the start of the interpreter to its end.

One project has `size` sessions, four others have a few, and every session has metadata, a transcript and a log. The
program lists those of the large project: once they are in the index, and once without an index, which it makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from children import environment
from harness import Row, Setting, lower_quartile

from amplifier_foundation.paths import Home

TARGET_MS = 300.0
OTHER_PROJECTS = 4
SESSIONS_OF_OTHERS = 50
#: The index keeps no row of a file that was changed this short a time ago, in seconds.
SETTLED = 2.5


def make_sessions(home: Home, project: Path, count: int) -> None:
    """Write sessions as a run leaves them."""
    project.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        folder = home.sessions(project) / str(uuid.UUID(int=number + 1, version=4))
        folder.mkdir(parents=True)
        facts = {
            "session_id": folder.name,
            "created": "2026-01-01T10:00:00.000+00:00",
            "bundle": "bundle:default",
            "model": "a-model",
            "turn_count": number % 30,
            "working_dir": str(project),
            "name": f"session {number}" if number % 3 == 0 else None,
            "description": "what it is about " * 5,
        }
        prompt = {"role": "user", "content": f"please do the thing with the number {number} " * 3}
        (folder / "metadata.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")
        (folder / "transcript.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
        (folder / "events.jsonl").write_text('{"event":"session:start"}\n', encoding="utf-8")


def listing(home: Home, project: Path, count: int) -> float:
    """Return how long the program takes to show the list, in milliseconds; raise RuntimeError when it is wrong."""
    command = [sys.executable, "-m", "amplifier_app_cli", "session", "list"]
    environ = {**environment(), "AMPLIFIER_HOME": str(home.path)}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=project, check=False)
    taken = (time.perf_counter() - start) * 1000
    if done.returncode or done.stdout.count("session ") < min(count, 10) // 3:  # one in three has a name
        raise RuntimeError(f"the list is wrong: {done.stdout[-500:]}\n{done.stderr[-2000:]}")
    return taken


def measure(setting: Setting) -> list[Row]:
    """Return the rows; raise RuntimeError when a list is wrong."""
    count, rounds = setting.size, setting.rounds
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        home, project = Home(root / "home"), root / "large"
        make_sessions(home, project, count)
        for number in range(OTHER_PROJECTS):
            make_sessions(home, root / f"other{number}", SESSIONS_OF_OTHERS)
        time.sleep(SETTLED)
        cold = []
        for _ in range(max(rounds // 3, 1)):
            for name in (home.index.name, f"{home.index.name}-wal", f"{home.index.name}-shm"):
                (home.path / name).unlink(missing_ok=True)
            cold.append(listing(home, project, count))
        warm = [listing(home, project, count) for _ in range(rounds)]
    return [
        Row(f"`amplifier session list` of {count:,} sessions", lower_quartile(warm), most=TARGET_MS),
        Row("the same without an index, which it makes", lower_quartile(cold)),
    ]
