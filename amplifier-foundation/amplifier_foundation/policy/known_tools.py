"""What a tool does that does not say so itself, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.guard.policy.facts import KNOWN_TOOLS

__all__ = ["KNOWN_TOOLS", "known_action", "named_details"]

_PREFIX: Final = "tool."


def known_action(action: str, details: Mapping[str, Any]) -> str:
    """Return what a tool without an action of its own does; the action as it is for everything else.

    The name in the details must be the one in the action: a tool does not become another one by a detail.
    """
    name = action.removeprefix(_PREFIX) if action.startswith(_PREFIX) else ""
    return KNOWN_TOOLS.get(name, action) if details.get("tool_name", name) == name else action


def named_details(action: str, details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details with the tool's name in them, when only the action has it."""
    if action.startswith(_PREFIX) and "tool_name" not in details:
        return {**details, "tool_name": action.removeprefix(_PREFIX)}
    return details
