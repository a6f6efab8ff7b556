"""Lay out text for a terminal of some width: wide characters count as wide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from amplifier_app_cli.ui.plain import plain
from amplifier_app_cli.ui.table import columns, shortened

#: What of a tool's input says most about a call, the most telling first.
_TELLING: Final = ("command", "file_path", "path", "pattern", "query", "url", "agent", "name", "prompt", "instruction")


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than `width`, broken between words where possible; nothing is lost."""
    lines: list[str] = []
    for line in text.split("\n"):
        piece = ""
        for character in line.expandtabs(4):
            while piece and columns(piece) + columns(character) > width:
                end = piece.rfind(" ") + 1 or len(piece)
                lines.append(piece[:end])
                piece = piece[end:]
            piece += character
        lines.append(piece)
    return lines


def one_line(text: str, width: int) -> str:
    """Return a text on one line that fits into `width`."""
    return shortened(" ".join(plain(text).split()), max(width, 1))


def telling(tool_input: Any, width: int) -> str:
    """Return what tells a call of a tool from others of it, on one line."""
    if not isinstance(tool_input, Mapping) or not tool_input:
        return ""
    for key in _TELLING:
        if isinstance(value := tool_input.get(key), str) and value.strip():
            return one_line(value, width)
    return one_line(json.dumps(dict(tool_input), ensure_ascii=False, default=str), width)


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
