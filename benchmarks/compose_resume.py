"""Measure how long it takes to compose the default bundle, and to resume a session of very many turns or events.

Composing: settings, bundle, includes, agents and checks, in a process that has done it once. Resuming: a session that
was really run, read from disk, compared with what there is now, brought up and ready for a prompt, in a fresh process
that has imported what it needs.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Row, Setting, lower_quartile

COMPOSE_MS = 30.0
RESUME_MS = 300.0
RESUME_LARGE_MS = 2_000.0
#: Bytes of the large log for each turn of the session: 200 MB for 2,000 turns.
BYTES_PER_TURN = 100_000

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


def lengthen_log(session: Path, size: int) -> int:
    """Append results of a tool until the log has `size` bytes, as a long session does, and return its size."""
    from amplifier_kit.log.writer import SessionLog

    ids = json.loads((session / "events.jsonl").read_text().splitlines()[-1])
    output = "".join(f"src/module_{number}.py:{number}: the name is used here\n" for number in range(60))
    log = SessionLog(session)
    for number in range(size):
        data = {
            "tool_name": "grep",
            "tool_call_id": f"c{number}",
            "result": {"success": True, "output": output[number % 60 :]},
        }
        log.write({"ts": ids["ts"], "lvl": "INFO", "event": "tool:post", "session_id": ids["session_id"], "data": data})
        if number % 1_000 == 0 and (written := _log_size(session)) >= size:
            break
    log.close()
    return written


def _log_size(session: Path) -> int:
    return sum(file.stat().st_size for file in session.glob("events*.jsonl"))


async def resume_time(session: Path) -> tuple[float, int]:
    """Return how long it takes until a saved session is ready for a prompt, and how many messages it has."""
    from amplifier_foundation.paths import Home
    from amplifier_foundation.plan.prepare import Options, compose
    from amplifier_foundation.sessions.resume import load_session, prepare_saved
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
        command = [sys.executable, __file__, str(session)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=session)
        milliseconds, count = json.loads(done.stdout)
        if count != messages:
            raise RuntimeError(f"{count} messages were resumed, there are {messages}")
        taken.append(milliseconds)
    return taken


def measure(setting: Setting) -> list[Row]:
    """Return the rows for a session of `size` turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        composing = lower_quartile(compose_times(folder, setting.rounds))
        session = make_session(folder, setting.size)
        resuming = lower_quartile(resume_times(session, max(setting.rounds // 3, 1), 2 * setting.size))
        megabytes = lengthen_log(session, BYTES_PER_TURN * setting.size) // 1_000_000
        resuming_large = lower_quartile(resume_times(session, max(setting.rounds // 3, 1), 2 * setting.size))
    return [
        Row("compose the default bundle", composing, most=COMPOSE_MS),
        Row(f"resume a session of {setting.size:,} turns", resuming, most=RESUME_MS),
        Row(f"resume it with a log of {megabytes} MB", resuming_large, most=RESUME_LARGE_MS),
    ]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(resume_time(Path(sys.argv[1])))))
