"""Documents made of marked sections, each of which a program may rewrite without touching the others."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELIABILITY = """
# Reliability

What was counted over many runs. Each section is written by the program it names.
"""


def begin(name: str) -> str:
    """Return the mark that opens a section."""
    return f"<!-- section: {name} -->"


def end(name: str) -> str:
    """Return the mark that closes a section."""
    return f"<!-- end: {name} -->"


def rewrite(text: str, name: str, body: str) -> str:
    """Return `text` with the section's body replaced; a section that is not there yet is appended.

    Raises ValueError when a section is opened and never closed: rewriting would swallow what follows.
    """
    section = f"{begin(name)}\n{body.strip()}\n{end(name)}\n"
    before, opened, rest = text.partition(f"{begin(name)}\n")
    if not opened:
        return f"{text.rstrip()}\n\n{section}" if text.strip() else section
    _, closed, after = rest.partition(f"{end(name)}\n")
    if not closed:
        raise ValueError(f"section {name!r} is opened but never closed: restore its line {end(name)!r}")
    return before + section + after


def write_section(path: Path, heading: str, name: str, body: str) -> None:
    """Write one section of the document at `path`, which is begun with `heading` when it does not exist."""
    text = path.read_text(encoding="utf-8") if path.exists() else f"{heading.strip()}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rewrite(text, name, body), encoding="utf-8")


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def circumstances() -> str:
    """Return the line that says when and on what a measurement was made."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return (
        f"{day}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    )
