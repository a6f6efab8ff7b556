"""Record the answers of the published kernel to the scenarios, and print what changed since the last record.

    python -m compat.record PYTHON_WITH_THE_PUBLISHED_KERNEL

run in the folder above this one; `make compat-answers` installs the published kernel and does it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .answers import compare, read_answers, write_answers
from .play import play_all


def main() -> None:
    """Play every scenario on the published kernel and write its answers."""
    before, answers = read_answers(), play_all(Path(sys.argv[1]))
    write_answers(answers)
    changed = compare(before, answers)
    for difference in changed:
        sys.stdout.write(f"{difference.scenario} at {difference.place} changed\n")
    sys.stdout.write(f"{len(answers)} answers recorded, {len(changed)} places changed\n")


if __name__ == "__main__":
    main()
