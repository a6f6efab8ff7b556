"""Mask secrets in everything that is written down, and nothing that runs.

Every record passes the redactor before any sink sees it. Events themselves are left alone: tools and providers get
what they were meant to get.
"""

from __future__ import annotations

import os
from typing import Any

from amplifier_kit.redaction import DEFAULT_RULES, Redactor, live_values_from_env, live_values_from_plan

__all__ = ["mount"]

__amplifier_module_type__ = "hook"

_KEYS = ("rules", "allowlist", "live_values", "priority", "skip_events")


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Add the redactor to the session's log, and offer it to other writers as capability `redaction.scrub`.

    Raises ValueError for unknown rules or config keys, so that a typing mistake cannot switch redaction off.
    """
    config = config or {}
    unknown = sorted(set(config) - set(_KEYS))
    if unknown:
        raise ValueError(f"hooks-redaction: unknown config keys {unknown}; there are {list(_KEYS)}")
    redactor = Redactor(
        live_values=[*live_values_from_env(os.environ), *config.get("live_values", ())],
        allowlist=config.get("allowlist", ()),
        rules=config.get("rules", DEFAULT_RULES),
    )
    coordinator.register_capability("redaction._hook_state", {"redactor": redactor, "config": config})
    coordinator.register_capability("redaction.scrub", lambda value: redactor.scrub(value).value)
    coordinator.add_log_processor(redactor)


async def on_session_ready(coordinator: Any) -> None:
    """Learn the secrets that stand in the plan: by now every module has its config."""
    state = coordinator.get_capability("redaction._hook_state")
    state["redactor"].add_live_values(live_values_from_plan(coordinator.config))
