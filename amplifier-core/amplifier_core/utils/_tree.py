"""Copying of nested data that may be hostile: cyclic, shared a billion times, or deeper than the stack."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

#: Stands where a container would contain itself.
CIRCULAR: Final = "[CIRCULAR]"

Copy = dict[Any, Any] | list[Any]

_CONTAINERS: Final = (dict, list, tuple, MappingProxyType)
_COMMON_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def copy_tree(root: Any, edit: Callable[[Copy], None]) -> Any:
    """Copy dicts, lists and tuples all the way down, and let `edit` change each fresh copy before its children follow.

    A tuple arrives at `edit` as a list and a read-only mapping as a dict. All else is not looked into and comes back
    as itself. Nothing that `root` holds is changed, nothing its containers override is run, and no depth is too deep. A
    container that occurs twice is copied once and shared, so the work is linear; inside itself it becomes `CIRCULAR`.
    """
    top: list[Any] = [root]
    edit(top)
    # Copies by the id of their source; CIRCULAR while the source is still open. A source is kept alive so that its id
    # cannot be given to another object meanwhile.
    copies: dict[int, Any] = {}
    alive: list[Any] = []
    # Per open container: source, copy, slots still to fill, and where the finished copy goes.
    frames: list[tuple[Any, Copy, list[tuple[Any, Any]], Copy, Any]] = [(None, top, _containers_in(top), top, 0)]
    while True:
        source, copy, waiting, owner, place = frames[-1]
        while waiting:
            key, child = waiting.pop()
            identity = id(child)
            if identity in copies:
                copy[key] = copies[identity]
                continue
            alive.append(child)
            fresh = _shallow(child)
            edit(fresh)
            inner = _containers_in(fresh)
            if inner:
                copies[identity] = CIRCULAR
                frames.append((child, fresh, inner, copy, key))
                break
            copies[identity] = copy[key] = tuple(fresh) if issubclass(type(child), tuple) else fresh
        else:
            frames.pop()
            if not frames:
                return top[0]
            copies[id(source)] = owner[place] = tuple(copy) if issubclass(type(source), tuple) else copy


def _shallow(source: Any) -> Copy:
    kind = type(source)
    if kind is dict or kind is MappingProxyType:
        return dict(source)
    # Subclasses are read through the base class: what they override is code of a stranger.
    if issubclass(kind, dict):
        return dict(dict.items(source))
    if issubclass(kind, list):
        return list.copy(source)
    return list(tuple.__iter__(source))


def _containers_in(copy: Copy) -> list[tuple[Any, Any]]:
    """Return the slots that hold a container, last first, so that popping visits them in order."""
    slots = copy.items() if isinstance(copy, dict) else enumerate(copy)
    found = [slot for slot in slots if (kind := type(slot[1])) not in _COMMON_LEAVES and issubclass(kind, _CONTAINERS)]
    found.reverse()
    return found
