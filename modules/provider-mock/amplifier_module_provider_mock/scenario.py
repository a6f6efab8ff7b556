"""Scenario files: read and check one before anything runs, and play it, one entry for each call."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from amplifier_core import llm_errors
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_module_provider_mock.replies import Reply, last_message, text_of
from amplifier_module_provider_mock.yaml_file import YamlError, read_yaml

_FILE_KEYS = ("turns", "agents", "repeat")
_ENTRY_KEYS = ("text", "thinking", "tool_calls", "usage", "delay_ms", "error", "expect")
_CALL_KEYS = ("id", "name", "arguments")
_ERROR_KEYS = ("type", "message", "retryable", "status_code", "retry_after")
_EXPECT_KEYS = ("last_role", "contains", "system_contains", "tools")
_USAGE_KEYS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost_usd",
)
_ROLES = ("system", "developer", "user", "assistant", "function", "tool")


class ScenarioError(ValueError):
    """A scenario file is invalid; the message names file, entry and key."""


@dataclass(frozen=True)
class Entry:
    """One reply, and what the request for it must contain."""

    where: str
    reply: Reply
    expect: dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """The content of a scenario file."""

    path: Path
    turns: tuple[Entry, ...] = ()
    agents: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    repeat: bool = False

    def entries_for(self, agent: str) -> tuple[Entry, ...] | None:
        """Return the entries of an agent, by its full name (`foundation:explorer`) or the last part of it, or None."""
        return self.agents.get(agent, self.agents.get(agent.rpartition(":")[2]))


def load_scenario(path: Path, project: Path | None = None) -> Scenario:
    """Read a scenario file that a config of `project` names; raise ScenarioError for an invalid one."""
    try:
        parsed = read_yaml(path, project)
    except YamlError as error:
        raise ScenarioError(f"{path}: {error}") from error
    given = _mapping(str(path), parsed, _FILE_KEYS)
    repeat = given.get("repeat", False)
    if not isinstance(repeat, bool):
        raise ScenarioError(f"{path}: repeat must be true or false, got {repeat!r}")
    agents = given.get("agents") or {}
    if not isinstance(agents, dict):
        raise ScenarioError(f"{path}: agents must map names to lists of entries, got {type(agents).__name__}")
    named = {str(name): _entries(f"{path}: agents.{name}", entries) for name, entries in agents.items()}
    return Scenario(path, _entries(f"{path}: turns", given.get("turns")), named, repeat)


def _entries(where: str, given: Any) -> tuple[Entry, ...]:
    return tuple(_entry(f"{where}[{index}]", entry) for index, entry in enumerate(_list(where, given)))


def _entry(where: str, given: Any) -> Entry:
    entry = _mapping(where, given, _ENTRY_KEYS)
    calls = enumerate(_list(f"{where}.tool_calls", entry.get("tool_calls")))
    reply = Reply(
        text=_text(f"{where}.text", entry.get("text")),
        thinking=_text(f"{where}.thinking", entry.get("thinking")),
        tool_calls=tuple(_tool_call(f"{where}.tool_calls[{index}]", call) for index, call in calls),
        usage=_usage(f"{where}.usage", entry.get("usage")),
        delay_ms=_number(f"{where}.delay_ms", entry.get("delay_ms")),
        error=_error(f"{where}.error", entry.get("error")),
    )
    return Entry(where, reply, _expect(f"{where}.expect", entry.get("expect")))


def _tool_call(where: str, given: Any) -> dict[str, Any]:
    call = _mapping(where, given, _CALL_KEYS)
    name = call.get("name")
    if not isinstance(name, str) or not name:
        raise ScenarioError(f"{where}.name: a tool call needs the name of a tool, got {name!r}")
    arguments = call.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise ScenarioError(f"{where}.arguments must be a mapping, got {type(arguments).__name__}")
    _require_text_keys(f"{where}.arguments", arguments)
    return {"id": _text(f"{where}.id", call.get("id")), "name": name, "arguments": arguments}


def _require_text_keys(where: str, value: Any) -> None:
    """Refuse keys other than text, which JSON does not have: YAML reads `on:` as a boolean and `1:` as a number."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ScenarioError(f"{where}: the key {key!r} is not text: put it in quotes")
            _require_text_keys(f"{where}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _require_text_keys(f"{where}[{index}]", item)


def _usage(where: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    usage = _mapping(where, given, _USAGE_KEYS)
    return {key: (_price if key == "cost_usd" else _count)(f"{where}.{key}", value) for key, value in usage.items()}


def _count(where: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ScenarioError(f"{where} must be a number of tokens, got {given!r}")
    return given


def _price(where: str, given: Any) -> Decimal:
    try:
        price = Decimal(str(given))
    except InvalidOperation:
        price = Decimal(-1)
    if isinstance(given, bool) or not price.is_finite() or price < 0:
        raise ScenarioError(f"{where} must be an amount of US dollars, got {given!r}")
    return price


def _number(where: str, given: Any) -> float:
    if given is None:
        return 0.0
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < float("inf"):
        raise ScenarioError(f"{where} must be a number of milliseconds, got {given!r}")
    return float(given)


def _error(where: str, given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    error = _mapping(where, given, _ERROR_KEYS)
    name = error.get("type", "LLMError")
    if name not in llm_errors.__all__:
        raise ScenarioError(f"{where}.type: unknown error {name!r}: {_hint(str(name), llm_errors.__all__)}")
    retryable = error.get("retryable")
    if retryable is not None and not isinstance(retryable, bool):
        raise ScenarioError(f"{where}.retryable must be true or false, got {retryable!r}")
    return {**error, "type": name, "message": _text(f"{where}.message", error.get("message")) or "scripted error"}


def _expect(where: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    expect = dict(_mapping(where, given, _EXPECT_KEYS))
    for key in ("contains", "system_contains", "tools"):
        if key in expect:
            wanted = expect[key] if isinstance(expect[key], list) else [expect[key]]
            expect[key] = [_text(f"{where}.{key}", part) for part in wanted]
    if "last_role" in expect and expect["last_role"] not in _ROLES:
        role = expect["last_role"]
        raise ScenarioError(f"{where}.last_role: unknown role {role!r}: {_hint(str(role), _ROLES)}")
    return expect


def _text(where: str, given: Any) -> str:
    if given is None:
        return ""
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        raise ScenarioError(f"{where} must be text, got {given!r}: put it in quotes")
    return str(given)


def _list(where: str, given: Any) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise ScenarioError(f"{where} must be a list, got {type(given).__name__}")
    return given


def _mapping(where: str, given: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ScenarioError(f"{where} must be a mapping with {', '.join(known)}, got {type(given).__name__}")
    for key in given:
        if key not in known:
            raise ScenarioError(f"{where}: unknown key {key!r}: {_hint(str(key), known)}")
    return given


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


# -- playing a scenario --


_SYSTEM = ("system", "developer")
_SHOWN = 300


class Script:
    """The progress of one session through a scenario."""

    def __init__(self, scenario: Scenario, agent: str | None = None) -> None:
        """Start at the first entry of the agent's own list; of `turns` for the root, and when no agent has a list."""
        self._scenario = scenario
        self._agent = agent
        self._entries = scenario.turns if agent is None or not scenario.agents else scenario.entries_for(agent)
        self._calls = 0

    def next(self, messages: Sequence[Any], tools: Sequence[str]) -> Reply:
        """Return the next reply.

        Raises InvalidRequestError when the entries are used up, when other agents have a list and this one has none,
        and when the request does not meet the expectations of the entry.
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
        """Give tool calls without an id a new one, the same in every run."""
        if all(call.get("id") for call in reply.tool_calls):
            return reply
        numbered = enumerate(reply.tool_calls, start=1)
        calls = tuple({**call, "id": call.get("id") or f"call_{self._calls}_{number}"} for number, call in numbered)
        return replace(reply, tool_calls=calls)


def _check(entry: Entry, messages: Sequence[Any], tools: Sequence[str]) -> None:
    """Compare a request with the expectations of an entry; raise InvalidRequestError, which names entry and key."""
    for key, wanted in entry.expect.items():
        holds, seen = _compare(key, wanted, messages, tools)
        if not holds:
            raise _refusal(f"scenario entry {entry.where}: expect.{key}: wanted {wanted!r}, the request has {seen!r}")


def _compare(key: str, wanted: Any, messages: Sequence[Any], tools: Sequence[str]) -> tuple[bool, Any]:
    """Return whether the request meets an expectation, and the actual value."""
    if key == "last_role":
        last = last_message(messages)
        role = last.role if last is not None else None
        return role == wanted, role
    if key == "tools":
        # An empty list expects no tools; otherwise there may be more than those named.
        return set(wanted) <= set(tools) if wanted else not tools, sorted(tools)
    is_system = key == "system_contains"
    text = "\n".join(text_of(message) for message in messages if (message.role in _SYSTEM) == is_system)
    return all(part in text for part in wanted), text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}"


def _refusal(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, provider="mock")
