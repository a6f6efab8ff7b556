"""Play a scenario: one entry answers one call, in order, and checks what it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_module_provider_mock.replies import Reply, last_spoken, text_of
from amplifier_module_provider_mock.scenario import Entry, Scenario

_SYSTEM = ("system", "developer")
_SHOWN = 300


class Script:
    """One session's way through a scenario."""

    def __init__(self, scenario: Scenario, agent: str | None = None) -> None:
        """Start at the first entry of the agent's own list; of `turns` for the root, and when no agent has a list."""
        self._scenario = scenario
        self._agent = agent
        self._entries = scenario.turns if agent is None or not scenario.agents else scenario.entries_for(agent)
        self._calls = 0

    def next(self, messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        """Return the next reply.

        Raises InvalidRequestError when the entries are used up, when others have a list and this agent has none, and
        when the request is not what the entry expects.
        """
        if self._entries is None:
            names = ", ".join(sorted(self._scenario.agents))
            raise _refusal(f"{self._scenario.path}: no entries for agent {self._agent!r}; there are some for {names}")
        entries = self._entries
        index = self._calls % len(entries) if entries and self._scenario.repeat else self._calls
        if index >= len(entries):
            raise _refusal(f"scenario exhausted after {self._calls} calls")
        self._calls += 1
        _check(entries[index], messages, tools)
        return self._with_ids(entries[index].reply)

    def _with_ids(self, reply: Reply) -> Reply:
        """Give tool calls without an id one of their own, the same in every run."""
        if all(call.get("id") for call in reply.tool_calls):
            return reply
        numbered = enumerate(reply.tool_calls, start=1)
        calls = tuple({**call, "id": call.get("id") or f"call_{self._calls}_{number}"} for number, call in numbered)
        return replace(reply, tool_calls=calls)


def _check(entry: Entry, messages: Sequence[Any], tools: Sequence[str]) -> None:
    """Compare a request with what the entry expects; raise InvalidRequestError that names entry and key."""
    for key, wanted in entry.expect.items():
        holds, seen = _compare(key, wanted, messages, tools)
        if not holds:
            raise _refusal(f"scenario entry {entry.where}: expect.{key}: wanted {wanted!r}, the request has {seen!r}")


def _compare(key: str, wanted: Any, messages: Sequence[Any], tools: Sequence[str]) -> tuple[bool, Any]:
    """Tell whether the request is as wanted, and what there is instead."""
    if key == "last_role":
        last = last_spoken(messages)
        role = last.role if last is not None else None
        return role == wanted, role
    if key == "tools":
        # None at all is an expectation too; else there may be more than those named.
        return set(wanted) <= set(tools) if wanted else not tools, sorted(tools)
    is_system = key == "system_contains"
    text = "\n".join(text_of(message) for message in messages if (message.role in _SYSTEM) == is_system)
    return all(part in text for part in wanted), text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"


def _refusal(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, provider="mock")
