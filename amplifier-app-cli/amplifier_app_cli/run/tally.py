"""Collect what happens in a run, for its result: tool calls with their results, usage, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.children.sums import ChildSums

if TYPE_CHECKING:
    from amplifier_foundation.children import ChildFacts
    from amplifier_foundation.usage import UsageAccount

_SPAWNED = ("delegate:agent_spawned", "task:agent_spawned")


class Tally:
    """Listen to a session's events; every call is found again by its id, whatever else runs at the same time."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._calls: dict[str, dict[str, Any]] = {}
        self._account: UsageAccount | None = None
        #: What each child used.
        self.children = ChildSums()
        #: Answers of the model to the session itself.
        self.answers = 0
        self.agents = 0
        #: Milliseconds until the model said something; None when it has not.
        self.first_words: int | None = None
        #: How the loop says that the turn ended; None when it has not said so.
        self.status: str | None = None
        #: Why, when it did not end well.
        self.reason: str | None = None

    def connect(self, hooks: Any, account: UsageAccount) -> None:
        """Listen to the events of a session, and read what it uses from its account."""
        self._account = account
        account.listeners.append(self.children.add)
        for event, listen in (
            ("tool:pre", self._on_call),
            ("tool:post", self._on_result),
            ("tool:error", self._on_error),
            ("llm:stream_block_delta", self._on_words),
            ("llm:response", self._on_response),
            *((event, self._on_agent) for event in _SPAWNED),
            ("orchestrator:complete", self._on_complete),
        ):
            hooks.register(event, listen, priority=950, name=f"app-tally-{event}")

    def take_child(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Count the agents that a child starts."""
        if event in _SPAWNED:
            self.agents += 1

    @property
    def milliseconds(self) -> int:
        """Return how long it has been since the start."""
        return round((time.monotonic() - self._started) * 1000)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Return the tool calls in the order they were made, each with its own result."""
        return list(self._calls.values())

    @property
    def usage(self) -> dict[str, Any]:
        """Return the tokens of all answers of the tree together; empty when there was none."""
        return {} if self._account is None else self._account.total.tokens()

    @property
    def cost(self) -> str | None:
        """Return the cost in dollars; None when an answer, or an attempt at one, has no known price: not free."""
        cost = None if self._account is None else self._account.total.cost
        return None if cost is None else str(cost)

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        call = str(data.get("tool_call_id") or f"call-{len(self._calls)}")
        if data.get("edits") and call in self._calls:  # the same call, with an input that a person has changed
            self._calls[call]["arguments"] = data.get("tool_input")
            return
        self._calls[call] = {
            "type": "tool_call",
            "tool": data.get("tool_name"),
            "tool_call_id": call,
            "arguments": data.get("tool_input"),
            "result": None,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "duration_ms": None,
            "sequence": len(self._calls) + 1,
        }

    def _on_result(self, event: str, data: dict[str, Any]) -> None:
        self._end(data, data.get("result"))

    def _on_error(self, event: str, data: dict[str, Any]) -> None:
        self._end(data, {"success": False, "error": data.get("error"), "status": data.get("status")})

    def _end(self, data: dict[str, Any], result: Any) -> None:
        call = self._calls.get(str(data.get("tool_call_id")))
        if call is not None:
            call["result"], call["duration_ms"] = result, data.get("duration_ms")

    def _on_words(self, event: str, data: dict[str, Any]) -> None:
        if self.first_words is None:
            self.first_words = self.milliseconds

    def _on_response(self, event: str, data: dict[str, Any]) -> None:
        self._on_words(event, data)
        self.answers += 1

    def _on_agent(self, event: str, data: dict[str, Any]) -> None:
        self.agents += 1

    def _on_complete(self, event: str, data: dict[str, Any]) -> None:
        self.status = data.get("status")
        self.reason = data.get("reason")
