"""Plays one area's scenarios, or one scenario, in this process; prints a line of JSON for each as it ends.

    python benchmarks/scenario_child.py AREA --folder EMPTY_FOLDER [--only ID]

The first line is the plan: which scenarios the area has, and which of them want a process of their own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
from pathlib import Path

from scenarios.base import AREAS, REGISTER, play


def main() -> None:
    """Play what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", help="one scenario's id")
    options = parser.parse_args()
    # Whatever a kernel prints must not be taken for an observation.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    importlib.import_module(f"scenarios.{options.area}")
    # An area may borrow from another one, whose scenarios are then registered too.
    mine = [item for item in REGISTER.values() if item.id.startswith(f"{options.area}.")]
    print(json.dumps({"plan": {item.id: item.alone for item in mine}}), file=lines, flush=True)
    for number, item in enumerate(mine):
        if options.only == item.id or not (options.only or item.alone):
            observed = play(item, options.folder / str(number))
            print(json.dumps({"id": item.id, "observed": observed}), file=lines, flush=True)
    lines.close()


if __name__ == "__main__":
    main()
