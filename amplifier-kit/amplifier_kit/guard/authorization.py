"""What a session allows: the action of a tool call, the permission for it, and the paths that rules hide.

A session that cannot be asked allows nothing. There is one exception, for these modules in the published program: its
kernel has no policies, so that a module which insisted on one could do nothing there. Its own safeguards still hold:
the paths and hosts that the module's config allows, and the verdicts of hooks on `tool:pre`, are checked before. The
rest is granted with a warning, once per session. On our own kernel that branch is never taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import plain_result
from amplifier_kit.struct import FrozenStruct

logger = logging.getLogger(__name__)

_WARNING: Final = (
    "This kernel has no policies (coordinator.authorize): everything that the config of modules and hooks on tool:pre "
    "do not deny is allowed without asking in session %s"
)
#: The sessions that were warned about.
_warned: set[str] = set()


# --- the action of a call ---


def action_of(tool: Any, name: str, tool_input: Mapping[str, Any]) -> str:
    """Return the action of a call, by which rules judge it: `action_for(input)` of the tool, `action`, `tool.<name>`.

    A tool whose action depends on its input has the method `action_for`. If it fails, or returns anything but a text,
    it counts as missing.
    """
    ask = getattr(tool, "action_for", None)
    action: Any = None
    if callable(ask):
        try:
            action = plain_result(ask(dict(tool_input)))
        except Exception as error:
            logger.error("action_for() of tool '%s' failed: %s", name, error, exc_info=error)
    if not isinstance(action, str) or not action:
        action = getattr(tool, "action", None)
    return action if isinstance(action, str) and action else f"tool.{name}"


def question_of(tool: Any, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a call's request for permission: tool, input, id and working directory.

    Relative paths start in the tool's `working_dir`, if it has one, else in the project. A tool whose calls always go
    to the same host, which its input does not name, has it as `network_host`.
    """
    details = {key: call.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
    for attribute, detail in (("network_host", "host"), ("working_dir", "working_dir")):
        try:
            value = getattr(tool, attribute, None)
        except Exception as error:
            logger.error("%s of tool '%s' failed: %s", attribute, call.get("tool_name"), error, exc_info=error)
            continue
        if isinstance(value, str | Path) and str(value):
            details[detail] = str(value)
    return details


# --- permission ---


class Permission(FrozenStruct):
    """Whether an action may happen, and why not."""

    granted: bool
    reason: str


async def authorize(coordinator: Any, action: str, details: Mapping[str, Any]) -> Permission:
    """Ask the session's policies; any failure is a refusal. Raises only CancelledError."""
    ask = getattr(coordinator, "authorize", None)
    if ask is None:
        if kernel_has_policies():
            return Permission(False, "the session cannot be asked: its coordinator has no authorize()")
        return _grant_without_policies(coordinator)
    try:
        answer = await ask(action, dict(details))
    except asyncio.CancelledError:
        raise
    except Exception as error:
        logger.error("Could not ask for permission for %s: %s", action, error, exc_info=error)
        return Permission(False, f"the question could not be asked: {error}")
    return Permission(answer.granted is True, str(answer.reason))


def kernel_has_policies() -> bool:
    """Return whether the installed kernel authorizes actions, as ours does and the published one does not."""
    from amplifier_core import ModuleCoordinator

    return hasattr(ModuleCoordinator, "authorize")


def _grant_without_policies(coordinator: Any) -> Permission:
    session = str(getattr(coordinator, "session_id", None) or "unknown")
    if session not in _warned:
        _warned.add(session)
        logger.warning(_WARNING, session)
    return Permission(True, "this kernel has no policies")


# --- hidden paths ---

#: An app with rules offers `(tool_name) -> is_hidden`, where `is_hidden(path)` returns whether a rule asks for a real
#: path or denies it; None when no rule is about paths. `is_hidden.within(place)`, if present, returns the same for a
#: place that the call was allowed to look at, and `is_hidden.may_hide(text)` whether any path in a text may be hidden.
CAPABILITY: Final = "policy.hidden"

IsHidden = Callable[[str], bool]


class HidingError(Exception):
    """Which paths the rules hide is unknown: then nothing may be shown."""

    code = "denied"


class HiddenCheck:
    """Whether a tool must not show a path; asked in vain, it raises HidingError."""

    def __init__(self, is_hidden: IsHidden) -> None:
        self._is_hidden = is_hidden

    def __call__(self, path: str) -> bool:
        """Return whether a path is hidden: it is absolute, with all links followed."""
        return _is_yes(self._is_hidden, path)

    def may_hide(self, paths: str) -> bool:
        """Return False when a text, which contains whole paths, contains none that is hidden, nor one below it."""
        ask = getattr(self._is_hidden, "may_hide", None)
        return ask is None or _is_yes(ask, paths)


def _is_yes(ask: Callable[[str], object], text: str) -> bool:
    try:
        # Anything but a clear no hides.
        return (answer := ask(text)) is not False and plain_result(answer) is not False
    except Exception as error:
        raise _hiding_failed(error) from error


def hiding(coordinator: Any, tool: str, place: str) -> HiddenCheck | None:
    """Return a check whether `tool` must not show a path at or below `place`; None when nothing is hidden.

    For tools that look at more places than their call names: `place` was decided on with the call. Raises HidingError
    when the session fails to answer, as the check does.
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
        raise _hiding_failed(error) from error
    if is_hidden is None:
        return None
    if not callable(is_hidden):
        raise HidingError(f"cannot find out which paths the rules restrict: {is_hidden!r:.200} is not callable")
    return HiddenCheck(is_hidden)


def _hiding_failed(error: Exception) -> HidingError:
    return HidingError(f"cannot find out which paths the rules restrict: {type(error).__name__}: {error}")
