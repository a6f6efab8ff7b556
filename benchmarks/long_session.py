"""Run one session of very many turns and watch what grows: the log, the transcript, the memory.

Every turn is a prompt, a round of two tool calls and an answer, all through the modules of a usual bundle, and every
request is logged whole (`raw: true`): the log must not repeat what earlier requests said. The log and the transcript
must grow by the same number of bytes per turn in the second half as in the first; memory must not grow more than the
conversation itself.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from document import circumstances, table
from harness import Found, Row, Setting
from plain_tools import add_module
from workloads import resident_bytes

#: How much more the second half may take than the first.
GROWTH = 1.2
#: What a turn of the conversation may keep in memory: its messages, and what is known about them.
BYTES_PER_TURN = 20_000

PLAN: dict[str, Any] = {
    "session": {
        "orchestrator": {"module": "loop-basic"},
        "context": {"module": "context-simple", "config": {"max_tokens": 60_000}},
    },
    "tools": [{"module": "tool-notes"}],
    "hooks": [{"module": "hooks-redaction"}, {"module": "hooks-logging"}],
}


@dataclass(frozen=True)
class Mark:
    """What there was after so many turns."""

    turn: int
    log: int
    blobs: int
    transcript: int
    memory: int
    seconds: float

    @property
    def stored(self) -> int:
        """The bytes of the log, its blobs included."""
        return self.log + self.blobs


async def run_turns(folder: Path, turns: int, marks: int) -> list[Mark]:
    """Run the turns of one session and return `marks` looks at it, evenly spread, the first one after warm-up."""
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    numbers = itertools.count(1)

    async def notes(given: dict[str, Any]) -> str:
        return f"note {next(numbers)} " * 40

    add_module("tool-notes", lambda _: {"notes": notes})
    calls = [{"id": f"c{index}", "name": "notes", "arguments": {"number": index, "path": "."}} for index in range(2)]
    said = [{"text": "Let me look.", "tool_calls": calls}, {"text": "The answer is in the notes. " * 10}]
    script = folder / "scenario.json"
    script.write_text(json.dumps({"repeat": True, "turns": said}))
    mock = {"module": "provider-mock", "config": {"scenario": str(script), "raw": True}}
    prepared = Prepared.from_plan({**PLAN, "providers": [mock]}, folder / "home", folder, name="long")
    async with SessionRuntime(prepared, environ={}) as runtime:
        return await _looks(runtime, turns, turns // marks)


async def _looks(runtime: Any, turns: int, every: int) -> list[Mark]:
    taken: list[Mark] = []
    started = time.monotonic()
    folder: Path = runtime.folder
    for number in range(1, turns + 1):
        await runtime.execute(f"Question {number}: what do the notes say? ")
        if number % every == 0:
            taken.append(look(folder, number, time.monotonic() - started))
    return taken


def look(folder: Path, turn: int, seconds: float) -> Mark:
    """Measure the session's files and the process's memory."""
    gc.collect()
    logs = sum(file.stat().st_size for file in folder.glob("events*.jsonl"))
    blobs = sum(file.stat().st_size for file in folder.glob("blobs/**/*") if file.is_file())
    transcript = (folder / "transcript.jsonl").stat().st_size
    return Mark(turn, logs, blobs, transcript, resident_bytes(), seconds)


def judge(marks: list[Mark]) -> list[str]:
    """Return what grew as it should not; nothing when all is well. The marks are the quarters of the session."""
    first, middle, last = marks[0], marks[len(marks) // 2 - 1], marks[-1]
    wrong = []
    # Blobs count with the log: a session has few, and has them in bursts, when its history is compacted.
    for name in ("stored", "transcript"):
        early = per_turn(first, middle, name)
        late = per_turn(middle, last, name)
        if late > early * GROWTH + 1:
            wrong.append(f"{name}: {early:.0f} bytes a turn in the first half, {late:.0f} in the second")
    kept = per_turn(middle, last, "memory")  # by the middle, requests are as large as they get
    if kept > BYTES_PER_TURN:
        wrong.append(f"memory: {kept:.0f} bytes a turn, at most {BYTES_PER_TURN} are the conversation's")
    return wrong


def per_turn(before: Mark, after: Mark, name: str) -> float:
    """Return by how much something grew per turn between two looks."""
    grown: int = getattr(after, name) - getattr(before, name)
    return grown / (after.turn - before.turn)


def describe(marks: list[Mark]) -> str:
    """Return the table of the looks."""
    rows = [
        [
            f"{mark.turn:,}",
            f"{mark.log / mark.turn:,.0f} B",
            f"{mark.blobs / mark.turn:,.0f} B",
            f"{mark.transcript / mark.turn:,.0f} B",
            f"{mark.memory / 1e6:.2f} MB",
        ]
        for mark in marks
    ]
    return table(["Turns", "Log per turn", "Blobs per turn", "Transcript per turn", "Resident memory"], rows)


def measure(setting: Setting) -> Found:
    """Run a session of `size` turns, looked at eight times, in an empty folder."""
    with tempfile.TemporaryDirectory() as name:
        marks = asyncio.run(run_turns(Path(name).resolve(), setting.size, 8))
    wrong = judge(marks)
    middle, last = marks[len(marks) // 2 - 1], marks[-1]
    rows = [
        Row(f"memory a turn adds, second half of {setting.size:,} turns", per_turn(middle, last, "memory"), "bytes"),
        Row(f"what grows too fast in a session of {setting.size:,} turns", len(wrong), "faults", most=0),
    ]
    body = (
        f"## A session of {setting.size:,} turns in one process\n\n{circumstances()}\n\n{describe(marks)}\n\n"
        "Each turn is a prompt, two tool calls and an answer, and every request is logged whole; one may take "
        "60,000 tokens, beyond which the history is compacted. The conversation itself stays in memory until the "
        f"session ends: at most {BYTES_PER_TURN:,} bytes a turn are its share in the second half. Log (with "
        f"blobs) and transcript may not grow over {GROWTH:g} times as fast in the second half as in the first: "
        f"{'they do not' if not wrong else '**violated**'}.\n"
        "`python benchmarks/run.py long-session --write` measures again."
    )
    return Found(rows, "long-session", body, wrong)
