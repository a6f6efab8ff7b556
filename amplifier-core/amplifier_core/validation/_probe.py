"""Inspect foreign callables, whose signatures may be unreadable.

Facts about plain functions never change, so they are read once and kept for as long as the function lives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class Facts(NamedTuple):
    """Whether to await a callable, and how many parameters it declares."""

    is_async: bool
    parameters: int


_functions: WeakKeyDictionary[FunctionType, Facts] = WeakKeyDictionary()
_methods: WeakKeyDictionary[FunctionType, Facts] = WeakKeyDictionary()


def facts(function: Callable[..., Any]) -> Facts:
    """Return the facts of a callable as its caller sees it: a bound method does not count `self`.

    Raises whatever reading the signature raises, ValueError for callables that have none.
    """
    if type(function) is MethodType:
        key, known = function.__func__, _methods
    else:
        key, known = function, _functions
    if type(key) is not FunctionType:
        return _read(function)
    found = known.get(key)
    if found is None:
        found = known[key] = _read(function)
    return found


def _read(function: Callable[..., Any]) -> Facts:
    return Facts(inspect.iscoroutinefunction(function), _parameters(function))


def _parameters(function: Callable[..., Any]) -> int:
    try:
        return len(inspect.signature(function).parameters)
    except TypeError:
        if isinstance(function, FunctionType | MethodType | type) or not callable(function):
            raise
        # Async mocks of some releases of Python pose as functions and have no code to read a signature from.
        return len(inspect.signature(type(function).__call__).parameters) - 1
