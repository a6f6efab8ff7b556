"""Measure our kernel side by side with the published one and write docs/benchmarks.md.

    python benchmarks/run.py --peer PYTHON_WITH_THE_PUBLISHED_KERNEL [--rounds 7] [--only speed|behaviour|app]

Part one times the same workloads on both; part two plays the scenarios of amplifier-core/tests/compat on both and lists
every difference; part three measures what only ours has: the session log, compaction, the program.
Exits 1 when a target is missed, a difference is not listed in compat/intended.toml or the peer no longer answers as
recorded in compat/answers; 2 when a workload cannot run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import app
import behaviour
import speed
from children import Kernel, NoDelivery
from document import ROOT, circumstances, write_section

HEADING = """
# Benchmarks

The kernel, measured beside the published `amplifier-core` 2.0.2. `make bench` measures again and rewrites this page.
Ratios matter more than times: both kernels run interleaved on the same machine, each workload in a fresh process.
"""

HOW = """
How to repeat it: `make bench`. It installs the published kernel into a separate environment (`.peer-venv`, pinned by
`benchmarks/peer-constraints.txt`, with the same pydantic as ours), then runs each workload of `benchmarks/workloads.py`
and `benchmarks/startup.py` in {rounds} rounds of fresh child processes, ours and the peer's in turn, and takes the
median of the rounds (within a child, the lower quartile of 40 short batches: other work on the machine only ever adds
to a batch). The floor is a bare loop that awaits the same handlers, each with its own JSON copy of the data (the faster
of `pydantic_core` and the standard library), after merging in the default fields and a timestamp; it runs in the same
process as ours, batch by batch in turn. Memory is the growth of the resident set over 300 idle sessions, so native
allocations count. Start-up times begin after the interpreter's own start.
"""


def main() -> int:
    """Run what the command line asks for and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, required=True, help="an interpreter that has the published kernel")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["speed", "behaviour", "app"])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    ours, peer = Kernel("ours", Path(sys.executable)), Kernel("peer", options.peer.absolute())
    good = True
    try:
        if options.only in (None, "speed"):
            good = run_speed(ours, peer, options.rounds, options.output)
        if options.only in (None, "behaviour"):
            good = run_behaviour(ours, peer, options.output) and good
        if options.only in (None, "app"):
            good = run_app(options.output) and good
    except NoDelivery as failure:
        print(f"\nSTOPPED: {failure}", file=sys.stderr)
        return 2
    print(f"\nwritten: {options.output.name}")
    return 0 if good else 1


def run_speed(ours: Kernel, peer: Kernel, rounds: int, output: Path) -> bool:
    """Run part one, print and write its table, and say whether every target is met."""
    results = speed.measure(ours, peer, rounds)
    rendered = speed.render(results)
    print(f"\n{rendered}\n\n{ends(ours, peer)}")
    body = f"## Speed\n\n{circumstances()}\n\n{rendered}\n\n{ends(ours, peer)}\n{HOW.format(rounds=rounds)}"
    write_section(output, HEADING, "speed", body)
    missed = [result.row.what for result in results if not result.met]
    if missed:
        print(f"\nMISSED: {', '.join(missed)}")
    return not missed


def run_behaviour(ours: Kernel, peer: Kernel, output: Path) -> bool:
    """Run part two, print and write every difference, and say whether all are listed and the record still holds."""
    result = behaviour.play_and_compare(ours.python, peer.python)
    for difference in result.unlisted:
        print(f"\nUNLISTED {difference}")
    for entry in result.stale:
        print(f"\nNO LONGER DIFFERS: {entry.scenario} at {entry.place}: take it out of intended.toml")
    for difference in result.changed:
        print(f"\nNOT AS RECORDED (`make compat-answers` records again): {difference}")
    rendered = behaviour.render(result)
    print(f"\n{rendered.splitlines()[0]}")
    write_section(output, HEADING, "behaviour", f"## Behaviour\n\n{circumstances()}\n\n{rendered}")
    return not (result.unlisted or result.changed)


def run_app(output: Path) -> bool:
    """Run part three, print and write its table, and say whether every target is met."""
    rows = app.measure()
    rendered = app.render(rows)
    print(f"\n{rendered}")
    names = ", ".join(f"`benchmarks/{name}`" for name in app.PROGRAMS)
    body = f"## Log, compaction, program\n\n{circumstances()}\n\n{rendered}\n\nEach measured by a program: {names}."
    write_section(output, HEADING, "app", body)
    missed = [row["what"] for row in rows if not row["met"]]
    if missed:
        print(f"\nMISSED: {', '.join(missed)}")
    return not missed


def ends(*kernels: Kernel) -> str:
    """Say how many children died after they had delivered."""
    said = [
        f"{kernel.name}: {kernel.died_at_exit} of {kernel.started} died at exit after delivering, "
        f"{kernel.delivered_nothing} delivered nothing"
        for kernel in kernels
    ]
    return f"Child processes: {'; '.join(said)}."


if __name__ == "__main__":
    sys.exit(main())
