"""Write lines to the app's display, to a stream that the app offers, or to standard error.

Never to standard output, which is for answers and for programs that read them. Every call writes whole lines at once,
so that parallel sessions do not mix within a line.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

from amplifier_kit.awaitable import await_soon
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_hooks_streaming_ui.plain import plain

logger = logging.getLogger(__name__)

#: The capability under which an app may offer the stream to write to.
STREAM: Final = "ui.stream"

Level = Literal["info", "warning"]
Style = Literal["plain", "faint", "call", "good", "bad"]
_CODES: Final = {"plain": "", "faint": "2", "call": "36", "good": "32", "bad": "31"}


class Line(NamedTuple):
    """One line and its style on a terminal with colours."""

    text: str
    style: Style = "plain"


class Screen:
    """Show lines of one session."""

    def __init__(self, coordinator: Any, source: str) -> None:
        self._coordinator = coordinator
        self._source = source
        #: The target that failed last, which was logged.
        self._broken: Any = None

    def show(self, lines: Sequence[Line], *, label: str = "", level: Level = "info") -> None:
        """Show lines, each prefixed with `label`; failures are logged once and do not reach the session."""
        safe = [Line(plain(f"{label}{line.text}").replace("\n", " "), line.style) for line in lines]
        display = self._coordinator.display_system
        stream = self._coordinator.get_capability(STREAM)
        target = display if display is not None else stream if stream is not None else sys.stderr
        if not safe or target is None:
            return
        try:
            if display is not None:
                shown = display.show_message("\n".join(line.text for line in safe), level, self._source)
                await_soon(shown, lambda error: self._log_failure(target, error))
            else:
                _write(target, safe)
        except Exception as error:
            self._log_failure(target, error)

    def _log_failure(self, target: Any, error: Exception) -> None:
        if target is not self._broken:
            logger.warning("%s cannot write to %r: %s", self._source, target, error)
        self._broken = target


def _write(stream: Any, lines: Sequence[Line]) -> None:
    has_colours = _has_colours(stream)
    text = "".join(f"{_colour(line) if has_colours else line.text}\n" for line in lines)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _colour(line: Line) -> str:
    code = _CODES[line.style]
    return f"\x1b[{code}m{line.text}\x1b[0m" if code else line.text


def _has_colours(stream: Any) -> bool:
    """Return whether to use colours: on a terminal that supports them, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    isatty = getattr(stream, "isatty", None)
    return callable(isatty) and isatty() is True
