"""The hooks that watch over a session or record it: a child has all of its parent's, and none of them is looser there.

| module | what an agent may change |
|---|---|
| hooks-approval | what makes it ask for more |
| hook-shell | nothing: what an agent says of it is mounted beside |
| hooks-logging | what makes it record more |
| hooks-redaction | what makes it mask more |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any, Final

from amplifier_foundation.children.tight_approval import tightened_approval
from amplifier_foundation.merge import OVERLAY, copied, join_lists, merge_modules, module_key

_SHELL: Final = "hook-shell"
#: What hooks-logging leaves out when its config does not say.
_EXCLUDED: Final = ["llm:stream_*delta", "llm:stream_block_*", "content_block:start"]

Config = dict[str, Any]


def set_apart(hooks: Sequence[Any], parent: Any) -> list[Any]:
    """Return the hooks of an agent, under an id of its own each that would take the place of a guard of its parent."""
    guards = {module_key(entry): entry for entry in _guards(parent)}
    taken = {module_key(entry) for entry in (*_entries(parent), *hooks)}
    apart: list[Any] = []
    for entry in merge_modules([], list(hooks), OVERLAY):
        key = str(module_key(entry))
        guard = guards.get(key)
        module = entry.get("module") or (guard or {}).get("module")
        if guard is None or (module == guard["module"] and module != _SHELL):
            apart.append(entry)
        elif module != guard["module"] or not _is_had(entry.get("config"), parent):
            free = next(name for number in count(2) if (name := f"{key}-{number}") not in taken)
            taken.add(free)
            apart.append({**entry, "module": module, "id": free})
    return apart


def keep_guards(plan: dict[str, Any], parent: Any) -> None:
    """Let every guard of the parent's hooks be in a plan, and no entry for the same module be looser."""
    guards = _guards(parent)
    hooks = [entry for entry in _entries(plan.get("hooks")) if isinstance(entry, dict)]
    hooks += [copied(guard) for guard in guards if module_key(guard) not in map(module_key, hooks)]
    if hooks or "hooks" in plan:
        plan["hooks"] = [_kept(entry, guards) for entry in hooks]


def _kept(entry: Config, guards: Sequence[Mapping[str, Any]]) -> Config:
    same = [guard for guard in guards if module_key(guard) == module_key(entry)]
    guard = same[-1] if same else None
    if guard is not None and guard["module"] == _SHELL:
        return copied(guard)  # type: ignore[no-any-return]  # a copy of a mapping
    module = entry.get("module") if guard is None else guard["module"]
    tighten = _TIGHTENED.get(str(module))
    above = same or [one for one in guards if one["module"] == module]
    if tighten is None or not above or above == [entry]:
        return entry
    # Twice: what it takes over from one of them, since it says nothing itself, must be right with the others too.
    config = reduce(lambda wish, one: tighten(one.get("config"), wish), above * 2, entry.get("config"))
    kept = {**entry, "module": module, "config": config}
    if guard is not None:
        kept.pop("source", None)  # the code that guards is not an agent's choice either
        kept |= {key: value for key, value in guard.items() if key == "source"}
    return kept


def _guards(hooks: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in _entries(hooks) if isinstance(entry, Mapping) and entry.get("module") in GUARDS]


def _is_had(config: Any, hooks: Any) -> bool:
    """Tell whether a config of hook-shell says nothing, or what one that is there says already."""
    return not config or config in [entry.get("config") for entry in _guards(hooks) if entry["module"] == _SHELL]


def _tightened_logging(above: Any, wish: Any) -> Config:
    """Return a config that records at least what the one above it does."""
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


def _tightened_redaction(above: Any, wish: Any) -> Config:
    """Return a config that masks at least what the one above it does."""
    floor, tight = _mapping(above), dict(_mapping(wish))
    if tight.get("rules") != floor.get("rules"):
        masked, wished = _texts(floor.get("rules"), None), _texts(tight.get("rules"), None)
        tight.pop("rules", None)  # all of them
        if masked is not None and wished is not None:
            tight["rules"] = join_lists(masked, wished)
    if tight.get("allowlist"):
        passed = _texts(floor.get("allowlist"), [])
        tight["allowlist"] = [name for name in _texts(tight["allowlist"], []) if name in passed]
    if listed := floor.get("live_values"):
        tight["live_values"] = join_lists(_texts(listed, []), _texts(tight.get("live_values"), []))
    return tight


_TIGHTENED: Final[dict[str, Callable[[Any, Any], Config]]] = {
    "hooks-approval": tightened_approval,
    "hooks-redaction": _tightened_redaction,
    "hooks-logging": _tightened_logging,
}
#: What is not taken away from a child.
GUARDS: Final = (*_TIGHTENED, _SHELL)


def _texts(value: Any, default: Any) -> Any:
    """Return a list of texts, of one that is no list too; the default for anything else."""
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and all(isinstance(text, str) for text in value) else default


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
