"""Count what happens in a session: tool calls with their results, answers, agents, tokens and cost."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.children.live import ChildUsage
from amplifier_foundation.usage.history import answering_model
from amplifier_kit.engine.usage import UsageRecord

if TYPE_CHECKING:
    from amplifier_foundation.sessions.origin import ChildFacts
    from amplifier_foundation.usage.account import UsageAccount

_SPAWNED = ("delegate:agent_spawned", "task:agent_spawned")


class SessionStats:
    """The numbers of one session, from its events and its usage account."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._calls: dict[str, dict[str, Any]] = {}
        self._account: UsageAccount | None = None
        self._provider: str | None = None
        self._module: str | None = None
        self._before = self._at_turn_start = UsageRecord()
        #: What each child session used.
        self.children = ChildUsage()
        #: Model answers of the session itself.
        self.answers = 0
        #: The model that answered last, as `provider/model`; None until then.
        self.model: str | None = None
        #: Agents that were spawned, at any depth.
        self.agents = 0
        #: Milliseconds until the model's first output; None until then.
        self.first_output: int | None = None

    def connect(
        self,
        hooks: Any,
        account: UsageAccount,
        used_before: Any = None,
        *,
        provider: str | None = None,
        module: str | None = None,
    ) -> None:
        """Listen to a session; `used_before` is the usage in a resumed one's metadata.

        `provider` is the name of the provider in the plan, `module` its module.
        """
        self._account, self._provider, self._module = account, provider, module
        self._before = UsageRecord.of_facts(used_before)
        self.start_turn()
        account.listeners.append(self.children.add)
        for event, handler in (
            ("tool:pre", self._on_call),
            ("tool:post", self._on_result),
            ("tool:error", self._on_error),
            ("llm:stream_block_delta", self._on_output),
            ("llm:response", self._on_response),
            *((event, self._on_agent) for event in _SPAWNED),
        ):
            hooks.register(event, handler, priority=950, name=f"app-stats-{event}")

    def start_turn(self) -> None:
        self._at_turn_start = self._total
        self._calls.clear()

    @property
    def turn(self) -> UsageRecord:
        """Return what the current or last turn used, with its child sessions."""
        return self._total - self._at_turn_start

    @property
    def session(self) -> UsageRecord:
        """Return what the session used, in this process and before."""
        return self._before + self._total

    @property
    def _total(self) -> UsageRecord:
        return UsageRecord() if self._account is None else self._account.total

    def child_event(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Count the agents that a child session spawns."""
        if event in _SPAWNED:
            self.agents += 1

    @property
    def milliseconds(self) -> int:
        """Return the milliseconds since the start."""
        return round((time.monotonic() - self._started) * 1000)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Return the tool calls of the turn in the order they were made, each with its result."""
        return list(self._calls.values())

    @property
    def usage(self) -> dict[str, Any]:
        """Return the tokens of all answers in this process, child sessions included; empty if there were none."""
        return self._total.tokens() if self._account is not None else {}

    @property
    def cost(self) -> str | None:
        """Return the cost in dollars; None if the price of an answer, or of an attempt at one, is unknown."""
        cost = self._total.cost if self._account is not None else None
        return None if cost is None else str(cost)

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        call = str(data.get("tool_call_id") or f"call-{len(self._calls)}")
        if data.get("edits") and call in self._calls:  # the same call, with an input that the user edited
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

    def _on_output(self, event: str, data: dict[str, Any]) -> None:
        if self.first_output is None:
            self.first_output = self.milliseconds

    def _on_response(self, event: str, data: dict[str, Any]) -> None:
        self._on_output(event, data)
        self.answers += 1
        self.model = answering_model(data, self._provider, self._module) or self.model

    def _on_agent(self, event: str, data: dict[str, Any]) -> None:
        self.agents += 1
