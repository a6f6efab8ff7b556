"""Time a workload on our kernel and on the published one, in turn, each time in a fresh process."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

from children import deliver
from harness import Row, Setting

#: Sessions whose memory is measured, and repetitions: for a trial.
TRIAL = ("--count", "2", "--batches", "2")


def measure(
    setting: Setting,
    what: str,
    script: str,
    workload: str,
    faster: float,
    of_floor: float | None = None,
    unit: str = "µs",
) -> list[Row]:
    """Measure one workload in rounds, the kernels in changing order; a size of 1 makes it a trial.

    The value is the median of the rounds. Raises NoDelivery when a child never delivers, ValueError without a peer.
    """
    if setting.peer is None:
        raise ValueError("this is measured beside the published kernel: give its interpreter with --peer")
    kernels = {"ours": Path(sys.executable), "peer": setting.peer.absolute()}
    taken: dict[str, list[float]] = {"ours": [], "peer": [], "floor": []}
    key = "bytes" if unit == "kB" else "us"
    scale = 1000 if unit == "kB" else 1
    for number in range(-1, setting.rounds):
        for kernel in ("ours", "peer") if number % 2 else ("peer", "ours"):
            if number < 0:  # unmeasured, so that both kernels' bytecode is written and their files are in memory
                deliver(kernels[kernel], "startup.py", "ready", seconds=120)
                continue
            report = one_child(kernels[kernel], script, workload, TRIAL if setting.size == 1 else ())
            taken[kernel].append(report[key] / scale)
            if kernel == "ours" and of_floor is not None:
                taken["floor"].append(report["floor_us"])
    floor = median(taken["floor"]) if of_floor is not None else None
    return [
        Row(
            what,
            median(taken["ours"]),
            unit,
            floor=floor,
            most_of_floor=of_floor,
            peer=median(taken["peer"]),
            least_of_peer=faster,
        )
    ]


def one_child(python: Path, script: str, workload: str, extra: tuple[str, ...]) -> dict[str, float]:
    """Run a workload once, in a fresh process with an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        where = ("--folder", folder, *extra) if script == "workloads.py" else ()
        report: dict[str, float] = deliver(python, script, workload, *where, seconds=120)
    return report
