"""Know which settings keep things from happening: a project that nobody trusts may tighten them, never loosen them.

| a setting | examples | needs trust in a project's file |
|---|---|---|
| keeps something out | `denied_commands`, `blocked_domains` | where it takes the place of another |
| opens something | `private_hosts`, `pass_env` | always, unless it is `false` |
| alone says what may be | `allowed_domains`, `allowed_paths` | where one of the user's holds |
| of what watches | all of hooks-logging, hooks-approval | always; rules that a bundle adds do not |

`tests/test_guards.py` has every setting of every module that ships, and what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from amplifier_foundation.merge import SETTINGS

_KEEPS: Final = re.compile(r"(denied|blocked)_\w+|instruction_filters|live_values|require_approval|safety_\w+")
#: Among them names of keys below others, as `safety_overrides.allow`.
_OPENS: Final = re.compile(
    r"(^|\.)(pass_env|private_hosts|allowed_commands|safety_overrides\.allow|allowlist|exclude_(events|hooks)"
    r"|inherit_hooks|enable_web_search|enable_state|prompt_cache_retention|auto_pull|free|price_list"
    r"|deployment_type)(\.|$)"
)
_LIMITS: Final = re.compile(r"allowed_(domains|hosts|(\w+_)?paths)|(exclude|inherit)_tools")
#: Two ways to say the same, of which the second counts alone.
_TOOLS: Final = frozenset({"exclude_tools", "inherit_tools"})
#: What an empty list of does not mean everything.
_NOTHING: Final = re.compile(r"allowed_(\w+_)?paths")
#: Modules that watch over a session or record it; a config that they cannot read would take them away.
_WATCHING: Final = ("hooks-approval", "hooks-logging")
#: Settings of single modules, in the same way.
_OF_MODULES: Final = {"hooks-redaction": re.compile(r"rules")}
#: Where a list takes the place of the one before.
_REPLACING: Final = ("overrides", "modules", "agents")


class Setting(NamedTuple):
    """One value in a file of the project."""

    #: What stands before its keys in a message: the part of the file.
    prefix: tuple[str, ...]
    #: The keys to it, with the names of modules for indexes.
    names: tuple[str, ...]
    #: Those behind `config`, which the module itself reads; of `spawn` all.
    inner: tuple[str, ...]
    value: Any


class Guards:
    """What there is already that a project's file could loosen."""

    def __init__(self, mine: Iterable[Mapping[str, Any]], agents: Iterable[Mapping[str, Any]], theirs: Any) -> None:
        """`mine` are the files of the user and the product, `agents` what those define; `theirs` is the project's."""
        from amplifier_foundation.policy.plan_trust import mentions, said_of

        files, defined = list(mine), list(agents)
        self._modules = _modules_by_id([*files, *defined, theirs])
        self._has_hooks = any(
            said.get("config") or said.get("hook-shell")
            for file in files
            for said in said_of(file, "hook-shell")
            if isinstance(said, Mapping)
        )
        self._has_walls = any(mentions(file, "sandbox") for file in files)
        self._has_approval = any(mentions(file, "hooks-approval") for file in files)
        plans = [{key: value for key, value in file.items() if key != "agents"} for file in files]
        self._limits = set(_keys_in(plans))
        self._limits_of_agents = self._limits | set(_keys_in([*files, *defined]))

    def is_loosened_by(self, setting: Setting) -> bool:
        """Tell whether a value takes away or opens what keeps things from happening."""
        modules = {module for name in (*setting.names, *setting.prefix) for module in self._modules.get(name, {name})}
        is_replaced, inner, value = setting.prefix[0] in _REPLACING, setting.inner, setting.value
        first = inner[0] if inner else ""
        if "sandbox" in (inner or (setting.names[:1] if setting.prefix[-1] == "session" else ())):
            return self._has_walls and value != "required" and setting.prefix[0] != "agents"  # those can only tighten
        if "hook-shell" in modules or value == "hook-shell":
            return self._has_hooks or (bool(first) and first not in ("hooks", "files"))
        if first and not modules.isdisjoint(_WATCHING):
            return is_replaced or "hooks-logging" in modules or (first != "rules" and self._has_approval)
        if any(module in modules and known.fullmatch(first) for module, known in _OF_MODULES.items()):
            return True
        if value is not False and _OPENS.search(".".join(inner)):
            return True
        return self._takes_place(setting, is_replaced) or self._widens(setting)

    def _takes_place(self, setting: Setting, is_replaced: bool) -> bool:
        """Tell whether a value replaces one that keeps something out."""
        at = next((index for index, name in enumerate(setting.inner) if _KEEPS.fullmatch(name)), None)
        if at is None:
            return False
        is_list = isinstance(setting.value, list) or len(setting.inner) > at + 1
        return not (is_list and (not is_replaced or _is_united(setting, setting.inner[at])))

    def _widens(self, setting: Setting) -> bool:
        """Tell whether a value takes the place of a limit, or is joined to it."""
        known = self._limits_of_agents if setting.prefix[0] == "overrides" else self._limits
        if known & _TOOLS:
            known = known | _TOOLS
        return any(name in known and not (setting.value == [] and _NOTHING.fullmatch(name)) for name in setting.inner)


def _is_united(setting: Setting, name: str) -> bool:
    """Tell whether settings add this list to the one before instead of replacing it."""
    place = (*setting.prefix, *setting.names[: setting.names.index(name) + 1])
    return place in SETTINGS.united


def _modules_by_id(data: Any) -> dict[str, set[str]]:
    """Return, for every id that an entry has anywhere, the modules that it stands for."""
    found: dict[str, set[str]] = {}
    for entry in _mappings(data):
        name, module = entry.get("id"), entry.get("module")
        if isinstance(name, str) and isinstance(module, str):
            found.setdefault(name, {name}).add(module)
    return found


def _keys_in(data: Any) -> Iterator[str]:
    return (key for one in _mappings(data) for key in one if isinstance(key, str) and _LIMITS.fullmatch(key))


def _mappings(value: Any) -> Iterator[Mapping[Any, Any]]:
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from _mappings(item)
