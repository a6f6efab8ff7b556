"""What an agent cannot loosen: the guard hooks and the sandbox of its parent hold for every child.

| hook | what an agent may change |
|---|---|
| hooks-approval | whatever makes it ask for more |
| hook-shell | nothing: the agent's own entry is mounted beside it |
| hooks-logging | whatever makes it record more |
| hooks-redaction | whatever makes it mask more |
| hooks-mode | where further modes are; no more tools run in every mode |

| key of hooks-approval | in a child |
|---|---|
| `rules` | all of its parent's that deny or ask, and its own that do; only what both allow is allowed |
| `tools` | asks for a tool that its parent asks for; stops asking only where its parent would not ask either |
| `policy_driven_only` | may be set where its parent sets it |
| `default_action` | its parent's, or `deny` |
| `default_timeout` | silence counts as approval no sooner than in its parent |
| `working_dir` | its parent's: rules mean the same places |

The sandbox of a session, of a tool and of each server that a tool starts may become tighter, never looser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any, Final

from amplifier_foundation.merge import OVERLAY, copied, join_lists, merge_modules, module_key

_SHELL: Final = "hook-shell"
#: What hooks-logging leaves out by default.
_EXCLUDED: Final = ["llm:stream_*delta", "llm:stream_block_*", "content_block:start"]
#: What hooks-mode lets run in every mode by default.
_INFRASTRUCTURE: Final = ["mode", "todo"]
#: The default actions of hooks-approval that deny.
_DENY: Final = (None, "deny", "block", "auto_deny")
#: The modes of a sandbox, from loose to tight.
_MODES: Final = ("off", "auto", "required")
#: What a sandbox allows by default.
_SHUT: Final[dict[str, Any]] = {"network": False, "writable": [], "readable": [], "environment": []}
#: As YAML reads a bare `off` and `on`.
_WORDS: Final = {False: "off", True: "auto"}

Config = dict[str, Any]
Plan = dict[str, Any]


def restrict(plan: Plan, parent: Mapping[str, Any], above: Sequence[Mapping[str, Any]] = ()) -> None:
    """Change a child's plan so that none of its parent's restrictions is looser or missing in it.

    A tool that the parent lacks is held to what the plans further `above` say of it.
    """
    _keep_guards(plan, parent.get("hooks"))
    _tighten_sandboxes(plan, parent, above)


# Guard hooks


def rename_rivals(hooks: Sequence[Any], parent: Any) -> list[Any]:
    """Return the hooks of an agent; an entry that would replace a guard of its parent gets another id."""
    guards = {module_key(entry): entry for entry in _guards(parent)}
    taken = {module_key(entry) for entry in (*_list(parent), *hooks)}
    renamed: list[Any] = []
    for entry in merge_modules([], list(hooks), OVERLAY):
        key = str(module_key(entry))
        guard = guards.get(key)
        module = entry.get("module") or (guard or {}).get("module")
        if guard is None or (module == guard["module"] and module != _SHELL):
            renamed.append(entry)
        elif module != guard["module"] or not _is_present(entry.get("config"), parent):
            free = next(name for number in count(2) if (name := f"{key}-{number}") not in taken)
            taken.add(free)
            renamed.append({**entry, "module": module, "id": free})
    return renamed


def _keep_guards(plan: Plan, parent: Any) -> None:
    """Put every guard of the parent's hooks into a plan, and let no entry for the same module be looser."""
    guards = _guards(parent)
    hooks = [entry for entry in _list(plan.get("hooks")) if isinstance(entry, dict)]
    hooks += [copied(guard) for guard in guards if module_key(guard) not in map(module_key, hooks)]
    if hooks or "hooks" in plan:
        plan["hooks"] = [_tightened_hook(entry, guards) for entry in hooks]


def _tightened_hook(entry: Config, guards: Sequence[Mapping[str, Any]]) -> Config:
    same = [guard for guard in guards if module_key(guard) == module_key(entry)]
    guard = same[-1] if same else None
    if guard is not None and guard["module"] == _SHELL:
        return copied(guard)  # type: ignore[no-any-return]  # a copy of a mapping
    module = entry.get("module") if guard is None else guard["module"]
    tighten = _TIGHTEN.get(str(module))
    above = same or [one for one in guards if one["module"] == module]
    if tighten is None or not above or above == [entry]:
        return entry
    # Twice: a value taken from one of them, because the entry has none, must suit the others too.
    config = reduce(lambda wish, one: tighten(one.get("config"), wish), above * 2, entry.get("config"))
    kept = {**entry, "module": module, "config": config}
    if guard is not None:
        kept.pop("source", None)  # an agent must not replace the code of a guard either
        kept |= {key: value for key, value in guard.items() if key == "source"}
    return kept


def _guards(hooks: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in _list(hooks) if isinstance(entry, Mapping) and entry.get("module") in GUARDS]


