"""Kill a process with SIGKILL at moments that chance picks, again and again, and look at what each kill leaves.

A subject says what is killed and how it is inspected: `kill_log`, `kill_run`, `kill_resume`, `kill_tree`.
"""

from __future__ import annotations

import importlib
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from document import circumstances, table
from harness import Found, Row, Setting


@dataclass
class Tally:
    """What was counted, `kills` among it, and every fault in words."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Subject(Protocol):
    """What is killed: made with an empty folder, in which it may do as it likes."""

    title: ClassVar[str]
    #: what is done, and what a fault would be
    words: ClassVar[str]
    #: the counts that are shown, besides kills and faults, with their headings
    shown: ClassVar[dict[str, str]]
    #: how many are played at the same time
    at_once: ClassVar[int]

    def kill(self, chance: random.Random, tally: Tally) -> None:
        """Start it, kill it, count the kill, and note every fault."""

    def finish(self, tally: Tally) -> None:
        """Look once more when all kills are done; by default everything was looked at."""


def play(make: Callable[[Path], Subject], kills: int, seed: int) -> Tally:
    """Kill one subject until there were `kills` kills."""
    tally, chance = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        subject = make(Path(name).resolve())
        while tally.counts["kills"] < kills:
            subject.kill(chance, tally)
        subject.finish(tally)
    return tally


def measure(setting: Setting, subject: str) -> Found:
    """Kill a subject, given as `file.Class`, `size` times; the row says how many faults there were."""
    file, _, name = subject.partition(".")
    made = getattr(importlib.import_module(file), name)
    parts = min(made.at_once, setting.size)
    kills = [setting.size // parts + (number < setting.size % parts) for number in range(parts)]
    seeds = range(setting.seed, setting.seed + parts)
    total = Tally()
    with ThreadPoolExecutor(parts) as pool:
        for tally in pool.map(play, [made] * parts, kills, seeds):
            total.counts += tally.counts
            total.faults += tally.faults
    row = Row(f"faults after {total.counts['kills']:,} kills: {made.title}", len(total.faults), "faults", most=0)
    return Found([row], file.replace("_", "-"), describe(made, total, setting.seed), total.faults)


def describe(subject: type[Subject], tally: Tally, seed: int) -> str:
    """Return the section of the document."""
    header = ["Kills", *subject.shown.values(), "Faults"]
    counted = [tally.counts["kills"], *(tally.counts[name] for name in subject.shown), len(tally.faults)]
    title = subject.title[0].upper() + subject.title[1:]
    cells = table(header, [[f"{number:,}" for number in counted]])
    return "\n\n".join([f"## {title}", circumstances(), cells, f"{subject.words}\nSeed {seed}."])
