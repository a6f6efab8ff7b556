"""Read the rules of the config, in their own format or in the published one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from amplifier_kit.guard.policy.rules import Rule

#: The published names of verdicts; unknown ones are left for `parse_rules` to report.
VERDICTS: Final = {
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
_WHERE: Final = "hooks-approval: rules"


def read_rules(entries: Any) -> tuple[list[Rule], list[str]]:
    """Return the rules and the problems with them; never raises because of an entry.

    An invalid entry never allows anything; one that would have denied or asked then asks for more than it said.
    """
    from amplifier_kit.guard.policy.rule_parser import parse_rules

    if not isinstance(entries, (list, tuple)):
        rules, problems = parse_rules(entries, lambda index, key: _WHERE)
        return rules, [f"{problem.where}: {problem.message}" for problem in problems]
    data = [(index, rule) for index, entry in enumerate(entries) for rule in translate(entry)]

    def where(index: int, key: str | None) -> str:
        number = data[index][0] if index < len(data) else index
        return f"{_WHERE}[{number}]" if key is None else f"{_WHERE}[{number}].{key}"

    rules, problems = parse_rules([rule for _, rule in data], where)
    return rules, list(dict.fromkeys(f"{problem.where}: {problem.message}" for problem in problems))


def translate(entry: Any) -> list[Any]:
    """Return an entry of the published format, a pattern with an action, as rules; any other unchanged.

    A pattern is matched against command lines. One that allows does so for the tool `bash` and for the action
    `process.exec`, not for any tool that happens to have an input called `command`.
    """
    if not isinstance(entry, Mapping) or "verdict" in entry or not _is_published(entry):
        return [entry]
    action = entry.get("action")
    verdict = VERDICTS.get(action, action) if isinstance(action, str) else action
    rule: dict[str, Any] = {"verdict": verdict}
    reason = entry.get("reason", entry.get("description"))
    if isinstance(reason, str) and reason.strip():
        rule["reason"] = reason
    known = ("action", "tool", "tool_name", "pattern", "reason", "description")
    rule |= {key: value for key, value in entry.items() if key not in known}
    tool = entry.get("tool", entry.get("tool_name"))
    if tool is not None:
        rule["tool"] = tool
    if "pattern" not in entry:
        return [rule]
    if tool is not None and tool != "bash":
        return [{**rule, "path": path} for path in _paths(entry["pattern"], rule["verdict"])]
    rule["command"] = entry["pattern"]
    return [{**rule, "tool": "bash"}, {**rule, "action": "process.exec"}] if verdict == "allow" else [rule]


def _paths(pattern: Any, verdict: Any) -> list[Any]:
    """Return path patterns for a published one, in which `*` also matches `/`: a restriction applies at any depth."""
    is_text = isinstance(pattern, str) and bool(pattern.strip())
    if verdict == "allow" or not is_text or pattern.startswith(("/", "~", "**", "..")):
        return [pattern]
    return [pattern, f"**/{pattern}", *([f"**/{pattern}/**"] if pattern.endswith("*") else [])]


def _is_published(entry: Mapping[Any, Any]) -> bool:
    action = entry.get("action")
    return "pattern" in entry or (isinstance(action, str) and action in VERDICTS)
