"""Read the verdicts of many handlers and fold them into one: deny > ask > inject > modify > continue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from amplifier_core.data import INTERRUPTS, clean, describe
from amplifier_core.models import ContextInjection, HookResult

INVALID = "Hook handler returned invalid response"

#: A HookResult costs microseconds to validate and one is made per event: keep the parts of a plain one at hand.
_PLAIN: dict[str, Any] = {}
_NEW = object.__new__
_SET_FIELDS_SET = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_SET_EXTRA = BaseModel.__dict__["__pydantic_extra__"].__set__
_SET_PRIVATE = BaseModel.__dict__["__pydantic_private__"].__set__


def plain_result(data: Any) -> HookResult:
    """Return `HookResult(action="continue", data=data)` without validating `data`, which stays the same object."""
    if not _PLAIN:  # not at import: the first model ever made costs tens of milliseconds
        _PLAIN.update(HookResult().__dict__)
    result = _NEW(HookResult)
    values = result.__dict__
    values.update(_PLAIN)
    values["data"] = data
    values["context_injections"] = []
    _SET_FIELDS_SET(result, {"action", "data"})
    _SET_EXTRA(result, None)
    _SET_PRIVATE(result, None)
    return result


class InvalidVerdict(Exception):
    """A handler returned something that is no verdict."""


def read_verdict(returned: Any) -> HookResult | None:
    """Return what a handler said as a HookResult of our own, None for nothing; raise InvalidVerdict for nonsense.

    Validated also when it claims to be a HookResult: it might have been built without validation, and a verdict that
    cannot be read must never pass as consent. Cleaned like every payload, and copied, since the handler may keep it
    and change it later.
    """
    if returned is None:
        return None
    try:
        fields = _said(returned)
        items = fields.get("context_injections")
        if isinstance(items, list):
            fields["context_injections"] = [
                item.model_dump(warnings=False) if isinstance(item, ContextInjection) else item for item in items
            ]
        for name, value in fields.items():
            if isinstance(value, (str, dict, list)):
                fields[name] = clean(value)
        return HookResult.model_validate(fields)
    except INTERRUPTS:
        raise
    except BaseException as error:
        raise InvalidVerdict(f"{INVALID}: {describe(error) or type(error).__name__}") from error


def _said(returned: Any) -> dict[str, Any]:
    """Return the fields of an answer, in a new dict; raise whatever keeps them from being read."""
    if isinstance(returned, HookResult):
        fields = BaseModel.model_dump(returned, exclude={"data"}, warnings=False)
        if returned.data is not None:
            try:
                fields |= BaseModel.model_dump(returned, include={"data"}, warnings=False)
            except Exception:
                fields["data"] = returned.data  # it refers to itself: clean() can deal with that
        return fields
    said = returned.model_dump() if hasattr(returned, "model_dump") else returned
    if not isinstance(said, dict):
        raise TypeError(f"{type(returned).__name__} is neither None, HookResult nor dict")
    return dict(said)


class Fold:
    """Collect verdicts one by one; `outcome()` is the verdict of all, and its action does not depend on their order."""

    __slots__ = ("_asked", "_event", "_injecting", "decided_by", "denied")

    def __init__(self, event: str) -> None:
        self._event = event
        self.denied: HookResult | None = None
        #: The name of the handler that denied, or that asked first.
        self.decided_by: str | None = None
        self._asked: HookResult | None = None
        self._injecting: list[tuple[str, HookResult]] = []

    def add(self, handler_name: str, result: HookResult) -> None:
        """Take one verdict; after a deny nothing counts any more."""
        if self.denied is not None:
            return
        action = result.action
        if action == "deny":
            self.denied = result
            self.decided_by = handler_name
        elif action == "ask_user":
            if self._asked is None:
                self._asked = result
                self.decided_by = handler_name
        elif action == "inject_context" and (result.context_injection is not None or result.context_injections):
            self._injecting.append((handler_name, result))

    def summary(self) -> tuple[str, str | None, str | None]:
        """Return the action of the verdict of all, which handler denied or asked, and why."""
        decided = self.denied or self._asked
        if decided is not None:
            why = decided.reason if decided.action == "deny" else decided.approval_prompt or decided.reason
            return decided.action, self.decided_by, why
        return ("inject_context" if self._injecting else "continue"), None, None

    def outcome(self, data: Any) -> HookResult:
        """Return the verdict of all; `data` is the payload after every modification."""
        if self.denied is not None:
            return self.denied
        if self._asked is not None:
            return self._asked
        if self._injecting:
            return _merge_injections(self._event, self._injecting)
        return plain_result(data)


def fold(event: str, verdicts: Iterable[tuple[str, HookResult]], data: Any) -> HookResult:
    """Fold `(handler name, verdict)` pairs at once."""
    folding = Fold(event)
    for name, verdict in verdicts:
        folding.add(name, verdict)
    return folding.outcome(data)


def own_injections(result: HookResult, hook_name: str, event: str) -> list[ContextInjection]:
    """Return what one result injects, item by item; a list wins over the scalar fields."""
    if result.context_injections:
        return list(result.context_injections)
    if result.context_injection is None:
        return []
    return [
        ContextInjection(
            content=result.context_injection,
            role=result.context_injection_role,
            ephemeral=result.ephemeral,
            append_to_last_tool_result=result.append_to_last_tool_result,
            hook_name=hook_name,
            event=event,
        )
    ]


def projected(items: list[ContextInjection]) -> dict[str, Any]:
    """Return the scalar fields that stand for a list of injections."""
    return {
        "context_injection": "\n\n".join(item.content for item in items),
        "context_injection_role": items[0].role,
        "ephemeral": items[0].ephemeral,
        "append_to_last_tool_result": any(item.append_to_last_tool_result for item in items),
        "context_injections": items,
    }


def _merge_injections(event: str, injecting: list[tuple[str, HookResult]]) -> HookResult:
    items = [
        item.model_copy(update={"hook_name": name, "event": event})
        for name, result in injecting
        for item in own_injections(result, name, event)
    ]
    _, first = injecting[0]
    if len(injecting) == 1:  # one voice is returned whole, with its data, reason and message
        return first.model_copy(update=projected(items))
    return HookResult(action="inject_context", suppress_output=first.suppress_output, **projected(items))
