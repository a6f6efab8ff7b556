"""Read which parts of the tool are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amplifier_kit.engine.delegation.settings import (
    SETTING_KEYS,
    DelegationSettings,
    read_count,
    read_flag,
    read_mapping,
    unknown_keys,
)

__all__ = ["Features", "read_config"]

#: The parts, and the keys that each of them has.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "self_delegation": ("enabled", "max_depth"),
    "session_resume": ("enabled",),
    "context_inheritance": ("enabled", "max_turns"),
    "provider_selection": ("enabled",),
}
_MAX_DEPTH: Final = 3
_MAX_TURNS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Hold what a model may ask for besides the work itself."""

    #: Copies of itself that a session may start, one under the other; 0 when it may start none.
    self_depth: int = _MAX_DEPTH
    resumes: bool = True
    #: Turns of the conversation that a child may be told; 0 when it is told nothing.
    max_turns: int = _MAX_TURNS
    selects_provider: bool = True


def read_config(config: Mapping[str, Any]) -> tuple[Features, DelegationSettings, list[str]]:
    """Return what a module's config says, and a line for each key that is not known.

    Raises ValueError that names the key whose value is wrong.
    """
    given, settings = read_mapping(config, "features"), read_mapping(config, "settings")
    ignored = unknown_keys(config, ("features", "settings"))
    ignored += unknown_keys(given, tuple(_KEYS), "features.")
    ignored += unknown_keys(settings, SETTING_KEYS, "settings.")
    parts = {name: _part(given, name) for name in _KEYS}
    for name, part in parts.items():
        ignored += unknown_keys(part, _KEYS[name], f"features.{name}.")
    own, context = parts["self_delegation"], parts["context_inheritance"]
    at = "features.self_delegation."
    self_depth = read_count(own, "max_depth", _MAX_DEPTH, at)
    max_turns = read_count(context, "max_turns", _MAX_TURNS, "features.context_inheritance.")
    features = Features(
        self_depth=self_depth if _is_on(parts, "self_delegation") else 0,
        resumes=_is_on(parts, "session_resume"),
        max_turns=max_turns if _is_on(parts, "context_inheritance") else 0,
        selects_provider=_is_on(parts, "provider_selection"),
    )
    limits = DelegationSettings.from_config(settings, exclude_tools=["tool-delegate"], at="settings.")
    return features, limits, ignored


def _part(features: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what is said of a part; true and false stand for `{enabled: ...}`."""
    value = features.get(name)
    return {"enabled": value} if isinstance(value, bool) else read_mapping(features, name, "features.")


def _is_on(parts: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    return read_flag(parts[name], "enabled", True, f"features.{name}.")
