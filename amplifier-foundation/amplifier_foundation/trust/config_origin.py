"""Find what a plan or a bundle says of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def said_of(value: Any, module: str) -> list[Any]:
    """Return everything in a plan that is said of a module, however deep."""
    if isinstance(value, Mapping):
        if any(isinstance(each, str) and each == module for each in value.values()):
            return [value]
        own = [{key: each} for key, each in value.items() if key == module]
        return own + [said for key, each in value.items() if key != module for said in said_of(each, module)]
    if isinstance(value, list | tuple):
        return [said for each in value for said in said_of(each, module)]
    return [value] if isinstance(value, str) and value == module else []


def mentions(value: Any, module: str) -> bool:
    """Tell whether something in a plan or a bundle names a module, however deep."""
    if isinstance(value, Mapping):
        return any(mentions(each, module) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(mentions(each, module) for each in value)
    return isinstance(value, str) and value == module
