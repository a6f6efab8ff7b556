"""What all measurements have in common: their entry in the table, settings, rows, and how these are judged."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

HEADER = ["What", "Ours", "Floor", "Ours / floor", "Peer", "Peer / ours", "Target", "Met"]


@dataclass(frozen=True)
class Row:
    """One number, what it is compared with, and its limits. Floor and peer are in the same unit, of the same rounds."""

    what: str
    value: float
    unit: str = "ms"
    most: float | None = None
    least: float | None = None
    #: what no program that does this can go below
    floor: float | None = None
    most_of_floor: float | None = None
    #: what the published kernel needs
    peer: float | None = None
    #: how many times faster, or smaller, than the peer's ours has to be
    least_of_peer: float | None = None

    @property
    def of_floor(self) -> float:
        """How many times the floor ours takes."""
        assert self.floor is not None
        return self.value / self.floor if self.floor else inf

    @property
    def of_peer(self) -> float:
        """How many times faster, or smaller, ours is; infinite when ours is too small to be measured."""
        assert self.peer is not None
        return self.peer / self.value if self.value > 0 else inf

    @property
    def met(self) -> bool:
        """Whether every limit holds."""
        return (
            (self.most is None or self.value <= self.most)
            and (self.least is None or self.value >= self.least)
            and (self.most_of_floor is None or self.of_floor <= self.most_of_floor)
            and (self.least_of_peer is None or self.of_peer >= self.least_of_peer)
        )

    @property
    def target(self) -> str:
        """The limits in words; empty for a number that is only reported."""
        said = []
        if self.least_of_peer is not None:
            said.append(f"≥ {self.least_of_peer:g}× faster" if self.least_of_peer > 1 else "no more than the peer")
        if self.most_of_floor is not None:
            said.append(f"≤ {self.most_of_floor:g}× floor")
        if self.most is not None:
            said.append(f"≤ {show(self.most, self.unit)}")
        if self.least is not None:
            said.append(f"≥ {show(self.least, self.unit)}")
        return ", ".join(said)

    def cells(self) -> list[str]:
        """Return the line of the table."""
        floor, peer = self.floor is not None, self.peer is not None
        verdict = ("yes" if self.met else "**no**") if self.target else ""
        return [
            self.what,
            show(self.value, self.unit),
            show(self.floor, self.unit) if self.floor is not None else "",
            f"{self.of_floor:.2f}×" if floor else "",
            show(self.peer, self.unit) if self.peer is not None else "",
            f"{self.of_peer:.1f}×" if peer else "",
            self.target,
            verdict,
        ]


def show(value: float, unit: str) -> str:
    """Return a number with three digits, or all of those before the point, and its unit."""
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {unit}"


@dataclass(frozen=True)
class Setting:
    """How a measurement is run this time."""

    rounds: int
    #: how much there is of what the measurement is about: sessions, files, kills, events
    size: int
    seed: int = 1
    #: an interpreter that has the published kernel; only measurements beside the peer need it
    peer: Path | None = None


@dataclass(frozen=True)
class Found:
    """What a measurement gave: rows, and the section of a page of docs/ when it writes one, with its name."""

    rows: list[Row]
    section: str = ""
    body: str = ""
    #: what went wrong, in words; the rows say how often
    faults: list[str] = field(default_factory=list)
    page: str = "reliability.md"

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Found:
        """Read what another process printed as the dict of one."""
        return cls(**{**given, "rows": [Row(**row) for row in given["rows"]]})


@dataclass(frozen=True)
class Measurement:
    """One entry of the table."""

    #: by which it is run alone
    name: str
    what: str
    #: `file.function`, which takes a Setting (and `given`) and returns rows, or a Found
    subject: str
    #: the section of docs/benchmarks.md
    group: str
    rounds: int = 1
    size: int = 0
    #: the size for a trial
    small: int = 0
    #: processes that measure; the row of the median counts, so that one hiccup of the machine does not
    processes: int = 1
    #: further arguments of the subject: workload, floor, targets
    given: Mapping[str, Any] = field(default_factory=dict)

    def run(self, setting: Setting) -> Found:
        """Measure in this process."""
        file, _, function = self.subject.partition(".")
        found = getattr(importlib.import_module(file), function)(setting, **self.given)
        return found if isinstance(found, Found) else Found(found)


def lower_quartile(values: list[float]) -> float:
    """Return the value that a quarter of the values stays below: other work on the machine only ever adds."""
    return sorted(values)[len(values) // 4]


def microseconds(work: Callable[[], Any], things: int = 1, repeat: int = 1) -> float:
    """Return how long the work takes for each of the things it does, over a round of `repeat` times."""
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) * 1e6 / things / repeat


def middle(runs: list[Found]) -> Found:
    """Return, row by row, the run whose value is the median."""
    rows = [
        sorted(rows, key=lambda row: row.value)[len(rows) // 2] for rows in zip(*(f.rows for f in runs), strict=True)
    ]
    return replace(runs[-1], rows=rows, faults=[fault for found in runs for fault in found.faults])
