"""Take Markdown apart while it arrives: what is complete can be shown for good, the rest may still change."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.markdown import Markdown, MarkdownElement

#: A block longer than this is shown in parts: what is not shown for good is drawn again and again.
_LONG: Final = 30
#: A table looks like one only as a whole; but there is an end to that too.
_LONGEST: Final = 200
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})(.*)$")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_ITEM: Final = re.compile(r"\s{0,3}(?:[-*+]|\d{1,9}[.)])\s")


class MarkdownStream:
    """Collect text and give out blocks as soon as they are complete; joined, the blocks have every word of the text."""

    def __init__(self) -> None:
        #: The whole lines of the block at hand, and the line that is not whole yet.
        self._lines: list[str] = []
        self._partial = ""
        #: What opened the code block at hand, None outside of one.
        self._fence: str | None = None
        self._opening = ""
        #: Whether a blank line may have ended the block.
        self._is_paused = False

    @property
    def tail(self) -> str:
        """Return what may still change."""
        return "\n".join([*self._lines, self._partial] if self._partial else self._lines)

    def feed(self, text: str) -> list[str]:
        """Add text and return the blocks that are complete now."""
        *whole, self._partial = (self._partial + text).split("\n")
        return [block for line in whole for block in self._add(line)]

    def end(self) -> list[str]:
        """Return what is left, as it is."""
        blocks = self.feed("\n") if self._partial else []
        blocks += self._take()
        self._fence = None
        return blocks

    def _add(self, line: str) -> list[str]:
        if self._fence is not None:
            return self._add_code(line)
        if not line.strip():
            self._is_paused = bool(self._lines)
            return []
        blocks: list[str] = []
        if self._is_paused:
            self._is_paused = False
            if self._goes_on(line):
                self._lines.append("")
            else:
                blocks = self._take()
        elif len(self._lines) >= (_LONGEST if line.lstrip().startswith("|") else _LONG):
            blocks = self._take()
        self._lines.append(line)
        if found := _FENCE.match(line):
            if found[1][0] == "`" and "`" in found[2]:
                return blocks  # a line with code in it, not the beginning of some
            self._fence, self._opening = found[1], line
        return blocks

    def _add_code(self, line: str) -> list[str]:
        assert self._fence is not None
        self._lines.append(line)
        found = _FENCE.match(line)
        if found and found[1].startswith(self._fence) and not found[2].strip():
            self._fence = None
            return [] if self._is_list() else self._take()
        if len(self._lines) <= _LONG:
            return []
        self._lines.append(self._fence)
        blocks = self._take()
        self._lines = [self._opening.lstrip()]
        return blocks

    def _goes_on(self, line: str) -> bool:
        """Tell whether a line behind a blank one belongs to the list before it."""
        is_part = line.startswith(("  ", "\t")) or bool(_ITEM.match(line))
        return self._is_list() and is_part and len(self._lines) < _LONG

    def _is_list(self) -> bool:
        return bool(self._lines and _ITEM.match(self._lines[0]))

    def _take(self) -> list[str]:
        taken, self._lines = self._lines, []
        self._is_paused = False
        return ["\n".join(taken)] if any(line.strip() for line in taken) else []


@lru_cache(maxsize=256)
def rendered(text: str, width: int) -> str:
    """Return Markdown, which has been made plain, as styled lines that fit into `width`."""
    console = _console(width)
    with console.capture() as captured:
        # Addresses are written out: a link that says one thing and leads to another is a trap.
        console.print(_markdown()(text, code_theme="ansi_dark", hyperlinks=False))
    lines = [line.rstrip() for line in captured.get().split("\n")]
    filled = [number for number, line in enumerate(lines) if _STYLE.sub("", line).strip()]
    return "\n".join(lines[filled[0] : filled[-1] + 1]) if filled else ""


@lru_cache(maxsize=1)
def _markdown() -> type[Markdown]:
    """Return a kind of Markdown whose tables fold what is too wide: cut off, a word or a Chinese sentence is lost."""
    from rich.markdown import Markdown, TableDataElement

    class Cell(TableDataElement):
        def __init__(self, justify: JustifyMethod) -> None:
            super().__init__(justify)
            self.content.overflow = "fold"

    class Folding(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "td_open": Cell, "th_open": Cell}

    return Folding


@lru_cache(maxsize=2)
def _console(width: int) -> Console:
    import io

    from rich.console import Console

    return Console(file=io.StringIO(), force_terminal=True, width=max(width, 10), legacy_windows=False, emoji=False)
