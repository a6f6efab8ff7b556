"""Compare JSON with the part of it that was expected."""

from __future__ import annotations

from typing import Any


def difference(expected: Any, actual: Any, place: str = "") -> str:
    """Return where `actual` lacks something of `expected`; empty when it has all.

    Of a mapping only the expected keys count; a list has the expected items in order, at any distance. Numbers equal
    by value, and true is not 1.
    """
    here = place or "the answer"
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return f"{here} is {_show(actual)}, not a mapping"
        for key, value in expected.items():
            if key not in actual:
                return f"{here} has no {key!r}"
            found = difference(value, actual[key], f"{place}.{key}".lstrip("."))
            if found:
                return found
        return ""
    if isinstance(expected, list):
        return _list_difference(expected, actual, here)
    is_same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return "" if is_same else f"{here} is {_show(actual)}, not {_show(expected)}"


def _list_difference(expected: list[Any], actual: Any, here: str) -> str:
    if not isinstance(actual, list):
        return f"{here} is {_show(actual)}, not a list"
    rest = iter(actual)
    for item in expected:
        if not any(difference(item, candidate) == "" for candidate in rest):
            return f"{here} has no {_show(item)} (in this order)"
    return "" if expected or not actual else f"{here} is {_show(actual)}, not an empty list"


def _show(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False, default=str)[:200]
