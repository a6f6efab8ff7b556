"""Ask a session which places its rules hide, for tools that look at more places than their call names.

An app that has rules offers the capability `policy.hidden`: `(tool_name) -> is_hidden`, where `is_hidden(path)` returns
whether a rule asks for a real path or denies it; None when no rule is about paths. `is_hidden.within(place)`, if
present, returns the same for a place that the call was allowed to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.awaitable import plain_result

__all__ = ["CAPABILITY", "HidingError", "IsHidden", "hiding"]

CAPABILITY: Final = "policy.hidden"

IsHidden = Callable[[str], bool]


class HidingError(Exception):
    """Which paths the rules hide is unknown: then nothing may be shown."""

    code = "denied"


def hiding(coordinator: Any, tool: str, place: str) -> IsHidden | None:
    """Return a check whether `tool` must not show a path at or below `place`; None when nothing is hidden.

    `place` was decided on with the call. Paths are absolute, with all links followed. Both this function and the check
    raise HidingError when the session fails to answer.
    """
    get = getattr(coordinator, "get_capability", None)
    ask = get(CAPABILITY) if callable(get) else None
    if ask is None:
        return None
    try:
        found = plain_result(ask(tool))
        within = getattr(found, "within", None)
        is_hidden = found if within is None else within(place)
    except Exception as error:
        raise _failed(error) from error
    if is_hidden is None:
        return None
    if not callable(is_hidden):
        raise HidingError(f"cannot find out which paths the rules restrict: {is_hidden!r:.200} is not callable")

    def judged(path: str) -> bool:
        try:
            # Anything but a clear no hides.
            return plain_result(is_hidden(path)) is not False
        except Exception as error:
            raise _failed(error) from error

    return judged


def _failed(error: Exception) -> HidingError:
    return HidingError(f"cannot find out which paths the rules restrict: {type(error).__name__}: {error}")
