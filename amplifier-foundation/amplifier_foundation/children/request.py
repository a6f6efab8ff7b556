"""What a caller wants of a child session, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from amplifier_foundation.children.errors import SpawnError

#: The name under which a session starts a copy of itself.
SELF: Final = "self"


@dataclass(frozen=True)
class SpawnRequest:
    """One call of `session.spawn`."""

    agent: str
    instruction: str
    sub_session_id: str | None = None
    tool_inheritance: Mapping[str, Any] = field(default_factory=dict)
    hook_inheritance: Mapping[str, Any] = field(default_factory=dict)
    orchestrator_config: Mapping[str, Any] = field(default_factory=dict)
    parent_messages: Sequence[Mapping[str, Any]] = ()
    provider_preferences: Sequence[Mapping[str, Any]] = ()
    model_role: str | None = None
    self_delegation_depth: int = 0
    session_metadata: Mapping[str, Any] = field(default_factory=dict)
    use_subprocess: bool = False
    tool_call_id: str | None = None
    parallel_group_id: str | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, agent_name: Any, instruction: Any, **more: Any) -> SpawnRequest:
        """Check what a caller gave, None counting as not given; raises SpawnError that names the argument."""
        if not isinstance(agent_name, str) or not agent_name.strip():
            raise SpawnError(f"agent_name must be the name of an agent, got {agent_name!r}")
        if not isinstance(instruction, str) or not instruction.strip():
            raise SpawnError(f"instruction must be a text that says what to do, got {instruction!r}")
        given = {name: value for name, value in more.items() if value is not None}
        for name, value in given.items():
            kind = _KINDS[name]
            if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _types(kind)):
                raise SpawnError(f"{name} must be {_WORDS[_types(kind)[0]]}, got {value!r}")
        for message in given.get("parent_messages", ()):
            if not isinstance(message, Mapping):
                raise SpawnError(f"parent_messages: each must be a message with role and content, got {message!r:.100}")
        preferences = [_preference(entry) for entry in given.get("provider_preferences", ())]
        if preferences:
            given["provider_preferences"] = preferences
        return cls(agent_name.strip(), instruction, **given)


def _preference(entry: Any) -> dict[str, Any]:
    """Return a preference as a mapping: callers may have objects with `provider`, `model` and `config`."""
    given = (
        dict(entry)
        if isinstance(entry, Mapping)
        else {key: getattr(entry, key, None) for key in ("provider", "model", "config")}
    )
    if not isinstance(given.get("provider"), str) or not given["provider"]:
        raise SpawnError(f"provider_preferences: each needs a 'provider', got {entry!r}")
    for key, kind in (("model", str), ("config", Mapping)):
        if given.get(key) is not None and not isinstance(given[key], kind):
            raise SpawnError(f"provider_preferences: '{key}' cannot be {given[key]!r}")
    return {key: value for key, value in given.items() if value is not None}


def _types(kind: Any) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


_KINDS: Final[dict[str, Any]] = {
    "sub_session_id": str,
    "tool_inheritance": Mapping,
    "hook_inheritance": Mapping,
    "orchestrator_config": Mapping,
    "parent_messages": (list, tuple),
    "provider_preferences": (list, tuple),
    "model_role": str,
    "self_delegation_depth": int,
    "session_metadata": Mapping,
    "use_subprocess": bool,
    "tool_call_id": str,
    "parallel_group_id": str,
    "timeout": (float, int),
}
_WORDS: Final[dict[type, str]] = {
    str: "a text",
    Mapping: "a mapping",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
    float: "a number of seconds",
}
