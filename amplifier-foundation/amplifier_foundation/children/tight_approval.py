"""The config of hooks-approval for a child: whatever an agent writes, it asks for at least what its parent asks for.

| key | a child |
|---|---|
| `rules` | has all of its parent's that deny or ask, and its own that do; allows only by those that both have |
| `tools` | asks for a tool that its parent asks for; stops asking for one only where its parent would not ask either |
| `policy_driven_only` | may say so where its parent does |
| `default_action` | has its parent's, or `deny` |
| `default_timeout` | takes silence for a yes no sooner than its parent |
| `working_dir` | has its parent's: rules mean the same places |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from amplifier_foundation.merge import copied

#: What a default action may be called that lets nothing pass.
_DENY: Final = (None, "deny", "block", "auto_deny")

Config = dict[str, Any]


def tightened_approval(above: Any, wish: Any) -> Config:
    """Return the config that a child wishes for, with nothing in it looser than in the one above it."""
    floor = _config(above)
    tight = dict(wish) if isinstance(wish, Mapping) else copied(floor)
    _put(tight, "rules", _rules(floor.get("rules"), tight.get("rules")))
    _put(tight, "tools", _tools(floor, tight.get("tools")))
    _put(tight, "working_dir", floor.get("working_dir"))
    if tight.get("policy_driven_only") is True and floor.get("policy_driven_only") is not True:
        tight["policy_driven_only"] = False
    if tight.get("default_action") != floor.get("default_action"):
        tight["default_action"] = "deny"  # there are two, and the other one is no choice of a child
    if tight.get("default_action") not in _DENY:
        _put(tight, "default_timeout", _longer(floor.get("default_timeout"), tight.get("default_timeout")))
    return tight


def _config(value: Any) -> Mapping[str, Any]:
    """Return a config as hooks-approval takes it: without rules that allow when nobody can read it."""
    if isinstance(value, Mapping):
        return value
    return {} if value is None else {"rules": []}


def _put(config: Config, key: str, value: Any) -> None:
    """Set a key; None is left out."""
    if value is not None:
        config[key] = copied(value)
    else:
        config.pop(key, None)


def _rules(above: Any, own: Any) -> Any:
    if own is None or own == above:
        return above
    floor, wished = _entries(above), _entries(own)
    added = [_asking(entry) if _is_open(entry) else entry for entry in wished if entry not in floor]
    return [
        *(entry for entry in floor if entry in wished or _is_open(entry) or _restricts(entry)),
        *(entry for entry in added if _restricts(entry)),
    ]


def _entries(rules: Any) -> list[Any]:
    """Return the entries of rules; of what is no list, one that asks for everything, as that does."""
    if rules is None:
        return []
    return rules if isinstance(rules, list) else ["rules that are no list"]


def _restricts(entry: Any) -> bool:
    """Tell whether an entry allows nothing."""
    from amplifier_foundation.policy.published import translated
    from amplifier_kit.guard.policy import parse_rules

    rules, _ = parse_rules(translated(entry), lambda index, key: "")
    return all(rule.verdict != "allow" for rule in rules)


def _is_open(entry: Any) -> bool:
    """Tell whether a variable decides what the verdict of an entry is."""
    return isinstance(entry, Mapping) and "${" in str(entry.get(_verdict_at(entry)))


def _asking(entry: Mapping[str, Any]) -> Config:
    return {**entry, _verdict_at(entry): "ask"}


def _verdict_at(entry: Mapping[str, Any]) -> str:
    return "verdict" if "verdict" in entry else "action"


def _tools(floor: Mapping[str, Any], own: Any) -> Any:
    above = floor.get("tools")
    # hooks-approval asks for every tool when it cannot read this key, so an invalid value is the strictest one.
    if own is None or own == above or not _is_readable(above):
        return above
    if not _is_readable(own):
        return own
    asked, wished = _needs(above or {}), _needs(own)
    # Where a parent goes by rules alone, what it does not name is not asked for.
    unnamed = False if floor.get("policy_driven_only") is True else None
    kept: dict[str, bool] = {}
    for name in dict.fromkeys([*asked, *wished]):
        is_asked, is_wished = asked.get(name, unnamed), wished.get(name)
        if is_asked is True or is_wished is True:
            kept[name] = True
        elif is_asked is False and is_wished is False:
            kept[name] = False
    return own if kept == wished else {name: {"require_approval": needs} for name, needs in kept.items()}


def _is_readable(tools: Any) -> bool:
    return tools is None or (isinstance(tools, Mapping) and all(isinstance(name, str) for name in tools))


def _needs(tools: Mapping[str, Any]) -> dict[str, bool]:
    """Return which tools need approval, as hooks-approval reads it: anything but a clear no is a yes."""
    needs: dict[str, bool] = {}
    for name, entry in tools.items():
        wanted = entry.get("require_approval") if isinstance(entry, Mapping) else entry
        if wanted is not None:
            needs[name] = wanted is not False
    return needs


def _longer(above: Any, own: Any) -> Any:
    """Return the longer timeout; None means no timeout."""
    if _seconds(above) == math.inf or _seconds(own) == math.inf:
        return None
    return own if _seconds(own) >= _seconds(above) else above


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        return math.inf
    return float(value)
