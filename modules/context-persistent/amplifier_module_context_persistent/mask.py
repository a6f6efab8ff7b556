"""Keep secrets out of the transcript: lines are masked, messages in memory are not."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import Any

from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.redaction.known_values import live_values_from_env, live_values_from_plan
from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_kit.guard.redaction.redactor import Redactor

__all__ = ["mask_for", "masked_count"]

logger = logging.getLogger(__name__)

Message = dict[str, Any]

_MASK_START = MASK.rstrip("]")


def mask_for(coordinator: Any) -> Callable[[Message], Message]:
    """Return the function that masks the secrets in a message before it is written.

    The session's own redaction (capability `redaction.scrub`) is used if present; else known secrets of the environment
    and the plan, and text that looks like one, are masked. A message that cannot be masked is written without content.
    """
    own: Redactor | None = None

    def scrub(message: Message) -> Any:
        nonlocal own
        offered = coordinator.get_capability("redaction.scrub")
        if callable(offered):
            return plain_result(offered(message))
        if own is None:
            live = [*live_values_from_env(os.environ), *live_values_from_plan(coordinator.config)]
            own = Redactor(live, rules=("secrets",))
        return own.scrub(message).value

    def mask(message: Message) -> Message:
        try:
            masked = scrub(message)
            if not isinstance(masked, dict):
                raise TypeError(f"redaction.scrub returned {type(masked).__name__} for a message")
        except Exception as error:
            logger.error("context-persistent: a message cannot be masked and is written without content: %s", error)
            masked = {"role": message["role"], "content": MASK, "tool_calls": _bare_calls(message.get("tool_calls"))}
        return _with_join_keys({key: value for key, value in masked.items() if value is not None}, message)

    return mask


def masked_count(messages: Iterable[Message]) -> int:
    """Return how many messages have a mask in them."""
    return sum(_MASK_START in str(message) for message in messages)


def _bare_calls(calls: Any) -> list[dict[str, Any]] | None:
    if not isinstance(calls, list):
        return None
    return [{key: call[key] for key in ("id", "tool") if key in call} for call in calls if isinstance(call, dict)]


def _with_join_keys(masked: Message, message: Message) -> Message:
    """Restore the ids that pair calls with their results, in case a rule has masked them."""
    for key in ("role", "tool_call_id", "name"):
        if key in message:
            masked[key] = message[key]
    for key in ("tool_calls", "content"):
        calls, before = masked.get(key), message.get(key)
        if isinstance(calls, list) and isinstance(before, list) and len(calls) == len(before):
            for call, original in zip(calls, before, strict=True):
                if isinstance(call, dict) and isinstance(original, dict) and "id" in original:
                    call["id"] = original["id"]
    return masked
