"""What programs that measure have in common: their options, how rounds are put together, how rows are shown."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from document import table, write_section


def measuring(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return the options of a program that measures in rounds and shows rows."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", action="store_true")
    return parser


def lower_quartile(values: list[float]) -> float:
    """Return the value that a quarter of the values stays below."""
    return sorted(values)[len(values) // 4]


def show(rows: list[dict[str, Any]], *, as_json: bool, digits: int = 2, unit: str = "ms") -> int:
    """Print rows of what was measured, in milliseconds or, with `unit`, in µs; return 1 when a target is missed."""
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        scale = 1000 if unit == "µs" else 1
        lines = [
            [
                row["what"],
                f"{row['ms'] * scale:.{digits}f} {unit}",
                f"≤ {row['target_ms'] * scale:g} {unit}" if row["target_ms"] else "",
                "yes" if row["met"] else "NO",
            ]
            for row in rows
        ]
        print(table(["What", "Time", "Target", "Met"], lines))
    return 0 if all(row["met"] for row in rows) else 1


def report(body: str, wrong: list[str], section: tuple[Path, str, str] | None) -> int:
    """Print what was found and what of it is wrong, write it to a section (path, heading, name); return 1 for wrong."""
    print(body)
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    if section is not None:
        path, heading, name = section
        write_section(path, heading, name, body)
    return 1 if wrong else 0