def _is_present(config: Any, hooks: Any) -> bool:
    """Return whether a config of hook-shell is empty or the same as that of a hook that is there."""
    return not config or config in [entry.get("config") for entry in _guards(hooks) if entry["module"] == _SHELL]


# Logging, redaction and modes


def _tighten_logging(above: Any, wish: Any) -> Config:
    """Return a config that records at least as much as the one above it."""
    floor, tight = _mapping(above), dict(_mapping(wish))
    allowed = _texts(floor.get("exclude_events"), _EXCLUDED)
    wished = _texts(tight.get("exclude_events"), allowed)
    if tight.get("exclude_events") != floor.get("exclude_events"):
        tight["exclude_events"] = list(wished if set(wished) <= set(allowed) else allowed)
    if listed := floor.get("additional_events"):
        tight["additional_events"] = join_lists(_texts(listed, []), _texts(tight.get("additional_events"), []))
    if floor.get("auto_discover") is not False:
        tight.pop("auto_discover", None)
    if floor.get("strip_raw") is not True:
        tight.pop("strip_raw", None)
    if floor.get("verify") is True:
        tight["verify"] = True
    for name in ("session_log_template", "priority"):
        tight.pop(name, None)
        if floor.get(name) is not None:
            tight[name] = floor[name]
    return tight


def _tighten_redaction(above: Any, wish: Any) -> Config:
    """Return a config that masks at least as much as the one above it."""
    floor, tight = _mapping(above), dict(_mapping(wish))
    if tight.get("rules") != floor.get("rules"):
        masked, wished = _texts(floor.get("rules"), None), _texts(tight.get("rules"), None)
        tight.pop("rules", None)  # without the key, all rules hold
        if masked is not None and wished is not None:
            tight["rules"] = join_lists(masked, wished)
    if tight.get("allowlist"):
        passed = _texts(floor.get("allowlist"), [])
        tight["allowlist"] = [name for name in _texts(tight["allowlist"], []) if name in passed]
    if listed := floor.get("live_values"):
        tight["live_values"] = join_lists(_texts(listed, []), _texts(tight.get("live_values"), []))
    return tight


def _tighten_modes(above: Any, wish: Any) -> Config:
    """Return a config in which the modes of the one above let no further tool run."""
    floor, tight = _mapping(above), dict(_mapping(wish))
    allowed = _texts(floor.get("infrastructure_tools"), _INFRASTRUCTURE)
    wished = _texts(tight.get("infrastructure_tools"), allowed)
    if tight.get("infrastructure_tools") != floor.get("infrastructure_tools"):
        tight["infrastructure_tools"] = [name for name in wished if name in allowed]
    return tight


def _texts(value: Any, default: Any) -> Any:
    """Return a list of texts, also for a single one; the default for anything else."""
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and all(isinstance(text, str) for text in value) else default


# Approval


def tighten_approval(above: Any, wish: Any) -> Config:
    """Return the config of hooks-approval that a child wishes, with nothing in it looser than in the one above it."""
    # hooks-approval has no rules that allow when its config cannot be read.
    floor = above if isinstance(above, Mapping) else {} if above is None else {"rules": []}
    tight = dict(wish) if isinstance(wish, Mapping) else copied(floor)
    _put(tight, "rules", _tighten_rules(floor.get("rules"), tight.get("rules")))
    _put(tight, "tools", _tighten_tools(floor, tight.get("tools")))
    _put(tight, "working_dir", floor.get("working_dir"))
    if tight.get("policy_driven_only") is True and floor.get("policy_driven_only") is not True:
        tight["policy_driven_only"] = False
    if tight.get("default_action") != floor.get("default_action"):
        tight["default_action"] = "deny"  # there are only two, and a child may not choose the other one
    if tight.get("default_action") not in _DENY:
        _put(tight, "default_timeout", _longer(floor.get("default_timeout"), tight.get("default_timeout")))
    return tight


def _put(config: Config, key: str, value: Any) -> None:
    """Set a key; None is left out."""
    if value is not None:
        config[key] = copied(value)
    else:
        config.pop(key, None)


def _tighten_rules(above: Any, own: Any) -> Any:
    if own is None or own == above:
        return above
    floor, wished = _rule_entries(above), _rule_entries(own)
    added = [_asking(entry) if _is_open(entry) else entry for entry in wished if entry not in floor]
    return [
        *(entry for entry in floor if entry in wished or _is_open(entry) or _restricts(entry)),
        *(entry for entry in added if _restricts(entry)),
    ]


def _rule_entries(rules: Any) -> list[Any]:
    """Return the entries of rules; for an invalid value, one that asks for everything, as hooks-approval does."""
    if rules is None:
        return []
    return rules if isinstance(rules, list) else ["rules that are no list"]


