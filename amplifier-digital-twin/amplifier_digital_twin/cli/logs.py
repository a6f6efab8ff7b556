"""`amplifier-digital-twin logs`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click

from amplifier_digital_twin.cli.answers import answer, answer_line
from amplifier_digital_twin.cli.kept import find
from amplifier_digital_twin.registry import Found

_POLL: Final = 0.2
_SOURCES: Final = ("universe", "gateway", "keeper")


@click.command()
@click.argument("given", metavar="ID")
@click.option("--source", type=click.Choice(_SOURCES), default="universe", show_default=True, help="Whose log.")
@click.option("--tail", type=click.IntRange(0), default=200, show_default=True, help="How many lines, from the end.")
@click.option("--follow", is_flag=True, help="Go on, one JSON object per line, until the universe ends.")
def logs(given: str, source: str, tail: int, follow: bool) -> None:
    """Show what happened in a universe, also in one that has crashed.

    `universe` is its own log, `gateway` every decision about the network, `keeper` the standard streams of the process
    that keeps it.
    """
    found = find(given, alive=False)
    path = {
        "universe": found.place.log,
        "gateway": found.place.decisions,
        "keeper": found.place.keeper_log,
    }[source]
    lines, rest = _complete_lines(path, 0)
    kept = lines[-tail:] if tail else []
    if not follow:
        cut = len(lines) - len(kept)
        answer({"id": found.state.id, "source": source, "entries": [_entry(line) for line in kept], "cut": cut})
        return
    for line in chain(kept, _coming(found, path, rest)):
        answer_line(_entry(line))


def _coming(found: Found, path: Path, offset: int) -> Iterator[bytes]:
    is_over = False
    while not is_over:
        # Asked before reading: what was written until the end is read, too.
        is_over = not found.is_alive
        lines, offset = _complete_lines(path, offset)
        yield from lines
        if not lines and not is_over:
            time.sleep(_POLL)


def _complete_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Return the lines from a place on that have an end, and the place behind them."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), offset + end


def _entry(line: bytes) -> dict[str, Any]:
    """Return a line of a log as an object; one that is none is told as text."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) else {"text": line.decode("utf-8", "replace")}
