"""Whole runs as a file: one entry answers one call, in order, and may check what it was asked."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amplifier_core import InvalidRequestError, llm_errors
from amplifier_core.llm_errors import LLMError

from amplifier_module_provider_mock.replies import Reply, text_of

_FILE_KEYS = ("turns", "agents", "repeat")
_ENTRY_KEYS = ("text", "thinking", "tool_calls", "usage", "delay_ms", "error", "expect")
_EXPECT_KEYS = ("last_role", "contains", "system_contains", "tools")
_CALL_KEYS = ("id", "name", "arguments")
_ERROR_KEYS = ("type", "message", "retryable", "status_code", "retry_after")


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
    """A parsed scenario file."""

    path: Path
    turns: tuple[Entry, ...]
    agents: dict[str, tuple[Entry, ...]]
    repeat: bool = False

    def replies(self, agent: str | None = None) -> ScenarioReplies:
        """Return a cursor of one session's own over the entries of `agent`, or over the main ones."""
        return ScenarioReplies(self.agents.get(agent or "", self.turns), self.repeat)


class ScenarioReplies:
    """Answer calls from the entries in order."""

    def __init__(self, entries: tuple[Entry, ...], repeat: bool) -> None:
        self._entries = entries
        self._repeat = repeat
        self._calls = 0

    def next(self, messages: list[Any], tools: list[str]) -> Reply:
        """Return the next reply.

        Raises InvalidRequestError when the entries are used up, and when the call is not what the entry expects.
        """
        index = self._calls % len(self._entries) if self._repeat and self._entries else self._calls
        if index >= len(self._entries):
            raise InvalidRequestError(f"scenario exhausted after {self._calls} calls", provider="mock")
        self._calls += 1
        entry = self._entries[index]
        _check_expectations(entry, messages, tools)
        return entry.reply


def load_scenario(path: Path) -> Scenario:
    """Parse a scenario file; raise ScenarioError for what cannot be understood in it."""
    import yaml

    try:
        parsed = yaml.load(path.read_text(encoding="utf-8-sig"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read the scenario: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: malformed YAML: {error}") from error
    mapping = _mapping(str(path), parsed, _FILE_KEYS)
    agents = mapping.get("agents") or {}
    if not isinstance(agents, dict):
        raise ScenarioError(f"{path}: 'agents' must map names to lists of entries, got {type(agents).__name__}")
    return Scenario(
        path,
        _entries(f"{path}: turns", mapping.get("turns")),
        {str(name): _entries(f"{path}: agents.{name}", entries) for name, entries in agents.items()},
        bool(mapping.get("repeat", False)),
    )


def _entries(where: str, given: Any) -> tuple[Entry, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise ScenarioError(f"{where} must be a list of entries, got {type(given).__name__}")
    return tuple(_entry(f"{where}[{index}]", entry) for index, entry in enumerate(given))


def _entry(where: str, given: Any) -> Entry:
    mapping = _mapping(where, given, _ENTRY_KEYS)
    calls = mapping.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ScenarioError(f"{where}.tool_calls must be a list, got {type(calls).__name__}")
    reply = Reply(
        text=str(mapping.get("text") or ""),
        thinking=str(mapping.get("thinking") or ""),
        tool_calls=tuple(_tool_call(f"{where}.tool_calls[{index}]", call) for index, call in enumerate(calls)),
        usage=_usage(f"{where}.usage", mapping.get("usage")),
        delay_ms=_number(f"{where}.delay_ms", mapping.get("delay_ms", 0)),
        error=_error(f"{where}.error", mapping.get("error")),
    )
    expect = mapping.get("expect")
    return Entry(where, reply, _mapping(f"{where}.expect", expect, _EXPECT_KEYS) if expect is not None else {})


def _tool_call(where: str, given: Any) -> dict[str, Any]:
    call = _mapping(where, given, _CALL_KEYS)
    if not isinstance(call.get("name"), str):
        raise ScenarioError(f"{where}: a tool call needs a 'name'")
    arguments = call.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise ScenarioError(f"{where}.arguments must be a mapping, got {type(arguments).__name__}")
    # An id only has to be there and be its own: the place in the file is both, and the same in every run.
    number = "".join(character if character.isdigit() else " " for character in where.partition(":")[2]).split()
    return {"id": str(call.get("id") or f"call_{'_'.join(number)}"), "name": call["name"], "arguments": arguments}


def _usage(where: str, given: Any) -> dict[str, int]:
    usage = given or {}
    if not isinstance(usage, dict) or not all(isinstance(count, int) for count in usage.values()):
        raise ScenarioError(f"{where} must map token counts to whole numbers, got {given!r}")
    return usage


def _number(where: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given < 0:
        raise ScenarioError(f"{where} must be a number of milliseconds, got {given!r}")
    return float(given)


def _error(where: str, given: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    error = _mapping(where, given, _ERROR_KEYS)
    name = str(error.get("type", "LLMError"))
    kind = getattr(llm_errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LLMError)):
        known = sorted(key for key, value in vars(llm_errors).items() if isinstance(value, type))
        near = difflib.get_close_matches(name, known, n=1)
        raise ScenarioError(f"{where}.type: unknown error {name!r}: {_hint(near, known)}")
    return error


def _mapping(where: str, given: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ScenarioError(f"{where} must be a mapping with {', '.join(known)}, got {type(given).__name__}")
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            raise ScenarioError(f"{where}: unknown key {key!r}: {_hint(near, list(known))}")
    return given


def _hint(near: list[str], known: list[str]) -> str:
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def _check_expectations(entry: Entry, messages: list[Any], tools: list[str]) -> None:
    last = messages[-1] if messages else None
    system = "\n".join(text_of(message) for message in messages if message.role in ("system", "developer"))
    found: dict[str, tuple[bool, Any]] = {}
    for key, wanted in entry.expect.items():
        if key == "last_role":
            found[key] = (last is not None and last.role == wanted, last.role if last is not None else None)
        elif key == "contains":
            seen = text_of(last) if last is not None else ""
            found[key] = (all(text in seen for text in _texts(wanted)), seen[:200])
        elif key == "system_contains":
            found[key] = (all(text in system for text in _texts(wanted)), system[:200])
        else:
            found[key] = (set(_texts(wanted)) <= set(tools), sorted(tools))
    for key, (holds, seen) in found.items():
        if not holds:
            raise InvalidRequestError(
                f"scenario entry {entry.where}: expect.{key}: wanted {entry.expect[key]!r}, the request has {seen!r}",
                provider="mock",
            )


def _texts(wanted: Any) -> list[str]:
    return [str(item) for item in wanted] if isinstance(wanted, list) else [str(wanted)]
