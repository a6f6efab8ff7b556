"""Part one of the benchmark: the timed workloads, ours and the published kernel in turn."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from math import inf
from statistics import median

from children import Kernel, deliver
from document import table


@dataclass(frozen=True)
class Row:
    """One line of the table: which child to run, what it reports, and what is asked of the result."""

    what: str
    script: str
    arguments: tuple[str, ...]
    #: how many times faster (or smaller) than the published kernel ours has to be
    ratio: float
    #: how many times the floor ours may take, for the rows that have one
    floor: float | None = None
    #: every how many rounds this row is measured
    every: int = 1
    unit: str = "us"


ROWS = (
    Row("emit, 1 handler", "workloads.py", ("emit_1",), 40, floor=1.6),
    Row("emit, 20 handlers", "workloads.py", ("emit_20",), 30, floor=1.6),
    Row("emit, 3 handlers, 50 kB payload", "workloads.py", ("emit_large",), 5),
    Row("emit, 3 handlers, 50 kB in 400 messages", "workloads.py", ("emit_messages",), 8),
    Row("no-op turn", "workloads.py", ("turn",), 40),
    Row("session init + cleanup, 10 tools, warm", "workloads.py", ("session",), 10),
    Row("`register_capability` + `get_capability`", "workloads.py", ("capability",), 1),
    Row("`collect_contributions` of ten", "workloads.py", ("contributions",), 1),
    Row("`import amplifier_core`", "startup.py", ("import",), 5),
    Row("ready to create a session", "startup.py", ("ready",), 1),
    Row("memory of a live session, 10 tools", "workloads.py", ("memory",), 1, every=3, unit="bytes"),
)
HEADER = ["What", "Ours", "Peer", "Ratio", "Floor", "Ours / floor", "Target", "Met"]


@dataclass
class Measured:
    """What the rounds gave for one row."""

    row: Row
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    of_floor: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times faster, or smaller, ours is; without end when ours cannot be measured at all."""
        ours = median(self.ours)
        return median(self.peer) / ours if ours else inf

    @property
    def met(self) -> bool:
        """Whether the row's targets hold."""
        enough = self.ratio >= self.row.ratio
        return enough and (self.row.floor is None or median(self.of_floor) <= self.row.floor)

    def cells(self) -> list[str]:
        """Return the row of the table."""
        show = show_size if self.row.unit == "bytes" else show_time
        has_floor = self.row.floor is not None
        return [
            self.row.what,
            show(median(self.ours)),
            show(median(self.peer)),
            f"{self.ratio:.1f}×",
            show(median(self.floors)) if has_floor else "",
            f"{median(self.of_floor):.2f}×" if has_floor else "",
            target(self.row),
            "yes" if self.met else "**no**",
        ]


def show_time(microseconds: float) -> str:
    """Return a time with three digits."""
    if microseconds >= 1000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds:.3g} µs"


def show_size(size: float) -> str:
    """Return a size in kilobytes."""
    return f"{size / 1000:.1f} kB"


def target(row: Row) -> str:
    """Say what is asked of a row."""
    if row.unit == "bytes":
        return "no more"
    faster = f"≥ {row.ratio:g}× faster" if row.ratio > 1 else "no slower"
    return faster if row.floor is None else f"{faster}, ≤ {row.floor:g}× floor"


def one_child(kernel: Kernel, row: Row, extra: tuple[str, ...]) -> dict[str, float]:
    """Run a row's workload once, in a fresh process with an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        where = ("--folder", folder, *extra) if row.script == "workloads.py" else ()
        report: dict[str, float] = deliver(kernel, row.script, *row.arguments, *where, seconds=120)
    return report


def measure(
    ours: Kernel, peer: Kernel, rounds: int, rows: tuple[Row, ...] = ROWS, extra: tuple[str, ...] = ()
) -> list[Measured]:
    """Measure every row in `rounds` rounds, the two kernels in turn and in changing order.

    `extra` are options for every child of workloads.py. Raises NoDelivery when a child never delivers.
    """
    for kernel in (ours, peer):
        # Once unmeasured, so that both kernels' bytecode is written and their files are in memory.
        deliver(kernel, "startup.py", "ready", seconds=120)
    results = [Measured(row) for row in rows]
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", flush=True)
        for result in results:
            if number % result.row.every == 0:
                _measure_once(result, ours, peer, extra, ours_first=number % 2 == 0)
    return results


def _measure_once(result: Measured, ours: Kernel, peer: Kernel, extra: tuple[str, ...], *, ours_first: bool) -> None:
    row = result.row
    for kernel in (ours, peer) if ours_first else (peer, ours):
        report = one_child(kernel, row, extra)
        if kernel is peer:
            result.peer.append(report[row.unit])
            continue
        result.ours.append(report[row.unit])
        if row.floor is not None:
            result.floors.append(report["floor_us"])
            result.of_floor.append(report["us"] / report["floor_us"])


def render(results: list[Measured]) -> str:
    """Return the table of all rows."""
    return table(HEADER, [result.cells() for result in results])
