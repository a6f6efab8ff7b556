"""Merge mappings by named rules: the one place that says what happens when two files set the same key.

| policy | mappings | lists | module lists (by `id`, else `module`) | united lists |
|---|---|---|---|---|
| COMPOSE, bundles | key by key | joined, duplicates dropped | `providers`, `tools`, `hooks` | |
| SETTINGS, scopes | key by key | replaced | `config.providers`, `modules.*` | the path lists of tool-filesystem |
| OVERLAY, an agent over its parent | key by key | replaced | `providers`, `tools`, `hooks` | |

Everything else is replaced by the later value. Nothing is shared between what goes in and what comes out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from amplifier_kit.struct import FrozenStruct

Keys = tuple[str, ...]
#: Matches any one key in a place.
ANY: Final = "*"


class MergePolicy(FrozenStruct):
    """One row of the table above."""

    name: str
    lists: Literal["join", "replace"]
    #: Places whose lists hold modules; the entry's key takes the place of its index.
    modules: tuple[Keys, ...] = ()
    #: Places whose lists are joined even if `lists` is "replace".
    united: tuple[Keys, ...] = ()


_MODULE_LISTS: Final[tuple[Keys, ...]] = (("providers",), ("tools",), ("hooks",))
_PATH_LISTS = ("allowed_read_paths", "allowed_write_paths", "denied_write_paths")

COMPOSE: Final = MergePolicy("compose", "join", _MODULE_LISTS)
OVERLAY: Final = MergePolicy("overlay", "replace", _MODULE_LISTS)
SETTINGS: Final = MergePolicy(
    "settings",
    "replace",
    (("config", "providers"), ("modules", ANY)),
    (
        *(("modules", "tools", "tool-filesystem", "config", name) for name in _PATH_LISTS),
        *(("overrides", "tool-filesystem", "config", name) for name in _PATH_LISTS),
    ),
)


def merge(base: Mapping[str, Any], over: Mapping[str, Any], policy: MergePolicy) -> dict[str, Any]:
    """Return `base` merged with `over` by `policy`; neither is changed."""
    return _merge_mappings(base, over, policy, ())


def merge_all(layers: Iterable[Mapping[str, Any]], policy: MergePolicy) -> dict[str, Any]:
    """Return all layers merged, the last one on top."""
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer, policy)
    return merged


def module_key(entry: Any) -> str | None:
    """Return what identifies a module entry in its list: its `id`, else its `module`; None without either."""
    if not isinstance(entry, Mapping):
        return None
    key = entry.get("id") or entry.get("module")
    return key if isinstance(key, str) else None


def merge_modules(base: list[Any], over: list[Any], policy: MergePolicy, place: Keys = ()) -> list[dict[str, Any]]:
    """Return both module lists as one: same key, merged entries; order as first seen; entries without a key dropped."""
    merged: dict[str, dict[str, Any]] = {}
    for entry in [*base, *over]:
        key = module_key(entry)
        if key is not None:
            merged[key] = _merge_mappings(merged.get(key, {}), entry, policy, (*place, key))
    return list(merged.values())


def join_lists(base: list[Any], over: list[Any]) -> list[Any]:
    """Return the items of both lists in order, each once: `1`, `1.0`, `True` and `"1"` are four items."""
    joined: dict[Hashable, Any] = {}
    for item in [*base, *over]:
        joined.setdefault(_identity(item), item)
    return [copied(item) for item in joined.values()]


def copied(value: Any) -> Any:
    """Return a copy of nested mappings and lists; everything else is shared.

    Not the kernel's `copy_tree`, which keeps two references to one object together: two places that share a YAML
    anchor are changed apart here.
    """
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def _merge_mappings(base: Mapping[str, Any], over: Mapping[str, Any], policy: MergePolicy, at: Keys) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for key in dict.fromkeys([*base, *over]):
        place = (*at, str(key))
        if key in base and key in over:
            merged[key] = _merge_values(base[key], over[key], policy, place)
        else:
            merged[key] = _alone(base[key] if key in base else over[key], policy, place)
    return merged


def _alone(value: Any, policy: MergePolicy, place: Keys) -> Any:
    """Return a copy of a value that only one side has; modules listed twice on that side are merged too."""
    if isinstance(value, Mapping):
        return _merge_mappings({}, value, policy, place)
    if isinstance(value, list) and is_at(place, policy.modules):
        return merge_modules([], value, policy, place)
    return copied(value)


def _merge_values(base: Any, over: Any, policy: MergePolicy, place: Keys) -> Any:
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return _merge_mappings(base, over, policy, place)
    if isinstance(base, list) and isinstance(over, list):
        if is_at(place, policy.modules):
            return merge_modules(base, over, policy, place)
        if policy.lists == "join" or is_at(place, policy.united):
            return join_lists(base, over)
    return _alone(over, policy, place)


def is_at(place: Sequence[str], patterns: tuple[Keys, ...]) -> bool:
    """Return whether a place matches one of the patterns, in which ANY matches one key."""
    return any(
        len(place) == len(pattern) and all(want in (ANY, key) for want, key in zip(pattern, place, strict=True))
        for pattern in patterns
    )


def _identity(item: Any) -> Hashable:
    """Return what makes two items equal: type and content, in any order of keys."""
    if isinstance(item, Mapping):
        return "mapping", frozenset((_identity(key), _identity(value)) for key, value in item.items())
    if isinstance(item, list):
        return "list", tuple(_identity(value) for value in item)
    return type(item).__name__, repr(item)
