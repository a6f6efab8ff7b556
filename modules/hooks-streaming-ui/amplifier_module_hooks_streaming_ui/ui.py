"""Show the events of a session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import (
    CONTENT_BLOCK_END,
    CONTENT_BLOCK_START,
    PROVIDER_REQUEST,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_kit.awaitable import plain_result
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_hooks_streaming_ui.config import UiSection
from amplifier_module_hooks_streaming_ui.line_buffer import LineBuffer
from amplifier_module_hooks_streaming_ui.screen import Level, Line, Screen
from amplifier_module_hooks_streaming_ui.tools import call_lines, failure_line, is_failure, result_lines
from amplifier_module_hooks_streaming_ui.usage import usage_text

logger = logging.getLogger(__name__)

NAME: Final = "hooks-streaming-ui"

_SUB_AGENT: Final = "sub-agent"
_UNSHOWN: Final = "[not shown: it could not be redacted]"
_BAR: Final = "│ "

Handler = Callable[[str, Any], None]


class _Block(NamedTuple):
    """A block of a streaming answer."""

    kind: str
    label: str
    buffer: LineBuffer


class StreamingUI:
    """Show the events of one session."""

    def __init__(self, coordinator: Any, settings: UiSection) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._screen = Screen(coordinator, f"hook:{NAME}")
        self._blocks: dict[tuple[Any, Any], _Block] = {}
        #: Kinds of blocks of this answer that were shown, or announced, already.
        self._streamed: set[str] = set()
        self._announced: set[Any] = set()
        wanted = {"thinking": settings.show_thinking_stream, "text": settings.show_text_stream}
        self._kinds = {kind for kind, is_wanted in wanted.items() if is_wanted}

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by event; none returns a verdict, so that nothing is changed."""
        streaming: dict[str, Handler] = {
            PROVIDER_REQUEST: self._on_request,
            "llm:stream_block_delta": self._on_delta,
            "llm:stream_block_end": self._on_stream_end,
            CONTENT_BLOCK_START: self._on_block_start,
        }
        return {
            **(streaming if self._kinds else {}),
            "llm:stream_aborted": self._on_aborted,
            CONTENT_BLOCK_END: self._on_block_end,
            TOOL_PRE: self._on_tool_pre,
            TOOL_POST: self._on_tool_post,
            TOOL_ERROR: self._on_tool_error,
        }

    def close(self) -> None:
        """Show unfinished lines."""
        for key in list(self._blocks):
            self._finish(key)

    # -- answers of the model --

    def _on_request(self, event: str, data: Any) -> None:
        self.close()
        self._streamed.clear()
        self._announced.clear()

    def _on_delta(self, event: str, data: Any) -> None:
        fields = _fields(data)
        kind, text = fields.get("block_type"), fields.get("text")
        if kind not in self._kinds or not isinstance(text, str):
            return
        key = (fields.get("request_id"), fields.get("block_index"))
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = _Block(kind, self._label(fields), LineBuffer())
            self._streamed.add(kind)
            self._show_title(kind, block.label)
        self._show_lines(kind, block.buffer.feed(text), block.label)

    def _on_stream_end(self, event: str, data: Any) -> None:
        fields = _fields(data)
        self._finish((fields.get("request_id"), fields.get("block_index")))

    def _on_aborted(self, event: str, data: Any) -> None:
        fields = _fields(data)
        for key in [key for key in self._blocks if key[0] == fields.get("request_id")]:
            self._finish(key)
        error = self._redact(fields.get("error"))
        self._show([failure_line("answer", error, None)], self._label(fields), "warning")
        self._streamed.clear()

    def _finish(self, key: tuple[Any, Any]) -> None:
        block = self._blocks.pop(key, None)
        if block is not None:
            self._show_lines(block.kind, block.buffer.flush(), block.label)

    def _on_block_start(self, event: str, data: Any) -> None:
        fields = _fields(data)
        kind = fields.get("block_type")
        if kind in self._kinds and kind not in self._streamed:
            self._announced.add(fields.get("block_index"))
            self._show_title(kind, self._label(fields))

    def _on_block_end(self, event: str, data: Any) -> None:
        fields = _fields(data)
        label, block = self._label(fields), _fields(fields.get("block"))
        kind, index = block.get("type"), fields.get("block_index")
        if kind in self._kinds and kind not in self._streamed:
            if index not in self._announced:
                self._show_title(kind, label)
            text = block.get("thinking") or block.get("text")
            buffer = LineBuffer()
            self._show_lines(kind, [*buffer.feed(text if isinstance(text, str) else ""), *buffer.flush()], label)
        self._announced.discard(index)
        if self._settings.show_token_usage and _is_last(fields):
            used = usage_text(fields.get("usage"))
            self._show([Line(used, "faint")] if used else [], label)

    def _show_title(self, kind: str, label: str) -> None:
        self._show([Line(f"{kind}:", "faint")] if kind == "thinking" else [], label)

    def _show_lines(self, kind: str, said: list[str], label: str) -> None:
        lines = [str(self._redact(line)) for line in said]
        is_thinking = kind == "thinking"
        self._show([Line(f"{_BAR}{line}", "faint") if is_thinking else Line(line) for line in lines], label)

    # -- tools --

    def _on_tool_pre(self, event: str, data: Any) -> None:
        fields = _fields(data)
        tool_input = self._redact(fields.get("tool_input"))
        self._show(call_lines(_tool(fields), tool_input, self._settings.show_tool_lines), self._label(fields))

    def _on_tool_post(self, event: str, data: Any) -> None:
        fields = _fields(data)
        tool_input, result = self._redact(fields.get("tool_input")), self._redact(fields.get("result"))
        failed = is_failure(fields.get("result"))
        limit, duration = self._settings.show_tool_lines, fields.get("duration_ms")
        lines = result_lines(_tool(fields), tool_input, result, limit, duration_ms=duration, failed=failed)
        self._show(lines, self._label(fields), "warning" if failed else "info")

    def _on_tool_error(self, event: str, data: Any) -> None:
        fields = _fields(data)
        error = self._redact(fields.get("error"))
        self._show([failure_line(_tool(fields), error, fields.get("duration_ms"))], self._label(fields), "warning")

    # -- output --

    def _show(self, lines: list[Line], label: str, level: Level = "info") -> None:
        self._screen.show(lines, label=label, level=level)

    def _label(self, fields: dict[str, Any]) -> str:
        """Return the prefix of a sub-agent's lines: its name, which follows the first underscore of its session id."""
        session_id = str(fields.get("session_id") or self._coordinator.session_id or "")
        agent = session_id.partition("_")[2]
        if not agent and (fields.get("parent_id") or self._coordinator.parent_id):
            agent = _SUB_AGENT
        return f"    [{agent}] " if agent else ""

    def _redact(self, value: Any) -> Any:
        """Return a value without secrets; nothing of it when redaction fails."""
        scrub = self._coordinator.get_capability("redaction.scrub")
        if scrub is None:
            return value
        try:
            return plain_result(scrub(value))
        except Exception as error:
            logger.error("%s shows less than it should, redaction failed: %s", NAME, error, exc_info=error)
            return _UNSHOWN


def _fields(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _tool(fields: dict[str, Any]) -> str:
    return str(fields.get("tool_name") or "a tool without a name")


def _is_last(fields: dict[str, Any]) -> bool:
    index, total = fields.get("block_index"), fields.get("total_blocks")
    return not isinstance(index, int) or not isinstance(total, int) or index + 1 >= total
