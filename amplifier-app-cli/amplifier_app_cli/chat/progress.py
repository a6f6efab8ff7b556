"""Show the tools at work: which ones run, since when, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from amplifier_app_cli.chat.layout import duration, few_lines, one_line, telling
from amplifier_app_cli.chat.screen import Screen

_PRIORITY = 950
_MOST_SHOWN = 5


@dataclass(frozen=True)
class RunningTool:
    """One call that runs."""

    name: str
    about: str
    tool_input: Any
    since: float


class ToolProgress:
    """Follow the tool calls of one session."""

    def __init__(self, screen: Screen, scrub: Callable[[Any], Any]) -> None:
        """Show calls on `screen`, without secrets: `scrub` takes them out of any value."""
        self._screen = screen
        self._scrub = scrub
        #: The calls that run, by the id of their span.
        self.running: dict[str, RunningTool] = {}
        #: The calls that were running when the question was put that is open now.
        self._held: frozenset[str] | None = None
        #: From when to when a person was waited for, and which calls were running then.
        self._waits: list[tuple[float, float, frozenset[str]]] = []

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("tool:pre", self._on_pre, priority=_PRIORITY, name="app-tools")
        hooks.register("tool:post", self._on_post, priority=_PRIORITY, name="app-tools")
        hooks.register("tool:error", self._on_error, priority=_PRIORITY, name="app-tools")

    @property
    def live(self) -> str:
        """Return a line for each call that runs."""
        now = time.monotonic()
        lines = [
            self._line("…", tool, self._time_of(key, tool, now))
            for key, tool in list(self.running.items())[:_MOST_SHOWN]
        ]
        if len(self.running) > _MOST_SHOWN:
            lines.append(f"… and {len(self.running) - _MOST_SHOWN} more")
        return self._screen.ink("dim", "\n".join(lines))

    def clear(self) -> None:
        """Forget what runs: the turn is over."""
        self.running.clear()
        self._waits.clear()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the person in a block; a call that runs alone then does not take that time itself."""
        began, held = time.monotonic(), frozenset(self.running)
        self._held = held
        try:
            yield
        finally:
            self._held = None
            self._waits.append((began, time.monotonic(), held))

    def _time_of(self, key: str, tool: RunningTool, now: float) -> str:
        """Return how long a call has taken, or that a person holds it up."""
        if self._held == frozenset((key,)):
            return "waiting for you"
        return duration(now - tool.since - self._waited(key, tool.since, now))

    def _waited(self, key: str, start: float, end: float) -> float:
        """Return how long a call was held up: of calls side by side nobody knows which one it was."""
        return sum(max(min(over, end) - max(began, start), 0.0) for began, over, held in self._waits if held <= {key})

    def _on_pre(self, event: str, data: dict[str, Any]) -> None:
        tool_input = self._scrub(data.get("tool_input"))
        about = telling(tool_input, 200)
        tool = RunningTool(str(data.get("tool_name")), about, data.get("tool_input"), time.monotonic())
        self.running[_key(data)] = tool
        if not self._screen.has_live_part:
            self._screen.show(self._line("…", tool, ""))
        self._screen.refresh()

    def _on_post(self, event: str, data: dict[str, Any]) -> None:
        result = data.get("result")
        failed = isinstance(result, dict) and result.get("success") is False
        if failed and isinstance(result, dict):
            self._done(data, "bad", "✘", _message(result.get("error")))
        else:
            self._done(data, "good", "✔", "")

    def _on_error(self, event: str, data: dict[str, Any]) -> None:
        self._done(data, "bad", "✘", f"{data.get('status') or 'error'}: {_message(data.get('error'))}")

    def _done(self, data: dict[str, Any], tone: Any, mark: str, message: str) -> None:
        name = str(data.get("tool_name"))
        now = time.monotonic()
        tool = self.running.pop(_key(data), None) or RunningTool(name, "", None, now)
        took = float(data.get("duration_ms") or 0) / 1000
        line = self._line(mark, tool, duration(max(took - self._waited(_key(data), now - took, now), 0.0)))
        if message:
            line += "".join(f"\n  {part}" for part in few_lines(str(self._scrub(message)), self._screen.width - 3))
        self._screen.show(self._screen.ink(tone, mark) + line.removeprefix(mark))

    def _line(self, mark: str, tool: RunningTool, time_taken: str) -> str:
        """Return mark, name, what the call is about, and its time, which is not what is cut."""
        end = f" ({time_taken})" if time_taken else ""
        room = self._screen.width - 1 - len(end)
        return one_line(f"{mark} {tool.name} {tool.about}", room) + end


def _key(data: dict[str, Any]) -> str:
    return str(data.get("span_id") or data.get("tool_call_id"))


def _message(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("msg") or error.get("message") or error)
    return str(error or "")
