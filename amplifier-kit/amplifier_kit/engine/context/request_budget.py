"""The token budget of a request."""

from __future__ import annotations

import logging
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.context.config import ContextConfig

__all__ = ["SAFETY_MARGIN", "request_budget"]

logger = logging.getLogger(__name__)

#: Reserved for tool schemas, framing and estimates that are too low.
SAFETY_MARGIN: Final = 4096
#: A request gets at least this fraction (one in 8) of a small context window.
_SMALLEST_SHARE: Final = 8


async def request_budget(token_budget: int | None, provider: Any, settings: ContextConfig) -> int:
    """Return the budget of a request.

    In this order: the caller's, the provider's for its model, capped by `max_tokens`; `max_tokens`;
    `max_tokens_fallback`. A provider that fails to answer is logged and skipped.
    """
    if token_budget is not None:
        return int(token_budget)
    model = await _model_budget(provider, settings)
    if model is None:
        return settings.max_tokens or settings.max_tokens_fallback
    return model if settings.max_tokens is None else min(model, settings.max_tokens)


async def _model_budget(provider: Any, settings: ContextConfig) -> int | None:
    for method, facts in (("get_model_info", None), ("get_info", "defaults")):
        said = await _ask(provider, method)
        if facts is not None:
            said = _read(said, facts)
        window = _whole(_read(said, "context_window"))
        if window is not None:
            output = _whole(_read(said, "max_output_tokens")) or 0
            left = window - int(output * settings.output_reserve_fraction) - SAFETY_MARGIN
            return max(left, window // _SMALLEST_SHARE)
    return None


async def _ask(provider: Any, method: str) -> Any:
    ask = getattr(provider, method, None)
    if not callable(ask):
        return None
    try:
        return await maybe_await(ask())
    except Exception as error:
        name = getattr(provider, "name", type(provider).__name__)
        logger.warning("Provider %s: %s() failed, so it has no say in the token budget: %s", name, method, error)
        return None


def _read(said: Any, key: str) -> Any:
    return said.get(key) if isinstance(said, dict) else getattr(said, key, None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
