"""Measure how long it takes to compose the default bundle, and to take up a session of very many turns.

    python benchmarks/compose_resume.py [--turns 2000] [--rounds 15] [--json]

Composing: settings, bundle, includes, agents and checks, in a process that has done it once. Resuming: a session that
was really run, read from disk, compared with what there is now, brought up and ready for a prompt, in a fresh process
that has imported what it needs. The lower quartile of the rounds counts: what else the machine did at the time only
ever adds. Prints a table, or with --json one object `{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a
target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compaction import quartile, row
from document import ROOT, table

sys.path[:0] = [str(module) for module in sorted((ROOT / "modules").iterdir())]

COMPOSE_MS = 30.0
RESUME_MS = 300.0

BUNDLE = """\
bundle: {name: long}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: scenario.yaml}}
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""


def compose_times(folder: Path, rounds: int) -> list[float]:
    """Return how long composing the default bundle took, in milliseconds, without the first time."""
    from amplifier_foundation.paths import Home
    from amplifier_foundation.plan.prepare import Options, compose

    async def timed() -> float:
        start = time.perf_counter()
        await compose(Options(Home(folder / "home"), folder, offline=True))
        return (time.perf_counter() - start) * 1000

    async def all_rounds() -> list[float]:
        return [await timed() for _ in range(rounds + 1)][1:]

    return asyncio.run(all_rounds())


def make_session(folder: Path, turns: int) -> Path:
    """Run a session of so many turns, and return where it lies."""
    from amplifier_foundation.paths import Home
    from amplifier_foundation.plan.prepare import Options, prepare
    from amplifier_foundation.sessions.runtime import SessionRuntime

    (folder / "bundle.yaml").write_text(BUNDLE)
    answer = {"text": "The answer is in the notes, on the second page. " * 20}
    (folder / "scenario.yaml").write_text(json.dumps({"repeat": True, "turns": [answer]}))

    async def run() -> Path:
        prepared = await prepare(Options(Home(folder / "home"), folder, bundle="bundle.yaml"))
        async with SessionRuntime(prepared) as runtime:
            for number in range(turns):
                await runtime.execute(f"Question {number}: what do the notes say about it? " * 5)
        return runtime.folder

    return asyncio.run(run())


async def resume_time(session: Path) -> tuple[float, int]:
    """Return how long it takes until a saved session is ready for a prompt, and how many messages it has."""
    from amplifier_foundation.paths import Home
    from amplifier_foundation.plan.prepare import Options, compose
    from amplifier_foundation.sessions.prepare_saved import prepare_saved
    from amplifier_foundation.sessions.resume import load_session
    from amplifier_foundation.sessions.runtime import SessionRuntime

    home = Home(session.parents[3])
    await compose(Options(home, Path.cwd()))  # imports what is needed
    start = time.perf_counter()
    saved = load_session(session)
    runtime = SessionRuntime(await prepare_saved(saved, Options(home, Path.cwd())), saved=saved)
    async with runtime:
        taken = (time.perf_counter() - start) * 1000
        return taken, len(await runtime.session.coordinator.get("context").get_messages())


def resume_times(session: Path, rounds: int, messages: int) -> list[float]:
    """Return how long resuming took in fresh processes; raise when one of them lost a message."""
    taken = []
    for _ in range(rounds):
        command = [sys.executable, __file__, "--resume", str(session)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=session)
        milliseconds, count = json.loads(done.stdout)
        if count != messages:
            raise RuntimeError(f"{count} messages were resumed, there are {messages}")
        taken.append(milliseconds)
    return taken


def measure(turns: int, rounds: int) -> list[dict[str, Any]]:
    """Return the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        composing = quartile(compose_times(folder, rounds))
        session = make_session(folder, turns)
        resuming = quartile(resume_times(session, max(rounds // 3, 3), 2 * turns))
    return [
        row("compose the default bundle", composing, COMPOSE_MS),
        row(f"resume a session of {turns:,} turns", resuming, RESUME_MS),
    ]


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resume:
        print(json.dumps(asyncio.run(resume_time(options.resume))))
        return 0
    rows = measure(options.turns, options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
    else:
        cells = [[r["what"], f"{r['ms']:.3g} ms", f"≤ {r['target_ms']:g} ms", str(r["met"])] for r in rows]
        print(table(["What", "Ours", "Target", "Met"], cells))
    return 0 if all(r["met"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
