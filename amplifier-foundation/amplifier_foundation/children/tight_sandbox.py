"""The sandbox of a child: tighter than its parent's if its agent wants so, never looser, for no instance of a tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from amplifier_foundation.merge import copied, module_key

#: From loose to tight.
_MODES: Final = ("off", "auto", "required")
#: What a sandbox lets through when nothing is said of it.
_SHUT: Final[dict[str, Any]] = {"network": False, "writable": [], "readable": [], "environment": []}
#: As YAML reads a bare `off` and `on`.
_WORDS: Final = {False: "off", True: "auto"}

Plan = dict[str, Any]


def tighten_sandbox(plan: Plan, parent: Mapping[str, Any], above: Sequence[Mapping[str, Any]] = ()) -> None:
    """Let nothing of a child be looser than what its parent has; where that says nothing, it is `auto`.

    A tool that the parent has not is held to what the plans further `above` say of it.
    """
    outer, session = _mapping(parent.get("session")).get("sandbox"), plan.get("session")
    if isinstance(session, dict) and session.get("sandbox") != outer:
        session["sandbox"] = _tightened(outer, session.get("sandbox"))
    for entry in _list(plan.get("tools")):
        if isinstance(entry, dict):
            known = next(filter(None, (_counterparts(entry, one) for one in (parent, *above))), [])
            _tighten_tool(entry, outer, known)


def _counterparts(entry: Mapping[str, Any], plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the configs that a plan has for a tool: for the same instance, else for all of the same module."""
    same = [
        one
        for one in _list(plan.get("tools"))
        if isinstance(one, Mapping) and one.get("module") == entry.get("module") and module_key(one) is not None
    ]
    exact = [one for one in same if module_key(one) == module_key(entry)]
    return [_mapping(one.get("config")) for one in exact or same]


def _tighten_tool(entry: Plan, outer: Any, known: Sequence[Mapping[str, Any]]) -> None:
    own = _strictest(outer, [config.get("sandbox") for config in known])
    config = entry.get("config")
    if not isinstance(config, dict):
        if own is None:
            return
        config = entry["config"] = {}
    if own is not None and config.get("sandbox") is None:
        config["sandbox"] = copied(own)
    elif "sandbox" in config and config["sandbox"] != own:
        config["sandbox"] = _tightened(_layered(outer, own), config["sandbox"], outer)
    for name, server in _mapping(config.get("servers")).items():  # programs that a tool starts, each with its own
        if isinstance(server, dict):
            written = [_mapping(_mapping(one.get("servers")).get(name)).get("sandbox") for one in known]
            floor = _strictest(outer, written)
            if server.get("sandbox") is None and floor is not None:
                server["sandbox"] = copied(floor)
            elif server.get("sandbox") is not None and server["sandbox"] != floor:
                above = _layered(outer, own if floor is None else floor)
                server["sandbox"] = _tightened(above, server["sandbox"], outer)


def _strictest(outer: Any, written: Sequence[Any]) -> Any:
    """Return the tightest of what configs say, as it is written when only one says something; None when none does."""
    said = [one for one in written if one is not None]
    if len(said) < 2:
        return said[0] if said else None
    configs = [{**_SHUT, **_layered(outer, one)} for one in said]
    return reduce(lambda one, other: _tightened(one, other, outer), configs)


def _layered(outer: Any, inner: Any) -> Plan:
    return {**_sandbox(outer), **_sandbox(inner)}


def _tightened(above: Any, wish: Any, outer: Any = None) -> Plan:
    """Return the tighter of two settings, without what is shut, unless `outer`, which they are laid over, opens it."""
    loose, wished = _sandbox(above), _sandbox(wish)
    tight = {**loose, **wished}
    tight["mode"] = _tighter(str(loose.get("mode", "auto")), str(wished.get("mode", "auto")))
    tight["network"] = bool(loose.get("network")) and bool(wished.get("network", True))
    for name in [key for key in _SHUT if key != "network"]:
        allowed = _list(loose.get(name))
        tight[name] = [item for item in _list(wished.get(name, allowed)) if item in allowed]
    opened = _sandbox(outer)
    return {key: value for key, value in tight.items() if value not in ([], False) or opened.get(key)}


def _tighter(above: str, wish: str) -> str:
    """Return the tighter mode; a wish that nobody understands now may turn out to be any, and is the tightest."""
    if wish not in _MODES:
        return _MODES[-1]
    return max(above, wish, key=_MODES.index) if above in _MODES else wish if wish == _MODES[-1] else above


def _sandbox(value: Any) -> Plan:
    """Return settings as a mapping, without what is left empty."""
    if value is None:
        return {}
    given = value if isinstance(value, Mapping) else {"mode": value}
    said = {key: item for key, item in given.items() if item is not None}
    if isinstance(said.get("mode"), bool):
        said["mode"] = _WORDS[said["mode"]]
    return said


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
