"""Read the verdicts of handlers, fold them into one (deny > ask > inject > modify > continue) and apply it."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import BaseModel

from amplifier_core.authorization import Decision, ask, report
from amplifier_core.bounded_call import maybe_await
from amplifier_core.data import clean, reason
from amplifier_core.models import ContextInjection, HookResult, _sanitize_for_llm
from amplifier_core.trace import timestamp

logger = logging.getLogger(__name__)

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
        _PLAIN.update(HookResult.model_construct().__dict__)
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
    """A handler returned something that is not a verdict."""


def read_verdict(returned: Any) -> HookResult | None:
    """Return a handler's answer as a new HookResult, None for None; raise InvalidVerdict for anything else.

    Validated also when it claims to be a HookResult: it might have been built without validation, and a verdict that
    cannot be read must never pass as consent. Cleaned like every payload, and copied, since the handler may keep it
    and change it later.
    """
    if returned is None:
        return None
    try:
        fields = _fields_of(returned)
        items = fields.get("context_injections")
        if isinstance(items, list):
            fields["context_injections"] = [
                item.model_dump(warnings=False) if isinstance(item, ContextInjection) else item for item in items
            ]
        for name, value in fields.items():
            if isinstance(value, (str, dict, list)):
                fields[name] = clean(value)
        return HookResult.model_validate(fields)
    except Exception as error:
        raise InvalidVerdict(f"{INVALID}: {reason(error)}") from error


def _fields_of(returned: Any) -> dict[str, Any]:
    """Return the fields of an answer as a new dict; raise any error that prevents reading them."""
    if isinstance(returned, HookResult):
        fields = BaseModel.model_dump(returned, exclude={"data"}, warnings=False)
        if returned.data is not None:
            try:
                fields |= BaseModel.model_dump(returned, include={"data"}, warnings=False)
            except Exception:
                fields["data"] = returned.data  # it refers to itself: clean() can deal with that
        return fields
    answer = returned.model_dump() if hasattr(returned, "model_dump") else returned
    if not isinstance(answer, dict):
        raise TypeError(f"{type(returned).__name__} is neither None, HookResult nor dict")
    return dict(answer)


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
        """Add one verdict; after a deny the others are ignored."""
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

    def outcome(self) -> HookResult | None:
        """Return the verdict of all, None when they only modified the data or let it pass."""
        if self.denied is not None:
            return self.denied
        if self._asked is not None:
            return self._asked
        return _merge_injections(self._event, self._injecting) if self._injecting else None


def own_injections(result: HookResult, hook_name: str, event: str) -> list[ContextInjection]:
    """Return the injections of one result; the list takes precedence over the scalar fields."""
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
    """Return the scalar fields that summarise a list of injections."""
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
    if len(injecting) == 1:  # returned whole, with its data, reason and message
        return first.model_copy(update=projected(items))
    return HookResult(action="inject_context", suppress_output=first.suppress_output, **projected(items))


# -- applying a verdict --

_PROMPT = "Allow this operation?"
_OPTIONS = ["Allow", "Deny"]
_REFUSAL = "deny"
#: What a hook's question is called where policies name an action.
_ACTION = "hook.ask"
_PROMPT_LIMIT = 200


async def carry_out(coordinator: Any, result: Any, event: str, hook_name: str) -> HookResult:
    """Carry out `result` on the session of `coordinator` and return the part left to the orchestrator.

    Raises ValueError when an injection is over the size limit (nothing is stored then), TypeError when the approval
    system does not return a string, and any error of the context or the approval system.
    """
    if result.action == "ask_user":
        return await _ask(coordinator, result, event, hook_name)
    remaining: HookResult = result
    if result.action == "inject_context":
        remaining = await _inject(coordinator, result, event, hook_name)
    if result.user_message:
        await _show(coordinator, result, hook_name)
    if result.suppress_output:
        logger.debug("Hook '%s' asks to suppress output", hook_name)
    return remaining


async def _inject(coordinator: Any, result: HookResult, event: str, hook_name: str) -> HookResult:
    items = [
        item.model_copy(update={"content": text})
        for item in own_injections(result, hook_name, event)
        if (text := _sanitize_for_llm(item.content))
    ]
    limit = coordinator.injection_size_limit
    for item in items:
        if limit is not None and len(item.content) > limit:
            logger.error("Hook injection too large: %s (chars=%d, limit=%d)", item.hook_name, len(item.content), limit)
            raise ValueError(f"Context injection exceeds {limit} characters")
    for item in items:
        _count(coordinator, item)
        if not item.ephemeral:
            await _store(coordinator, item)
    ephemeral = [item for item in items if item.ephemeral]
    if ephemeral:
        return result.model_copy(update=projected(ephemeral))
    blank = HookResult()
    fields = ("context_injection", "context_injection_role", "ephemeral", "append_to_last_tool_result")
    consumed = {name: getattr(blank, name) for name in fields}
    return result.model_copy(update={"action": "continue", "context_injections": [], **consumed})


def _count(coordinator: Any, item: ContextInjection) -> None:
    """Count the tokens of one injection; over the budget is a warning, not a refusal."""
    tokens = len(item.content) // 4  # the published estimate: budgets in plans are written for it
    spent = coordinator._current_turn_injections
    budget = coordinator.injection_budget_per_turn
    if budget is not None and spent + tokens > budget:
        logger.warning(
            "Hook injection budget exceeded (hook=%s, current=%d, attempted=%d, budget=%d)",
            *(item.hook_name, spent, tokens, budget),
        )
    coordinator._current_turn_injections = spent + tokens
    logger.info(
        "Hook context injection (hook=%s, event=%s, chars=%d, role=%s, tokens=%d, ephemeral=%s)",
        *(item.hook_name, item.event, len(item.content), item.role, tokens, item.ephemeral),
    )


async def _store(coordinator: Any, item: ContextInjection) -> None:
    add_message = getattr(coordinator.get("context"), "add_message", None)
    if add_message is None:
        return
    metadata = {
        "source": "hook",
        "hook_name": item.hook_name,
        "event": item.event,
        "timestamp": timestamp(),
        "requested_role": item.role,
        "ephemeral": False,
        "persisted": True,
    }
    await maybe_await(add_message({"role": item.role, "content": item.content, "metadata": metadata}))


async def _show(coordinator: Any, result: HookResult, hook_name: str) -> None:
    display = coordinator.display_system
    if display is None:
        logger.debug("Hook message without a display (%s): %s", hook_name, result.user_message)
        return
    source = f"hook:{result.user_message_source or hook_name}"
    try:
        await maybe_await(display.show_message(result.user_message, result.user_message_level, source))
    except Exception:
        logger.exception("Display system failed to show a message of hook '%s'", hook_name)


async def _ask(coordinator: Any, result: HookResult, event: str, hook_name: str) -> HookResult:
    """Have a person decide, and return the verdict; raise the approval system's error, as published."""
    prompt = _PROMPT if result.approval_prompt is None else result.approval_prompt
    shown = prompt if len(prompt) <= _PROMPT_LIMIT else f"{prompt[:_PROMPT_LIMIT]}...[truncated]"
    logger.info("Approval requested (hook=%s, prompt=%s)", hook_name, shown)
    # A hook names no action: people consent to the prompt, so it is in the details.
    details = {"event": event, "prompt": prompt}
    decision = await ask(
        coordinator,
        tool_name="",
        action=_ACTION,
        details=dict(details),
        origin="hook",
        source=hook_name,
        sources=(hook_name,),
        reason=result.reason or prompt,
        subject=event,
        prompt=prompt,
        options=list(_OPTIONS if result.approval_options is None else result.approval_options),
        timeout=result.approval_timeout,
        default=result.approval_default,
    )
    verdict = _verdict(decision, result.approval_default, shown, hook_name)
    outcome = decision.outcome(verdict.reason or f"approved: {decision.text}")
    await report(coordinator, outcome, {"origin": "hook", "action": _ACTION, "details": details})
    if decision.error is not None:
        raise decision.error
    return verdict


def _verdict(decision: Decision, default: str, shown: str, hook_name: str) -> HookResult:
    """Return a decision as the published kernel words it."""
    if decision.kind == "answer":
        logger.info("Approval decision (hook=%s, decision=%s)", hook_name, decision.text)
        if not decision.granted and not decision.text.strip().lower().startswith(_REFUSAL):
            logger.warning("Unexpected approval answer %r for hook '%s' counts as a refusal", decision.text, hook_name)
        reason = f"User denied: {shown}"
    elif decision.kind == "timeout":
        logger.warning("Approval timeout (hook=%s, default=%s)", hook_name, default)
        reason = f"Approval timeout - denied by default: {shown}"
    elif decision.kind == "nobody":
        logger.error("Approval requested but no approval system provided (hook=%s)", hook_name)
        reason = "No approval system available"
    else:
        reason = decision.text
    return HookResult(action="continue") if decision.granted else HookResult(action="deny", reason=reason)
