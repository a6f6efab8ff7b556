"""Show an answer, and what the model thinks on the way to it, while it arrives."""

from __future__ import annotations

from typing import Any

from amplifier_app_cli.chat.layout import wrapped
from amplifier_app_cli.chat.markdown import MarkdownStream, rendered
from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.plain import plain

#: Others have made of an event what they make of it by then.
_PRIORITY = 950
_BAR = "│ "


class AnswerView:
    """Follow the streaming events of one session; call `finish()` when a turn is over."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        #: The kind of block at hand, and what of it cannot be shown for good yet.
        self._kind = ""
        self._blocks = MarkdownStream()
        self._line = ""
        self._is_first = True
        #: The letters of the response at hand, by which one that comes again as a whole is known.
        self._shown = ""

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        for event, handler in (
            ("provider:request", self._on_request),
            ("llm:stream_block_start", self._on_start),
            ("llm:stream_block_delta", self._on_delta),
            ("llm:stream_block_end", self._on_end),
            ("llm:stream_aborted", self._on_aborted),
            ("content_block:delta", self._on_delta),
            ("content_block:end", self._on_block),
        ):
            hooks.register(event, handler, priority=_PRIORITY, name="app-answer")

    @property
    def live(self) -> str:
        """Return what was said and may still change, as lines for the part of the screen that is drawn again."""
        width = self._screen.width - 1
        if self._kind == "text" and self._screen.ink.is_styled:
            return rendered(self._blocks.tail, width) if self._blocks.tail.strip() else ""
        if not self._line:
            return ""
        return "\n".join(self._lines(self._line))

    def finish(self, answer: str) -> None:
        """End the turn: show the answer unless it was shown already."""
        self.close()
        if _letters(answer) and not self._shown.endswith(_letters(answer)):
            self._add("text", answer)
            self.close()

    def close(self) -> None:
        """Show for good what is left of the block at hand."""
        if self._kind == "text" and self._screen.ink.is_styled:
            for block in self._blocks.end():
                self._show_block(block)
        elif self._line:
            self._show_line(self._line)
        self._kind, self._line = "", ""
        self._blocks = MarkdownStream()
        if self._screen.has_live_part:  # elsewhere it would ask for the next prompt before the turn is told
            self._screen.refresh()

    # -- what is heard --

    def _on_request(self, event: str, data: dict[str, Any]) -> None:
        self.close()
        self._shown, self._is_first = "", True

    def _on_start(self, event: str, data: dict[str, Any]) -> None:
        self.close()

    def _on_delta(self, event: str, data: dict[str, Any]) -> None:
        self._add(str(data.get("block_type") or "text"), str(data.get("text") or ""))

    def _on_end(self, event: str, data: dict[str, Any]) -> None:
        self.close()

    def _on_aborted(self, event: str, data: dict[str, Any]) -> None:
        self.close()
        error = data.get("error")
        if not isinstance(error, dict) or error.get("type") != "CancelledError":  # whoever stopped it knows
            self._screen.show(self._screen.ink("bad", "the rest of the answer did not come"))

    def _on_block(self, event: str, data: dict[str, Any]) -> None:
        """Show a block that did not stream in."""
        block = data.get("block")
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in ("text", "thinking") or not isinstance(block, dict):
            return
        text = str(block.get("text") or block.get("thinking") or "")
        if _letters(text) and _letters(text) not in self._shown:
            self.close()
            self._add(kind, text)
            self.close()

    # -- what is shown --

    def _add(self, kind: str, text: str) -> None:
        text = plain(text)
        if kind not in ("text", "thinking") or not text:
            return
        self._shown += _letters(text)
        if kind != self._kind:
            self.close()
            self._kind = kind
        if kind == "text" and self._screen.ink.is_styled:
            for block in self._blocks.feed(text):
                self._show_block(block)
        else:
            self._add_lines(text)
        self._screen.refresh()

    def _add_lines(self, text: str) -> None:
        """Show whole lines for good; where nothing can be changed later, show pieces of lines as they come."""
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
            # Text for good is left to the terminal to wrap, so that it can be copied as it is.
            self._screen.show("\n".join(self._lines(line)) if self._kind == "thinking" else line)

    def _show_block(self, block: str) -> None:
        text = rendered(block, self._screen.width - 1)
        self._screen.show(text if self._is_first else f"\n{text}")
        self._is_first = False

    def _lines(self, line: str) -> list[str]:
        """Return a line as it is shown: what is thought has a bar before it and is dimmed."""
        width = self._screen.width - 1
        if self._kind != "thinking":
            return wrapped(line, width)
        return [self._screen.ink("dim", _BAR + part.rstrip()) for part in wrapped(line, max(width - len(_BAR), 1))]


def _letters(text: str) -> str:
    """Return the text without white space, by which a streamed answer and a whole one may differ."""
    return "".join(plain(text).split())
