"""Say once at the start of a session whether what its tools run is confined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SandboxLine:
    """Listen for `sandbox:status`, which every tool that starts programs says once; each text is told one time.

    Tools find out in the background. What comes while a question is on the screen is told when it was answered.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Tell by `tell`, which makes the text plain and may have nothing to say it to."""
        self._tell = tell
        self._told: set[str] = set()
        self._held: list[str] = []
        #: The questions that are put, by what they are about.
        self._questions: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; before it is brought up, since modules speak then."""
        hooks.register("sandbox:status", self._on_status, priority=950, name="app-sandbox")
        hooks.register("approval:required", self._on_question, priority=950, name="app-sandbox")
        for event in ("approval:granted", "approval:denied", "approval:waiting"):
            hooks.register(event, self._on_answer, priority=950, name="app-sandbox")

    def _on_status(self, event: str, data: dict[str, Any]) -> None:
        text = sandbox_text(data)
        if text not in self._told:
            self._told.add(text)
            self._held.append(text)
            self._tell_held()

    def _on_question(self, event: str, data: dict[str, Any]) -> None:
        self._questions.add(_request_id(data))

    def _on_answer(self, event: str, data: dict[str, Any]) -> None:
        self._questions.discard(_request_id(data))
        self._tell_held()

    def _tell_held(self) -> None:
        while self._held and not self._questions:
            self._tell(self._held.pop(0))


def _request_id(data: dict[str, Any]) -> str:
    """Return the id of a request; published modules give theirs none, but name the tool."""
    return str(data.get("approval_id") or data.get("tool_name"))


def sandbox_text(data: dict[str, Any]) -> str:
    """Return the line of an event: its summary, or when it has none, what its fields say."""
    summary, reason = data.get("summary"), data.get("reason")
    if isinstance(summary, str) and summary:
        return summary
    if data.get("status") == "active":
        network = "the host's network" if data.get("network") else "no network"
        more = f"; {reason}" if reason else ""
        return f"sandbox: on ({data.get('backend')}): writes only to the project, {network}{more}"
    free = "commands can do whatever you can"
    if data.get("status") == "off":
        return f"sandbox: OFF: {free}"
    refused = "commands are refused" if data.get("mode") == "required" else free
    return f"sandbox: NOT AVAILABLE, {refused}: {reason}"
