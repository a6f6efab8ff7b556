"""Carry out what a hook result asks of the session: inject context, show a message, ask for approval."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core._approval_models import ApprovalRequest
from amplifier_core._verdicts import own_injections, projected
from amplifier_core.authorization import Authorization, Decision, ask, report
from amplifier_core.bounded_call import maybe_await
from amplifier_core.models import ContextInjection, HookResult, _sanitize_for_llm
from amplifier_core.trace import timestamp

logger = logging.getLogger(__name__)

_PROMPT = "Allow this operation?"
_OPTIONS = ["Allow", "Deny"]
_REFUSAL = "deny"
#: What a hook's question is called where policies name an action.
_ACTION = "hook.ask"
_PROMPT_LIMIT = 200


async def process(coordinator: Any, result: Any, event: str, hook_name: str) -> HookResult:
    """Carry out `result` on the session of `coordinator` and return what is left for the orchestrator to do.

    Raises ValueError when an injection is over the size limit (nothing is stored then), TypeError when the approval
    system answers with no string, and whatever the context or the approval system raises.
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
    """Have a person decide, and return the verdict; raise what the approval system raised, as published."""
    prompt = _PROMPT if result.approval_prompt is None else result.approval_prompt
    shown = prompt if len(prompt) <= _PROMPT_LIMIT else f"{prompt[:_PROMPT_LIMIT]}...[truncated]"
    logger.info("Approval requested (hook=%s, prompt=%s)", hook_name, shown)
    # A hook names no action: what is consented to is the prompt, so it is in the details.
    details = {"event": event, "prompt": prompt}
    request = ApprovalRequest.model_construct(
        tool_name="",
        action=_ACTION,
        details=dict(details),
        risk_level="unknown",
        origin="hook",
        source=hook_name,
        sources=(hook_name,),
        reason=result.reason or prompt,
        prompt=prompt,
        options=list(_OPTIONS if result.approval_options is None else result.approval_options),
        timeout=result.approval_timeout,
        default=result.approval_default,
    )
    decision = await ask(coordinator, request)
    verdict, source = _verdict(decision, result.approval_default, shown, hook_name)
    await report(
        coordinator,
        Authorization(
            decision.granted,
            verdict.reason or f"approved: {decision.text}",
            source,
            decision.approval_id,
            decision.waited_ms,
            decision.by,
        ),
        {"origin": "hook", "action": _ACTION, "details": details},
    )
    if decision.error is not None:
        raise decision.error
    return verdict


def _verdict(decision: Decision, default: str, shown: str, hook_name: str) -> tuple[HookResult, str]:
    """Return a decision in the published words, and who is the source of it."""
    if decision.kind == "answer":
        logger.info("Approval decision (hook=%s, decision=%s)", hook_name, decision.text)
        if not decision.granted and not decision.text.strip().lower().startswith(_REFUSAL):
            logger.warning("Unexpected approval answer %r for hook '%s' counts as a refusal", decision.text, hook_name)
        reason, source = f"User denied: {shown}", "approval_system"
    elif decision.kind == "timeout":
        logger.warning("Approval timeout (hook=%s, default=%s)", hook_name, default)
        reason, source = f"Approval timeout - denied by default: {shown}", "kernel"
    elif decision.kind == "nobody":
        logger.error("Approval requested but no approval system provided (hook=%s)", hook_name)
        reason, source = "No approval system available", "kernel"
    else:
        reason, source = decision.text, "hooks" if decision.kind == "hook" else "kernel"
    verdict = HookResult(action="continue") if decision.granted else HookResult(action="deny", reason=reason)
    return verdict, source
