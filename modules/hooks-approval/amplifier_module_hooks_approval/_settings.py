"""Read the config. What makes no sense is reported and taken in the strictest way: nothing here may open a door."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

DefaultAction = Literal["allow", "deny"]

#: What runs unasked when the config names no rules.
DEFAULT_RULES: Final = (
    {"pattern": "ls*", "action": "auto_approve"},
    {"pattern": "pwd", "action": "auto_approve"},
    {"pattern": "echo*", "action": "auto_approve"},
)

_KNOWN: Final = ("rules", "default_action", "default_timeout", "audit", "policy_driven_only", "tools", "working_dir")
_ALLOW: Final = ("allow", "approve", "auto_approve", "continue")
_DENY: Final = ("deny", "block", "auto_deny")


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    #: The entries as they are written.
    rules: Any = DEFAULT_RULES
    #: What a question comes to that the provider does not answer in time.
    default_action: DefaultAction = "deny"
    #: Seconds that a provider has to answer, None for as long as it takes.
    default_timeout: float | None = None
    #: Whether names and attributes of tools are no reason to ask.
    policy_driven_only: bool = False
    #: Whether a tool needs approval, by name.
    tools: Mapping[str, bool] = field(default_factory=dict)
    #: Whether nobody knows which tools were meant: then all need approval.
    asks_for_all: bool = False
    working_dir: str | None = None
    problems: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, config: Any) -> Settings:
        """Read a config; never raises: without this module, nothing would be asked."""
        reading = _Reading()
        given = reading.mapping("config", config)
        unknown = sorted(str(key) for key in given if key not in _KNOWN)
        if unknown:
            reading.problems.append(f"unknown config keys {unknown} are ignored")
        rules = given.get("rules")
        tools, asks_for_all = reading.tools(given.get("tools"))
        return cls(
            rules=DEFAULT_RULES if rules is None else rules,
            default_action=reading.default_action(given.get("default_action")),
            default_timeout=reading.seconds(given.get("default_timeout")),
            policy_driven_only=reading.flag("policy_driven_only", given.get("policy_driven_only"), default=False),
            tools=tools,
            asks_for_all=asks_for_all,
            working_dir=reading.path(given.get("working_dir")),
            problems=tuple(reading.problems),
        )


class _Reading:
    """Read values one by one, and keep what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def _wrong(self, key: str, expected: str, value: Any, instead: str) -> None:
        self.problems.append(f"config key {key!r} must be {expected}, got {value!r:.200}: {instead}")

    def mapping(self, key: str, value: Any) -> Mapping[str, Any]:
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return value
        self._wrong(key, "a mapping", value, "it is ignored, and everything that needs approval is asked for")
        return {"rules": []}

    def default_action(self, value: Any) -> DefaultAction:
        word = value.strip().lower() if isinstance(value, str) else value
        if isinstance(word, str) and word in _ALLOW:
            return "allow"
        if value is not None and word not in _DENY:
            self._wrong("default_action", "allow or deny", value, "it is deny")
        return "deny"

    def seconds(self, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            self._wrong("default_timeout", "a positive number of seconds", value, "an answer is waited for")
            return None
        return float(value)

    def flag(self, key: str, value: Any, *, default: bool) -> bool:
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self._wrong(key, "true or false", value, f"it is {str(default).lower()}")
        return default

    def path(self, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        self._wrong("working_dir", "a path", value, "it is the session's")
        return None

    def tools(self, value: Any) -> tuple[dict[str, bool], bool]:
        """Return which tools need approval, and whether all do because nobody can tell which were meant."""
        if value is None:
            return {}, False
        if not isinstance(value, Mapping):
            self._wrong("tools", "a mapping", value, "every tool needs approval")
            return {}, True
        needs: dict[str, bool] = {}
        for name, entry in value.items():
            wanted = entry.get("require_approval") if isinstance(entry, Mapping) else entry
            if wanted is None:
                continue
            needs[str(name)] = self.flag(f"tools.{name}.require_approval", wanted, default=True)
        return needs, False
