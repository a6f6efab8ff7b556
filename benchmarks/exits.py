"""Run a one-emit program many times, count how it exits, and write a section of docs/reliability.md.

    python benchmarks/exits.py [--runs 1000] [--peer PYTHON_WITH_THE_PUBLISHED_KERNEL] [--output FILE]

Exits 1 unless every run of our kernel exited with status 0.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from children import HERE, environment
from document import ROOT, circumstances, table, write_section

HEADING = """
# Reliability

What was counted over many runs. Each section is written by the program it names.
"""
SECONDS = 60
HUNG = "stopped after 60 s"


def exit_of(python: Path) -> str:
    """Run the program once and return its exit status in words; the last words of a failure go to stderr."""
    command = [str(python), str(HERE / "one_emit.py")]
    try:
        done = subprocess.run(command, capture_output=True, env=environment(), timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return HUNG
    if done.returncode:
        print(done.stderr.decode("utf-8", "replace")[-1000:].rstrip(), file=sys.stderr)
    return in_words(done.returncode)


def in_words(status: int) -> str:
    """Return `0`, `1`, ..., or `-11 (SIGSEGV)` for a process that a signal ended."""
    if status >= 0:
        return str(status)
    try:
        return f"{status} ({signal.Signals(-status).name})"
    except ValueError:
        return str(status)


def count(python: Path, runs: int, parallel: int = 2) -> Counter[str]:
    """Run the program `runs` times, two at a time, and count the exit statuses."""
    with ThreadPoolExecutor(parallel) as pool:
        return Counter(pool.map(exit_of, [python] * runs))


def describe(counted: Counter[str]) -> str:
    """Return the statuses that were not 0, commonest first."""
    others = [f"{status}: {number}" for status, number in counted.most_common() if status != "0"]
    return ", ".join(others) or "none"


def main() -> int:
    """Count, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--peer", type=Path, help="count the published kernel too, with this interpreter")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options = parser.parse_args()
    ours = report("our kernel", "exits", Path(sys.executable), options.runs, options.output)
    if options.peer:
        report("the published kernel 2.0.2", "exits-peer", options.peer.absolute(), options.runs, options.output)
    return 0 if ours["0"] == options.runs else 1


def report(name: str, section: str, python: Path, runs: int, output: Path) -> Counter[str]:
    """Count one kernel's exits, print them and write them into the kernel's own section."""
    start = time.monotonic()
    counted = count(python, runs)
    seconds = time.monotonic() - start
    print(f"{name}: {counted['0']} of {runs} exited 0 ({seconds:.0f} s); others: {describe(counted)}")
    body = f"""
## Exit status of a one-emit program, {name}

{circumstances()}

{table(["Runs", "Exit 0", "Other exit statuses"], [[str(runs), str(counted["0"]), describe(counted)]])}

The program (`benchmarks/one_emit.py`) creates a session, emits one event to one handler, cleans up and ends.
`make bench-exits` counts ours again; `benchmarks/exits.py --peer` counts the published kernel too.
"""
    write_section(output, HEADING, section, body)
    return counted


if __name__ == "__main__":
    sys.exit(main())
