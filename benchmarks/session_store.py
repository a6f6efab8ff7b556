"""Measure how long a list of sessions takes, from the start of the interpreter to its end.

    python benchmarks/session_store.py [--sessions 10000] [--rounds 9] [--json]

One project has that many sessions, four others have a few, and every session has metadata, a transcript and a log. A
fresh interpreter lists those of the large project: once they are in the index, and once without an index, which every
round deletes. The lower quartile of the rounds counts: what else the machine did at the time only ever adds. Prints a
table, or with --json one object `{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a target is missed, 2
when a list is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from children import environment
from document import table

from amplifier_foundation.paths import Home

TARGET_MS = 300.0
OTHER_PROJECTS = 4
SESSIONS_OF_OTHERS = 50
#: The index keeps no row of a file that was changed this short a time ago, in seconds.
SETTLED = 2.5

LISTING = """\
import sys
from pathlib import Path
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import SessionStore
store = SessionStore(Home(Path(sys.argv[1])))
print(len(store.list(Path(sys.argv[2]))), *store.warnings)
"""


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
    """Return how long an interpreter takes that lists the sessions of a project, in milliseconds."""
    command = [sys.executable, "-c", LISTING, str(home.path), str(project)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    taken = (time.perf_counter() - start) * 1000
    if done.stdout.strip() != str(count):
        print(f"the list is wrong: {done.stdout.strip()!r}\n{done.stderr[-2000:]}", file=sys.stderr)
        sys.exit(2)
    return taken


def command(home: Home, project: Path, count: int) -> float:
    """Return how long the program takes to show the list, in milliseconds."""
    whole = [sys.executable, "-m", "amplifier_app_cli", "session", "list"]
    own = {**environment(), "AMPLIFIER_HOME": str(home.path)}
    start = time.perf_counter()
    done = subprocess.run(whole, capture_output=True, text=True, env=own, cwd=project, check=False)
    taken = (time.perf_counter() - start) * 1000
    if done.returncode or done.stdout.count("session ") < min(count, 10) // 3:  # one in three has a name
        print(f"the list is wrong: {done.stdout[-500:]}\n{done.stderr[-2000:]}", file=sys.stderr)
        sys.exit(2)
    return taken


def measure(count: int, rounds: int) -> list[dict[str, Any]]:
    """Return the rows: what was measured, how long it took and its target."""
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
        shown = [command(home, project, count) for _ in range(rounds)]
    return [
        row(f"list {count:,} sessions", quartile(warm), TARGET_MS),
        row(f"`amplifier session list` of {count:,} sessions", quartile(shown), TARGET_MS),
        row(f"list {count:,} sessions without an index, and make it", quartile(cold), None),
    ]


def quartile(taken: list[float]) -> float:
    """Return the lower quartile."""
    return sorted(taken)[len(taken) // 4]


def row(what: str, taken: float, target: float | None) -> dict[str, Any]:
    """Make one row."""
    return {"what": what, "ms": round(taken, 4), "target_ms": target, "met": target is None or taken <= target}


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.umask(0o077)
    rows = measure(options.sessions, options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
    else:
        cells = [[r["what"], f"{r['ms']:.3g} ms", _target(r), "yes" if r["met"] else "**no**"] for r in rows]
        print(table(["What", "Ours", "Target", "Met"], cells))
    return 0 if all(r["met"] for r in rows) else 1


def _target(measured: dict[str, Any]) -> str:
    return "" if measured["target_ms"] is None else f"≤ {measured['target_ms']:g} ms"


if __name__ == "__main__":
    sys.exit(main())
