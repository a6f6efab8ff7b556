"""Show the answer while it arrives: as Markdown, where the terminal can."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.answer import AnswerFollower, Handler
from amplifier_app_cli.ui.layout import wrap_text

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.markdown import Markdown, MarkdownElement


_BAR: Final = "│ "


class AnswerView(AnswerFollower):
    """Show the answers of one session on a screen: text as Markdown, thinking dimmed."""

    kinds = ("text", "thinking")

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen
        #: The kind of the open block, and the part of it that may still change.
        self._kind = ""
        self._blocks = MarkdownStream()
        self._line = ""
        self._is_first = True
        #: Whether the output of a tool stands above: what follows is set apart from it.
        self._is_below_tool = False

    def handlers(self) -> dict[str, Handler]:
        return {
            **super().handlers(),
            "provider:request": self._on_request,
            "llm:stream_block_end": self._on_boundary,
            "llm:stream_aborted": self._on_aborted,
            "content_block:delta": self._on_delta,
            "content_block:end": self._on_block,
            "tool:post": self._on_tool,
            "tool:error": self._on_tool,
        }

    @property
    def live(self) -> str:
        """Return the part of the open block that may still change, as lines for the live part of the screen."""
        width = self._screen.width - 1
        if self._kind == "text" and self._screen.ink.is_styled:
            return render_markdown(self._blocks.tail, width) if self._blocks.tail.strip() else ""
        if not self._line:
            return ""
        return "\n".join(self._lines(self._line))

    def end_block(self) -> None:
        """Show the rest of the open block."""
        if self._kind == "text" and self._screen.ink.is_styled:
            for block in self._blocks.end():
                self._show_block(block)
        elif self._line:
            self._show_line(self._line)
        self._kind, self._line = "", ""
        self._blocks = MarkdownStream()
        if self._screen.has_live_part:  # elsewhere it would ask for the next prompt before the turn has ended
            self._screen.refresh()

    # -- events --

    def _on_request(self, event: str, data: dict[str, Any]) -> None:
        self.close()
        self._shown, self._is_first = "", True

    def _on_tool(self, event: str, data: dict[str, Any]) -> None:
        self._is_below_tool = True

    def _on_aborted(self, event: str, data: dict[str, Any]) -> None:
        self.close()
        error = data.get("error")
        if not isinstance(error, dict) or error.get("type") != "CancelledError":  # the user knows that they stopped it
            self._screen.show(self._screen.ink("bad", "the rest of the answer did not come"))

    def _on_block(self, event: str, data: dict[str, Any]) -> None:
        """Show a block that did not stream in."""
        block = data.get("block")
        if not isinstance(block, dict):
            return
        text = str(block.get("text") or block.get("thinking") or "")
        if not self.has_shown(text):
            self.close()
            self.add(str(block.get("type")), text)
            self.close()

    # -- what is shown --

    def show(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self.close()
            self._kind = kind
            if self._is_below_tool and self._screen.has_live_part:
                self._screen.show("")
            self._is_below_tool = False
        if kind == "text" and self._screen.ink.is_styled:
            for block in self._blocks.feed(text):
                self._show_block(block)
        else:
            self._add_lines(text)
        self._screen.refresh()

    def _add_lines(self, text: str) -> None:
        """Show whole lines; on a screen without a live part, show pieces of lines as they arrive."""
        *whole, rest = text.split("\n")
        if not self._screen.has_live_part and self._kind == "text":
            self._line = (self._line + text).rpartition("\n")[2]
            self._screen.write(text)
            return
        for line in whole:
            self._show_line(self._line + line)
            self._line = ""
        self._line += rest

    def _show_line(self, line: str) -> None:
        if not self._screen.has_live_part and self._kind == "text":
            self._screen.write("\n")
        else:
            # The terminal wraps complete text, so that it can be copied as it is.
            self._screen.show("\n".join(self._lines(line)) if self._kind == "thinking" else line)

    def _show_block(self, block: str) -> None:
        text = render_markdown(block, self._screen.width - 1)
        self._screen.show(text if self._is_first else f"\n{text}")
        self._is_first = False

    def _lines(self, line: str) -> list[str]:
        """Return a line as it is shown: thinking is dimmed, with a bar before it."""
        width = self._screen.width - 1
        if self._kind != "thinking":
            return wrap_text(line, width)
        return [self._screen.ink("dim", _BAR + part.rstrip()) for part in wrap_text(line, max(width - len(_BAR), 1))]


#: Lines after which a block is shown in parts: the live part is redrawn all the time.
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
        """Return whether a line after a blank one belongs to the list before it."""
        is_part = line.startswith(("  ", "\t")) or bool(_ITEM.match(line))
        return self._is_list() and is_part and len(self._lines) < _LONG

    def _is_list(self) -> bool:
        return bool(self._lines and _ITEM.match(self._lines[0]))

    def _take(self) -> list[str]:
        taken, self._lines = self._lines, []
        self._is_paused = False
        return ["\n".join(taken)] if any(line.strip() for line in taken) else []


@lru_cache(maxsize=256)
def render_markdown(text: str, width: int) -> str:
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
    from rich.theme import Theme

    # Without a background: black is not the colour behind the text of every terminal.
    theme = Theme({"markdown.code": "bold cyan"})
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=max(width, 10),
        legacy_windows=False,
        emoji=False,
        theme=theme,
    )
