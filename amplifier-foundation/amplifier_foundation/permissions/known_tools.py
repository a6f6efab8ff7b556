"""Published tools that do not say what they do, and what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PREFIX: Final = "tool."

#: The action of each published tool, by its name. A tool that is not here is judged as `tool.<name>`, which no default
#: allows.
KNOWN_TOOLS: Final[Mapping[str, str]] = {
    "read_file": "filesystem.read",
    "grep": "filesystem.read",
    "glob": "filesystem.read",
    "write_file": "filesystem.write",
    "edit_file": "filesystem.write",
    "apply_patch": "filesystem.write",
    "bash": "process.exec",
    "web_fetch": "network.fetch",
    "web_search": "network.fetch",
    "task": "session.spawn",
    "delegate": "session.spawn",
    "todo": "tool.todo",
    "load_skill": "tool.load_skill",
}


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
