"""Let the logging modules of a plan write more events, by the name that published apps import."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from amplifier_foundation.merge import copied, join_lists

__all__ = ["inject_additional_events"]

_LOGGING_MODULES: Final = ("hooks-logging", "hook-context-intelligence", "hooks-context-intelligence")


def inject_additional_events(
    mount_plan: dict[str, Any], events: Sequence[str], target_modules: Collection[str] | None = None
) -> dict[str, Any]:
    """Add event names to `additional_events` of the plan's logging hooks, in place, and return the plan.

    `target_modules` are the modules meant; by default those of the log and of context intelligence.
    """
    targets = _LOGGING_MODULES if target_modules is None else target_modules
    for entry in mount_plan.get("hooks") or []:
        if isinstance(entry, dict) and entry.get("module") in targets:
            config = entry.get("config")
            config = copied(config) if isinstance(config, Mapping) else {}
            listed = config.get("additional_events")
            config["additional_events"] = join_lists(listed if isinstance(listed, list) else [], list(events))
            entry["config"] = config
    return mount_plan
