"""Show an answer while it arrives."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

from amplifier_app_cli.ui.plain import plain

#: The beginning of an escape sequence whose end may be in the next piece.
_BEGUN = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4})?\Z")


class AnswerStream:
    """Write the text of an answer to standard output as it streams in, each answer of a turn on lines of its own.

    A reader that went away (as in `| head`) ends the writing, not the run: the work goes on and is in the log.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._shown: list[str] = []
        self._last = "\n"
        self._held = ""
        self._is_over = False
        #: Why nothing could be written any more, when that was not the reader's choice.
        self.failure: OSError | None = None

    def connect(self, hooks: Any) -> None:
        """Listen to the session's streaming events."""
        hooks.register("llm:stream_block_start", self._start, name="app-stream-start")
        hooks.register("llm:stream_block_delta", self._delta, name="app-stream")

    def finish(self, answer: str) -> None:
        """Show the answer unless it was streamed already, and end the line."""
        wanted = _letters(answer)
        if wanted and not _letters("".join(self._shown)).endswith(wanted):
            self._break()
            self._write(answer)
        self._break()

    def pause(self) -> None:
        """End the line that was begun, where something else is about to be shown on the same screen."""
        if self._out.isatty():
            self._break()

    def _start(self, event: str, data: dict[str, Any]) -> None:
        if data.get("block_type") == "text":
            self._break()

    def _delta(self, event: str, data: dict[str, Any]) -> None:
        text = data.get("text")
        if data.get("block_type") == "text" and isinstance(text, str):
            self._shown.append(text)
            text = self._held + text
            begun = _BEGUN.search(text)
            self._held = begun.group() if begun else ""
            self._write(text.removesuffix(self._held))

    def _break(self) -> None:
        self._held = ""
        if self._last != "\n":
            self._write("\n")

    def _write(self, text: str) -> None:
        shown = plain(text)
        if not shown or self._is_over:
            return
        self._last = shown[-1]
        try:
            self._out.write(shown)
            self._out.flush()
        except BrokenPipeError:
            self._give_up()
        except OSError as error:
            self.failure = error
            self._give_up()

    def _give_up(self) -> None:
        """Write nothing more, and let the interpreter throw away what is left in the buffer when it ends."""
        self._is_over = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self._out.fileno())
        finally:
            os.close(nowhere)


def _letters(text: str) -> str:
    """Return the text without white space, by which a streamed answer and a whole one may differ."""
    return "".join(text.split())
