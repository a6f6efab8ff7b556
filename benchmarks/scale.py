"""Measure what is very large: a log of a million events, the views of one session, a thousand sessions."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from children import environment
from harness import Found, Row, Setting, lower_quartile
from log_write import TURN
from session_store import make_sessions
from trees import BYTES_PER_CHILD, PLAN, add_tool
from workloads import resident_bytes

FIRST_ANSWER_S = 1.0
VIEW_MB = 300.0
#: What an event takes on disk, so that a million, or 350,000 of those that are viewed, take 1 GB.
QUERIED_BYTES = 1_000
VIEWED_BYTES = 2_800
TURNS = 10
#: Sessions that run at the same time.
TOGETHER = 50

VIEWS = (
    ("logs", "ID"),
    ("logs", "ID", "--event", "tool:post"),
    ("logs", "ID", "--tree", "--brief"),
    ("logs", "ID", "--verify"),
    ("session", "show", "ID"),
    ("session", "show", "ID", "--with-transcript"),
    ("session", "export", "ID", "--as", "md", "-o", "-"),
    ("session", "export", "ID", "--as", "json", "-o", "-"),
    ("usage",),
)


@contextmanager
def long_log(events: int, size: int) -> Iterator[tuple[Path, str]]:
    """Give a project with one session of so many events, of about `size` bytes each, and the id of the session."""
    from amplifier_foundation.paths import Home
    from amplifier_kit.log.writer import SessionLog

    with tempfile.TemporaryDirectory() as name:
        project = Path(name).resolve() / "project"
        home = Home(project.parent / "home")
        make_sessions(home, project, 1)
        [folder] = home.sessions(project).iterdir()
        (folder / "events.jsonl").unlink()
        with SessionLog(folder) as log, (folder / "transcript.jsonl").open("w", encoding="utf-8") as transcript:
            for number in range(events):
                event, data = TURN[number % len(TURN)]
                filler = "The quick brown fox jumps over the lazy dog. " * 80
                padded = {**data, "number": number, "padding": filler[: max(0, size - 250 - len(json.dumps(data)))]}
                log.write({"event": event, "lvl": "INFO", "session_id": folder.name, "data": padded})
                if number % len(TURN) == 0:
                    for role in ("user", "assistant"):
                        transcript.write(
                            json.dumps({"role": role, "content": f"Message {number}. {filler[:200]}"}) + "\n"
                        )
        yield project, folder.name


def start(project: Path, *arguments: str, output: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start the program in the project."""
    environ = {**environment(), "AMPLIFIER_HOME": str(project.parent / "home")}
    command = [sys.executable, "-m", "amplifier_app_cli", *arguments]
    return subprocess.Popen(command, cwd=project, env=environ, stdout=output, stderr=subprocess.PIPE)


def query(setting: Setting) -> list[Row]:
    """Ask a log of `size` events for those of one name: how long the first line of the answer takes."""
    taken = []
    with long_log(setting.size, QUERIED_BYTES) as (project, session):
        for _ in range(setting.rounds):
            started = time.perf_counter()
            with start(project, "logs", session, "--event", "llm:response", output=subprocess.PIPE) as process:
                assert process.stdout is not None
                line = process.stdout.readline()
                taken.append(time.perf_counter() - started)
                process.kill()
            if b"llm:response" not in line:
                raise RuntimeError(f"the first answer is {line!r}")
    return [
        Row(
            f"`amplifier logs --event` of {setting.size:,} events, first answer",
            lower_quartile(taken),
            "s",
            FIRST_ANSWER_S,
        )
    ]


def views(setting: Setting) -> Found:
    """Show one session of `size` events in every way: each must work, and stay small in memory."""
    rows, faults = [], []
    with long_log(setting.size, VIEWED_BYTES) as (project, session):
        for view in VIEWS:
            arguments = [session if argument == "ID" else argument for argument in view]
            shown = f"`amplifier {' '.join(view)}` of {setting.size:,} events"
            started = time.perf_counter()
            with start(project, *arguments) as process:
                assert process.stderr is not None
                error = process.stderr.read()
                # Its largest memory; never less than ours, from which it was forked.
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - started
            if process.returncode:
                faults.append(f"{shown}: exit status {process.returncode}: {error[-300:].decode(errors='replace')}")
            rows.append(Row(f"memory of {shown}, in {seconds:.1f} s", used.ru_maxrss / 1000, "MB", VIEW_MB))
    failed = Row(f"views of a session of {setting.size:,} events that fail", len(faults), "of " + str(len(VIEWS)), 0)
    return Found([*rows, failed], faults=faults)


def sessions(setting: Setting) -> Found:
    """Run `size` sessions of ten turns with a tool call each in this process: nothing lost, memory flat."""
    add_tool()
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_run_sessions(Path(name).resolve(), setting.size))


async def _run_sessions(folder: Path, count: int) -> Found:
    from amplifier_foundation.plan.prepared import Prepared

    script = folder / "scenario.json"
    look = {"tool_calls": [{"name": "look", "arguments": {"path": "."}}]}
    script.write_text(json.dumps({"repeat": True, "turns": [look, {"text": "Done."}]}))
    plan = {**PLAN, "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}]}
    prepared = Prepared.from_plan(plan, folder / "home", folder, name="many")
    faults: list[str] = []
    sizes: list[int] = []
    events, started = 0, time.perf_counter()
    for first in range(0, count, TOGETHER):
        numbers = range(first, min(first + TOGETHER, count))
        done = await asyncio.gather(*(_one_session(prepared) for _ in numbers), return_exceptions=True)
        for number, one in zip(numbers, done, strict=True):
            if isinstance(one, BaseException):
                faults.append(f"session {number}: {one!r}")
            else:
                events += one
        gc.collect()
        sizes.append(resident_bytes())
    grown = (sizes[-1] - sizes[len(sizes) // 2]) / max(1, count // 2)
    what = f"{count:,} sessions of {TURNS} turns in one process"
    rows = [
        Row(f"errors and events not on disk, {what}", len(faults), "faults", most=0),
        Row(f"growth by each of the second half, {what}", max(0.0, grown), "bytes", most=BYTES_PER_CHILD),
        Row(f"events on disk, {what}", events / (time.perf_counter() - started), "events/s"),
    ]
    return Found(rows, faults=faults)


async def _one_session(prepared: Any) -> int:
    """Run one session and return how many events are in its log; raise RuntimeError when one is missing."""
    from amplifier_foundation.sessions.runtime import SessionRuntime
    from amplifier_kit.log.reader import read_log

    emitted = 0

    async def count(event: str, data: dict[str, Any]) -> None:
        nonlocal emitted
        emitted += 1

    async with SessionRuntime(prepared, environ={}) as runtime:
        runtime.session.coordinator.hooks.register("tool:post", count, name="count")
        for number in range(TURNS):
            if await runtime.execute(f"Look, for the {number}th time.") != "Done.":
                raise RuntimeError(f"turn {number} was not answered")
    lines = list(read_log(runtime.folder))
    names = [line.event for line in lines]
    if [line.seq for line in lines] != list(range(1, len(lines) + 1)) or names[-1] != "session:end":
        raise RuntimeError("the log has a gap or an open end")
    logged = names.count("tool:post"), names.count("prompt:submit")
    if emitted != TURNS or logged != (TURNS, TURNS):
        raise RuntimeError(f"{emitted} tool calls were made, and of those and the prompts {logged} are on disk")
    return len(lines)
