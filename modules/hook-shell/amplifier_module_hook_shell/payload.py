"""Write down for a hook what happens: the fields of the event, under the names that hooks of other agents know."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.events import SESSION_RESUME
from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.hook_events import Moment
from amplifier_module_hook_shell.matcher import ALIASES

#: Of events that carry much about the session, what a hook gets.
_ONLY: Final = {
    "SessionStart": ("session_id", "parent_id", "timestamp"),
    "SubagentStart": ("session_id", "parent_id", "timestamp"),
    "SessionEnd": ("session_id", "parent_id", "timestamp", "status"),
}


def facts_of(moment: Moment, event: str, data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of an event that hooks of a moment receive."""
    wanted = _ONLY.get(moment.name)
    facts = {key: value for key, value in data.items() if wanted is None or key in wanted}
    facts |= {"hook_event_name": moment.name, "event": event, "cwd": str(folder)}
    return facts | _named(moment, event, data)


def _named(moment: Moment, event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    get = data.get
    match moment.name:
        case "PreToolUse" | "PermissionRequest":
            return {"tool_use_id": get("tool_call_id")}
        case "PostToolUse":
            return {"tool_use_id": get("tool_call_id"), "tool_response": get("result")}
        case "PostToolUseFailure":
            return {"tool_use_id": get("tool_call_id")}
        case "Stop" | "SubagentStop":
            return {"stop_hook_active": False, "last_assistant_message": get("response_preview")}
        case "SessionStart":
            return {"source": "resume" if event == SESSION_RESUME else "startup"}
        case "SessionEnd":
            return {"reason": get("status") or "other"}
        case "PreCompact":
            return {"trigger": get("trigger") or "auto", "custom_instructions": ""}
        case "Notification":
            return {"notification_type": str(get("notification_type") or get("type") or get("level") or "")}
        case "SkillLoaded" | "SkillUnloaded":
            return {"skill_name": str(get("skill_name") or get("name") or "")}
        case _:
            return {}


def subject_of(moment: Moment, facts: Mapping[str, Any]) -> str | None:
    """Return what matchers are compared with, None when every hook of the moment is meant."""
    if moment.subject is None:
        return None
    subject = facts.get(moment.subject)
    return subject if isinstance(subject, str) else ""


def written(hook: Hook, facts: Mapping[str, Any]) -> bytes:
    """Return the facts as a hook reads them; one written for another agent gets that agent's name of the tool."""
    given = dict(facts)
    tool = given.get("tool_name")
    if hook.source.is_claude and isinstance(tool, str) and tool in ALIASES:
        given |= {"tool_name": ALIASES[tool][0], "amplifier_tool_name": tool}
    # ASCII only: a lone surrogate in a tool's input cannot be encoded as UTF-8.
    return json.dumps(given, default=str).encode("ascii") + b"\n"
