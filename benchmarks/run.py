"""Run measurements, print one table of them, and rewrite the sections of docs that are made from them.

    python benchmarks/run.py [NAME ...] [--list] [--rounds N] [--size N | --small] [--write] [--peer PYTHON]

Without names everything is measured, each measurement in a fresh process. `make bench` installs the published kernel
for those beside it, measures all, and writes: a group of docs/benchmarks.md is written when all of its measurements
ran, a section of docs/reliability.md or docs/digital-twin.md when its own one ran. Exits 1 when a target is missed, 2
when a measurement cannot run: the others still do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from children import environment
from document import RELIABILITY, ROOT, circumstances, table, write_section
from harness import HEADER, Found, Measurement, Setting, middle
from table import GROUPS, HEADING, MEASUREMENTS

#: The longest that one process of a measurement may take.
SECONDS = 4 * 3600


class NothingMeasured(Exception):
    """A measurement ended without its rows."""


def main() -> int:
    """Do what the command line asks for and return the exit status."""
    options = parse()
    named = {measurement.name: measurement for measurement in MEASUREMENTS}
    unknown = [name for name in options.names if name not in named]
    if unknown:
        print(f"no measurement is named {', '.join(unknown)}: --list prints all names", file=sys.stderr)
        return 2
    if options.list:
        for measurement in MEASUREMENTS:
            print(f"{measurement.name:20} {measurement.what}")
        return 0
    if options.as_json:  # the process of one measurement
        [name] = options.names
        print(json.dumps(asdict(named[name].run(setting(named[name], options)))))
        return 0
    found: dict[str, Found] = {}
    for name in options.names or named:
        print(f"measuring: {name}", file=sys.stderr, flush=True)
        try:
            found[name] = middle(
                [in_process(named[name], options) for _ in range(1 if is_trial(options) else named[name].processes)]
            )
        except NothingMeasured as failure:
            print(f"STOPPED: {failure}", file=sys.stderr)
    rows = [row for one in found.values() for row in one.rows]
    print(table(HEADER, [row.cells() for row in rows]))
    for fault in [fault for one in found.values() for fault in one.faults][:20]:
        print(f"FAULT: {fault}", file=sys.stderr)
    if options.write:
        write(found, options.docs)
    missed = [row.what for row in rows if not row.met]
    if missed:
        print(f"\nMISSED: {'; '.join(missed)}", file=sys.stderr)
    return 2 if len(found) < len(options.names or named) else 1 if missed else 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="measurements; all without one")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of its own number")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--size", type=int, help="sessions, files, kills, ... of each, instead of its own number")
    size.add_argument("--small", action="store_true", help="the size for a trial")
    parser.add_argument("--seed", type=int, default=1, help="of chance, for kills")
    default = ROOT / ".peer-venv" / "bin" / "python"
    parser.add_argument("--peer", type=Path, default=default if default.exists() else None, help="of the peer")
    parser.add_argument("--write", action="store_true", help="rewrite what of the documents was measured")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of the documents")
    parser.add_argument("--as-json", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def is_trial(options: argparse.Namespace) -> bool:
    """Tell whether fewer rounds, or another size, than usual are asked for."""
    return options.small or options.rounds is not None or options.size is not None


def setting(measurement: Measurement, options: argparse.Namespace) -> Setting:
    """Return how a measurement is run."""
    size = measurement.small if options.small else measurement.size
    return Setting(
        measurement.rounds if options.rounds is None else options.rounds,
        size if options.size is None else options.size,
        options.seed,
        options.peer,
    )


def in_process(measurement: Measurement, options: argparse.Namespace) -> Found:
    """Run a measurement in a fresh process; raise NothingMeasured with its last words when it gives no rows."""
    given = setting(measurement, options)
    command = [sys.executable, __file__, measurement.name, "--as-json", "--rounds", str(given.rounds)]
    command += ["--size", str(given.size), "--seed", str(given.seed)]
    command += ["--peer", str(given.peer)] if given.peer else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment(), timeout=SECONDS, check=False)
    try:
        return Found.from_json(json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, KeyError, TypeError, ValueError):
        raise NothingMeasured(f"{measurement.name} gave no rows (exit status {done.returncode})") from None


def write(found: dict[str, Found], docs: Path) -> None:
    """Rewrite the groups that were measured completely, and the sections of those that write one."""
    for group, (title, words) in GROUPS.items():
        names = [measurement.name for measurement in MEASUREMENTS if measurement.group == group]
        if all(name in found for name in names):
            cells = [row.cells() for name in names for row in found[name].rows]
            parts = [f"## {title}", circumstances(), table(HEADER, cells), words.strip()]
            write_section(docs / "benchmarks.md", HEADING, group, "\n\n".join(parts))
            print(f"written: section {group} of benchmarks.md", file=sys.stderr)
    for one in found.values():
        if one.section:
            write_section(docs / one.page, RELIABILITY, one.section, one.body)
            print(f"written: section {one.section} of {one.page}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
