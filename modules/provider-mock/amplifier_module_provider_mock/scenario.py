"""Whole runs as a file: read it, and refuse what cannot be understood in it before anything runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from amplifier_core import llm_errors
from amplifier_module_provider_mock.replies import Reply

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
    """A scenario file cannot be used; the text names file, entry and key."""


@dataclass(frozen=True)
class Entry:
    """One answer, and what must have been asked for it."""

    where: str
    reply: Reply
    expect: dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """A scenario file that was understood."""

    path: Path
    turns: tuple[Entry, ...] = ()
    agents: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    repeat: bool = False

    def entries_for(self, agent: str) -> tuple[Entry, ...] | None:
        """Return the entries of an agent, by its full name (`foundation:explorer`) or the last part of it, or None."""
        return self.agents.get(agent, self.agents.get(agent.rpartition(":")[2]))


def load_scenario(path: Path, project: Path | None = None) -> Scenario:
    """Read a scenario file that a config of `project` names; raise ScenarioError for what cannot be understood."""
    from amplifier_module_provider_mock.yaml_file import YamlError, read_yaml

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
    """Refuse keys that JSON does not have: YAML reads `on:` and `1:` as something else than text."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ScenarioError(f"{where}: the key {key!r} is no text: put it in quotes")
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
