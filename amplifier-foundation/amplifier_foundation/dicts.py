"""Merge and address nested mappings, by the names that published apps import.

The rules are those of `merge.py`; the policy of these functions has no places with special rules.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

from amplifier_foundation.merge import MergePolicy, merge, merge_modules

__all__ = ["deep_merge", "get_nested", "merge_module_lists", "set_nested"]

_PLAIN: Final = MergePolicy("plain", "join")


def deep_merge(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """Return `parent` overlaid by `child`; neither is changed.

    Mappings merge key by key, lists are joined without duplicates, everything else is replaced.
    """
    return merge(parent, child, _PLAIN)


def merge_module_lists(parent: Sequence[Any], child: Sequence[Any]) -> list[dict[str, Any]]:
    """Return both lists of modules as one, in order of first appearance.

    Entries with the same `id`, else the same `module`, are merged by `deep_merge`; entries with neither are left out.
    Raises TypeError for an entry that is not a mapping.
    """
    for entries in (parent, child):
        for index, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise TypeError(
                    f"Malformed module config at index {index}: expected dict with 'module' key, "
                    f"got {type(entry).__name__} {entry!r}"
                )
    return merge_modules(list(parent), list(child), _PLAIN)


def get_nested(data: Mapping[str, Any], path: Sequence[str], default: Any = None) -> Any:
    """Return the value that a path of keys leads to, or `default` if a key is missing or not in a mapping."""
    value: Any = data
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def set_nested(data: MutableMapping[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the value that a path of keys leads to; missing mappings on the way are made, other values replaced.

    Raises ValueError for an empty path, which names no key.
    """
    if not path:
        raise ValueError("set_nested: the path is empty: give at least one key")
    for key in path[:-1]:
        inner = data.get(key)
        if not isinstance(inner, MutableMapping):
            inner = data[key] = {}
        data = inner
    data[path[-1]] = value
