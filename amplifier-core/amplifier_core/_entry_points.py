"""Find installed modules by entry point, scanning as rarely as correctness allows."""

from __future__ import annotations

import importlib
import sys
from types import FunctionType
from typing import Any

GROUP = "amplifier.modules"

#: One scan costs milliseconds and every module of every session asks: keep it while nothing can have changed.
_scan: tuple[tuple[str, ...], dict[str, Any]] | None = None


def module_entry_points(*, rescan: bool = False) -> dict[str, Any]:
    """Return entry points by module id.

    The scan is remembered as long as sys.path is the same and `importlib.metadata.entry_points` is the original:
    tests of module authors replace that function, and must be heard at once.
    """
    global _scan
    metadata = importlib.import_module("importlib.metadata")
    scan = metadata.entry_points
    genuine = isinstance(scan, FunctionType) and scan.__globals__ is vars(metadata)
    key = tuple(sys.path)
    if genuine and not rescan and _scan is not None and _scan[0] == key:
        return _scan[1]
    found: dict[str, Any] = {}
    for entry_point in scan(group=GROUP):
        found.setdefault(entry_point.name, entry_point)
    if genuine:
        _scan = (key, found)
    return found


def what_to_do(module_id: str) -> str:
    """Return the end of the sentence that says a module was not found: the nearest name there is, or how to get it."""
    from difflib import get_close_matches
    from pkgutil import iter_modules

    prefix = "amplifier_module_"
    packages = (found.name for found in iter_modules() if found.name.startswith(prefix))
    known = {*module_entry_points(), *(name.removeprefix(prefix).replace("_", "-") for name in packages)}
    near = get_close_matches(module_id, sorted(known), n=1)
    if near:
        return f". Did you mean '{near[0]}'?"
    return f". Install the package that provides it, or give '{module_id}' a source in the plan"
