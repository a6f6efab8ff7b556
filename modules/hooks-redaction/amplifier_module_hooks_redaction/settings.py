"""Read the config, and in doubt mask too much rather than too little."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from amplifier_kit.guard.redaction import DEFAULT_RULES

logger = logging.getLogger("amplifier_module_hooks_redaction")


@dataclass(frozen=True)
class Settings:
    """What a bundle may set."""

    #: Which kinds of things are masked; live secrets always are.
    rules: tuple[str, ...] = DEFAULT_RULES
    #: Fields that are masked for live secrets only.
    allowlist: tuple[str, ...] = ()
    #: Secrets besides those of the environment and the plan.
    live_values: tuple[str, ...] = ()
    #: Of the published module, where redaction changed events; it changes none here, so these have no effect.
    priority: int = 10
    skip_events: tuple[str, ...] = ("tool:pre", "tool:post")

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; what makes no sense in it is reported and read as its default."""
        given = dict(config or {})
        known = [field.name for field in fields(cls)]
        if unknown := sorted(str(key) for key in given if key not in known):
            logger.warning("hooks-redaction: unknown config keys %s are ignored; there are %s", unknown, known)
        return cls(
            rules=_rules(_texts(given, "rules", cls.rules)),
            allowlist=_texts(given, "allowlist", cls.allowlist),
            live_values=_texts(given, "live_values", cls.live_values),
        )


def _rules(given: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [rule for rule in given if rule not in DEFAULT_RULES]
    if unknown:
        every = list(DEFAULT_RULES)
        logger.warning("hooks-redaction: unknown rules %s; there are %s, and all of them are used", unknown, every)
        return DEFAULT_RULES
    return given


def _texts(config: Mapping[str, Any], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    given = config.get(key)
    if given is None:
        return default
    if isinstance(given, str):
        return (given,)
    if isinstance(given, (list, tuple)) and all(isinstance(item, str) for item in given):
        return tuple(given)
    # Not the value itself: it may be a secret.
    logger.warning("hooks-redaction: config key %r must be a list of strings, got %s", key, type(given).__name__)
    return default
