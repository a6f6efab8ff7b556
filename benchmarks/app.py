"""Part three of the benchmark: what the kit and the program take, each measured by a separate program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from children import HERE, NoDelivery, environment
from document import table

#: The programs, in the order of the table; one that does not exist is left out.
PROGRAMS = (
    "log_write.py",
    "compaction.py",
    "session_store.py",
    "compose_resume.py",
    "app_run.py",
    "policy.py",
    "search.py",
    "providers.py",
    "budget.py",
    "sandbox.py",
    "mcp_first_turn.py",
    "spawn.py",
)
HEADER = ["What", "Ours", "Target", "Met"]
SECONDS = 900
#: Runs of each program. The median counts, so that one hiccup of the machine does not.
RUNS = 3


def measure(programs: tuple[str, ...] = PROGRAMS, folder: Path = HERE) -> list[dict[str, Any]]:
    """Run every program and return all their rows; raise NoDelivery, with its last words, when one has none."""
    rows: list[dict[str, Any]] = []
    for name in programs:
        if (folder / name).exists():
            print(f"measuring: {name}", flush=True)
            rows += middle([rows_of(folder / name) for _ in range(RUNS)])
    return rows


def middle(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return, row by row, the run whose value is the median."""
    return [
        sorted(rows, key=lambda row: row["ms"] if "ms" in row else row["value"])[len(rows) // 2]
        for rows in zip(*runs, strict=True)
    ]


def rows_of(program: Path) -> list[dict[str, Any]]:
    """Run one program with --json and return its rows, whichever of the two forms it prints them in."""
    done = subprocess.run(
        [sys.executable, str(program), "--json"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )
    try:
        printed = json.loads(done.stdout.splitlines()[-1])
        rows: list[dict[str, Any]] = printed["rows"] if isinstance(printed, dict) else printed
    except (IndexError, KeyError, ValueError):
        raise NoDelivery(
            f"{program.name} delivered nothing (exit status {done.returncode}). Its last words:\n{done.stderr[-2000:]}"
        ) from None
    return rows


def cells(row: dict[str, Any]) -> list[str]:
    """Return one row of the table."""
    if "ratio" in row:
        value = f"{row['ratio']:.2f} × `{row['other']}`"
        target = row["target"] and f"≤ {row['target']:g} ×"
    elif "ms" in row:
        value, target = f"{row['ms']:.3g} ms", row["target_ms"] and f"≤ {row['target_ms']:g} ms"
    else:
        value, target = f"{row['value']:,} {row['unit']}", row["target"]
    return [row["what"], value, target or "", "yes" if row["met"] else "**no**"]


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table of all rows."""
    return table(HEADER, [cells(row) for row in rows])
