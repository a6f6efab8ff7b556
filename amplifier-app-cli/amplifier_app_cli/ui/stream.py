"""Show an answer while it arrives."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from amplifier_app_cli.ui.plain import plain


class AnswerStream:
    """Write the text of an answer to standard output as it streams in, each answer of a turn on lines of its own."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._shown = ""
        self._last = "\n"

    def connect(self, hooks: Any) -> None:
        """Listen to the session's streaming events."""
        hooks.register("llm:stream_block_start", self._start, name="app-stream-start")
        hooks.register("llm:stream_block_delta", self._delta, name="app-stream")

    def finish(self, answer: str) -> None:
        """Show the answer unless it was streamed already, and end the line."""
        if answer.strip() and not self._shown.rstrip().endswith(answer.strip()):
            self._break()
            self._write(answer)
        self._break()

    def _start(self, event: str, data: dict[str, Any]) -> None:
        if data.get("block_type") == "text":
            self._break()

    def _delta(self, event: str, data: dict[str, Any]) -> None:
        if data.get("block_type") == "text":
            self._shown += data["text"]
            self._write(data["text"])

    def _break(self) -> None:
        if self._last != "\n":
            self._write("\n")

    def _write(self, text: str) -> None:
        shown = plain(text)
        if shown:
            self._out.write(shown)
            self._out.flush()
            self._last = shown[-1]
