"""Entries of hooks-approval in the published format, as the rules they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_VERDICTS: Final = {
    "auto_approve": "allow",
    "approve": "allow",
    "allow": "allow",
    "auto_deny": "deny",
    "deny": "deny",
    "block": "deny",
    "require_approval": "ask",
    "prompt": "ask",
    "ask": "ask",
}
_OWN_KEYS: Final = ("action", "tool", "tool_name", "pattern", "reason", "description")


def translated(entry: Any) -> list[Any]:
    """Return a pattern with an action as the rules it means; any other entry as it is, for the reader to judge.

    A pattern is held against command lines, or against paths for a tool that runs none. One that allows does so for
    the tool `bash` and for what runs commands, not for any tool that happens to have an input of that name.
    """
    if not isinstance(entry, Mapping) or "verdict" in entry or not _is_published(entry):
        return [entry]
    action = entry.get("action")
    rule: dict[Any, Any] = {"verdict": _VERDICTS.get(action, action) if isinstance(action, str) else action}
    reason = entry.get("reason", entry.get("description"))
    if isinstance(reason, str) and reason.strip():
        rule["reason"] = reason
    # What the format does not have stays, so that the reader complains about it.
    rule |= {key: value for key, value in entry.items() if key not in _OWN_KEYS}
    tool = entry.get("tool", entry.get("tool_name"))
    if tool is not None:
        rule["tool"] = tool
    if "pattern" not in entry:
        return [rule]
    if tool is not None and tool != "bash":
        return [{**rule, "path": path} for path in _paths(entry["pattern"], rule["verdict"])]
    rule["command"] = entry["pattern"]
    if rule["verdict"] != "allow":
        return [rule]
    return [{**rule, "tool": "bash"}, {**rule, "action": "process.exec"}]


def _paths(pattern: Any, verdict: Any) -> list[Any]:
    """Return the paths of a published pattern, whose `*` knows no folders: one that restricts means any depth."""
    is_text = isinstance(pattern, str) and bool(pattern.strip())
    if verdict == "allow" or not is_text or pattern.startswith(("/", "~", "**", "..")):
        return [pattern]
    return [pattern, f"**/{pattern}", *([f"**/{pattern}/**"] if pattern.endswith("*") else [])]


def _is_published(entry: Mapping[Any, Any]) -> bool:
    action = entry.get("action")
    return "pattern" in entry or (isinstance(action, str) and action in _VERDICTS)
