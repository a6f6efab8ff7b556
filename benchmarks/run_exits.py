"""Run `amplifier run` many times, count how it exits and what it prints, and write a section of docs/reliability.md.

    python benchmarks/run_exits.py [--runs 1000] [--no-document] [--output FILE]

Every run is a separate process with the default bundle, in one home. Exits 1 unless every run exited with status 0
and printed exactly the answer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from app_run import surroundings
from document import ROOT, circumstances, table, write_section
from exits import HEADING, HUNG, SECONDS, describe, in_words

ANSWER = "Hello. I am the scripted model of the default bundle"


def exit_of(folder: Path) -> str:
    """Run the program once and return its exit status in words, or that its answer was not the one."""
    command = [sys.executable, "-m", "amplifier_app_cli", "run", "--quiet", "hello"]
    try:
        done = subprocess.run(
            command, cwd=folder, env=surroundings(folder), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return HUNG
    if done.returncode or not done.stdout.startswith(ANSWER) or done.stdout.count("\n") != 1 or done.stderr:
        print(done.stdout[-300:], done.stderr[-1000:].rstrip(), file=sys.stderr)
        return in_words(done.returncode) if done.returncode else "0 with other output"
    return "0"


def count(runs: int, parallel: int = 2) -> Counter[str]:
    """Run the program `runs` times, two at a time, and count how it ended."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(parallel) as pool:
        return Counter(pool.map(exit_of, [Path(name)] * runs))


def main() -> int:
    """Count, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--no-document", action="store_true", help="print only")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options = parser.parse_args()
    start = time.monotonic()
    counted = count(options.runs)
    seconds = time.monotonic() - start
    print(f"{counted['0']} of {options.runs} exited 0 ({seconds:.0f} s); others: {describe(counted)}")
    if not options.no_document:
        cells = [[str(options.runs), str(counted["0"]), describe(counted)]]
        body = (
            f"## Exit status of `amplifier run`\n\n{circumstances()}\n\n"
            f"{table(['Runs', 'Exit 0 and the answer', 'Others'], cells)}\n\n"
            "Each run is a separate process with the default bundle, two at a time in one home, and must print the\n"
            "answer and nothing else. `python benchmarks/run_exits.py` counts again."
        )
        write_section(options.output, HEADING, "run-exits", body)
    return 0 if counted["0"] == options.runs else 1


if __name__ == "__main__":
    sys.exit(main())
