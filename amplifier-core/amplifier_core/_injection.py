"""Carry out what a hook result asks of the session: inject context, show a message, ask for approval."""

from __future__ import annotations

import logging
from typing import Any

from amplifier_core._verdicts import own_injections, projected
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.bounded_call import DeadlineExceeded, call, maybe_await, running_task
from amplifier_core.models import ContextInjection, HookResult, _sanitize_for_llm
from amplifier_core.trace import timestamp

logger = logging.getLogger(__name__)

_PROMPT = "Allow this operation?"
_OPTIONS = ["Allow", "Deny"]
_CONSENT = frozenset({"allow", "allow once", "allow always"})
_REFUSAL = frozenset({"deny", "deny once", "deny always"})
_PROMPT_LIMIT = 200


async def process(coordinator: Any, result: Any, event: str, hook_name: str) -> HookResult:
    """Carry out `result` on the session of `coordinator` and return what is left for the orchestrator to do.

    Raises ValueError when an injection is over the size limit (nothing is stored then), TypeError when the approval
    system answers with no string, and whatever the context or the approval system raises.
    """
    if result.action == "ask_user":
        return await _ask(coordinator, result, hook_name)
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
    tokens = len(item.content) // 4
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


async def _ask(coordinator: Any, result: HookResult, hook_name: str) -> HookResult:
    prompt = _PROMPT if result.approval_prompt is None else result.approval_prompt
    options = list(_OPTIONS) if result.approval_options is None else result.approval_options
    shown = prompt if len(prompt) <= _PROMPT_LIMIT else f"{prompt[:_PROMPT_LIMIT]}...[truncated]"
    logger.info("Approval requested (hook=%s, prompt=%s)", hook_name, shown)
    if coordinator.approval_system is None:
        logger.error("Approval requested but no approval system provided (hook=%s)", hook_name)
        return HookResult(action="deny", reason="No approval system available")
    try:
        request, timeout = coordinator.approval_system.request_approval, result.approval_timeout
        # Whoever is asked keeps the time; one that does not is not waited for either.
        answer = await call(running_task(), timeout, request, prompt, options, timeout, result.approval_default)
    except (ApprovalTimeoutError, DeadlineExceeded):
        logger.warning("Approval timeout (hook=%s, default=%s)", hook_name, result.approval_default)
        if result.approval_default == "allow":
            return HookResult(action="continue")
        return HookResult(action="deny", reason=f"Approval timeout - denied by default: {shown}")
    if not isinstance(answer, str):
        raise TypeError(f"The approval system must answer with a string, got {type(answer).__name__}")
    logger.info("Approval decision (hook=%s, decision=%s)", hook_name, answer)
    if is_consent(answer):
        return HookResult(action="continue")
    if answer.strip().lower() not in _REFUSAL:
        logger.warning("Unexpected approval answer %r for hook '%s' counts as a refusal", answer, hook_name)
    return HookResult(action="deny", reason=f"User denied: {shown}")


def is_consent(answer: object) -> bool:
    """Tell whether an approval system's answer means yes; everything unknown means no."""
    return isinstance(answer, str) and answer.lower() in _CONSENT
