"""Scenario files: read and check one before anything runs, and play it, one entry for each call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Strict

from amplifier_core import llm_errors
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_kit.config import Config, Text, check_config, expects, read_config
from amplifier_module_provider_mock.replies import Reply, last_message, text_of
from amplifier_module_provider_mock.yaml_file import YamlError, read_yaml


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


# -- what a file may contain --


def _as_text(value: Any) -> Any:
    """Return a number as text: YAML reads `42` as one."""
    return str(value) if type(value) in (int, float) else value


def _as_price(value: Any) -> Any:
    try:
        return value if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        return value


def _known_error(name: str) -> str:
    if name not in llm_errors.__all__:
        near = get_close_matches(name, llm_errors.__all__, n=1)
        raise ValueError(f"did you mean {near[0]!r}?" if near else f"known: {', '.join(llm_errors.__all__)}")
    return name


_Words = Annotated[str, BeforeValidator(_as_text), expects("text: put it in quotes")]
_Parts = Annotated[
    list[_Words],
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    expects("a list of texts"),
]
_MAPPINGS = expects("a list of mappings")
_Tokens = Annotated[int, Field(ge=0), expects("a number of tokens")]
_Price = Annotated[
    Decimal, BeforeValidator(_as_price), Field(ge=0, allow_inf_nan=False), expects("an amount of US dollars")
]


class _Call(Config):
    id: _Words = ""
    name: Text
    arguments: dict[str, Annotated[JsonValue, expects("JSON: put its keys in quotes")]] = Field(default_factory=dict)


class _Usage(Config):
    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    total_tokens: _Tokens = 0
    reasoning_tokens: _Tokens = 0
    cache_read_tokens: _Tokens = 0
    cache_write_tokens: _Tokens = 0
    cost_usd: _Price = Decimal(0)


class _Error(Config):
    type: Annotated[str, AfterValidator(_known_error), expects("the name of an error")] = "LLMError"
    message: _Words = "scripted error"
    retryable: bool = False
    status_code: int = 0
    retry_after: float = 0.0


class _Expect(Config):
    last_role: Literal["system", "developer", "user", "assistant", "function", "tool"] = "user"
    contains: _Parts = Field(default_factory=list)
    system_contains: _Parts = Field(default_factory=list)
    tools: _Parts = Field(default_factory=list)


class _Turn(Config):
    text: _Words = ""
    thinking: _Words = ""
    tool_calls: Annotated[tuple[_Call, ...], Strict(False), _MAPPINGS] = ()
    usage: _Usage = Field(default_factory=_Usage.model_construct)
    delay_ms: Annotated[float, Field(ge=0, allow_inf_nan=False), expects("a number of milliseconds")] = 0.0
    error: _Error | None = None
    expect: _Expect = Field(default_factory=_Expect.model_construct)

    def entry(self, where: str) -> Entry:
        """Return what the provider plays; of usage, error and expectation what is written."""
        error = None
        if self.error is not None:
            named = {"type": self.error.type, "message": self.error.message}
            error = named | self.error.model_dump(exclude_unset=True)
        reply = Reply(
            text=self.text,
            thinking=self.thinking,
            tool_calls=tuple(call.model_dump() for call in self.tool_calls),
            usage=self.usage.model_dump(exclude_unset=True),
            delay_ms=self.delay_ms,
            error=error,
        )
        return Entry(where, reply, self.expect.model_dump(exclude_unset=True))


_Turns = Annotated[tuple[_Turn, ...], Strict(False), _MAPPINGS]


class _File(Config):
    turns: _Turns = ()
    agents: dict[str, _Turns] = Field(default_factory=dict)
    repeat: bool = False


def load_scenario(path: Path, project: Path | None = None) -> Scenario:
    """Read a scenario file that a config of `project` names; raise ScenarioError for an invalid one."""
    try:
        parsed = read_yaml(path, project)
    except YamlError as error:
        raise ScenarioError(f"{path}: {error}") from error
    if not isinstance(parsed, dict):
        raise ScenarioError(f"{path} must be a mapping with turns, agents or repeat, got {type(parsed).__name__}")
    if problems := check_config(_File, parsed):
        raise ScenarioError(f"{path}: {problems[0].text.replace('config key', 'key')}")
    read = read_config(_File, parsed, module=str(path))
    agents = {name: _entries(f"{path}: agents.{name}", turns) for name, turns in read.agents.items()}
    return Scenario(path, _entries(f"{path}: turns", read.turns), agents, read.repeat)


def _entries(where: str, turns: Sequence[_Turn]) -> tuple[Entry, ...]:
    return tuple(turn.entry(f"{where}[{index}]") for index, turn in enumerate(turns))


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