def _restricts(entry: Any) -> bool:
    """Return whether an entry allows nothing."""
    from amplifier_foundation.policy.policy_file import translate_published
    from amplifier_kit.guard.policy.rule_parser import parse_rules

    rules, _ = parse_rules(translate_published(entry), lambda index, key: "")
    return all(rule.verdict != "allow" for rule in rules)


def _is_open(entry: Any) -> bool:
    """Return whether a variable decides the verdict of an entry."""
    return isinstance(entry, Mapping) and "${" in str(entry.get(_verdict_key(entry)))


def _asking(entry: Mapping[str, Any]) -> Config:
    return {**entry, _verdict_key(entry): "ask"}


def _verdict_key(entry: Mapping[str, Any]) -> str:
    return "verdict" if "verdict" in entry else "action"


def _tighten_tools(floor: Mapping[str, Any], own: Any) -> Any:
    above = floor.get("tools")
    # hooks-approval asks for every tool when it cannot read this key, so an invalid value is the strictest one.
    if own is None or own == above or not _is_readable(above):
        return above
    if not _is_readable(own):
        return own
    asked, wished = _needs_approval(above or {}), _needs_approval(own)
    # Where a parent goes by rules alone, it does not ask for tools that it does not name.
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


def _needs_approval(tools: Mapping[str, Any]) -> dict[str, bool]:
    """Return which tools need approval, as hooks-approval reads it: anything but `false` means yes."""
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


_TIGHTEN: Final[dict[str, Callable[[Any, Any], Config]]] = {
    "hooks-approval": tighten_approval,
    "hooks-redaction": _tighten_redaction,
    "hooks-logging": _tighten_logging,
    "hooks-mode": _tighten_modes,
}
#: Hooks that every child of a session with them has.
GUARDS: Final = (*_TIGHTEN, _SHELL)


# Sandbox


def _tighten_sandboxes(plan: Plan, parent: Mapping[str, Any], above: Sequence[Mapping[str, Any]]) -> None:
    """Let no sandbox of a child be looser than its parent's, which is `auto` by default."""
    outer, session = _mapping(parent.get("session")).get("sandbox"), plan.get("session")
    if isinstance(session, dict) and session.get("sandbox") != outer:
        session["sandbox"] = _tighter_sandbox(outer, session.get("sandbox"))
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
        config["sandbox"] = _tighter_sandbox(_layered(outer, own), config["sandbox"], outer)
    for name, server in _mapping(config.get("servers")).items():
        if isinstance(server, dict):
            written = [_mapping(_mapping(one.get("servers")).get(name)).get("sandbox") for one in known]
            floor = _strictest(outer, written)
            if server.get("sandbox") is None and floor is not None:
                server["sandbox"] = copied(floor)
            elif server.get("sandbox") is not None and server["sandbox"] != floor:
                above = _layered(outer, own if floor is None else floor)
                server["sandbox"] = _tighter_sandbox(above, server["sandbox"], outer)


def _strictest(outer: Any, written: Sequence[Any]) -> Any:
    """Return the tightest of several settings, unchanged when there is only one; None without any."""
    given = [one for one in written if one is not None]
    if len(given) < 2:
        return given[0] if given else None
    configs = [{**_SHUT, **_layered(outer, one)} for one in given]
    return reduce(lambda one, other: _tighter_sandbox(one, other, outer), configs)


def _layered(outer: Any, inner: Any) -> Plan:
    return {**_sandbox(outer), **_sandbox(inner)}


def _tighter_sandbox(above: Any, wish: Any, outer: Any = None) -> Plan:
    """Return the tighter of two settings, without what is shut, unless `outer`, which they are laid over, opens it."""
    loose, wished = _sandbox(above), _sandbox(wish)
    tight = {**loose, **wished}
    tight["mode"] = _tighter_mode(str(loose.get("mode", "auto")), str(wished.get("mode", "auto")))
    tight["network"] = bool(loose.get("network")) and bool(wished.get("network", True))
    for name in [key for key in _SHUT if key != "network"]:
        allowed = _list(loose.get(name))
        tight[name] = [item for item in _list(wished.get(name, allowed)) if item in allowed]
    opened = _sandbox(outer)
    return {key: value for key, value in tight.items() if value not in ([], False) or opened.get(key)}


def _tighter_mode(above: str, wish: str) -> str:
    """Return the tighter mode; an unknown wish, such as a variable, may turn out to be any and is the tightest."""
    if wish not in _MODES:
        return _MODES[-1]
    return max(above, wish, key=_MODES.index) if above in _MODES else wish if wish == _MODES[-1] else above


def _sandbox(value: Any) -> Plan:
    """Return settings as a mapping, without empty ones."""
    if value is None:
        return {}
    given = value if isinstance(value, Mapping) else {"mode": value}
    known = {key: item for key, item in given.items() if item is not None}
    if isinstance(known.get("mode"), bool):
        known["mode"] = _WORDS[known["mode"]]
    return known


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
