"""How large a request may be: the config, estimates of tokens, the budget, and how far the estimates are off."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import ceil
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, Strict

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.config import Config, Count, Seconds, expects
from amplifier_kit.engine.usage import UsageRecord
from amplifier_kit.struct import FrozenStruct

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN: Final = 4
#: The most that models charge for an image of usual size, however many characters encode it.
IMAGE_TOKENS: Final = 1600

#: Reserved for tool schemas, framing and estimates that are too low, unless `request_overhead` among the defaults of
#: the provider's model says otherwise.
SAFETY_MARGIN: Final = 4096
#: A request gets at least this fraction (one in 8) of a small context window.
_SMALLEST_SHARE: Final = 8

#: A response that took less than this share of the estimate answers another, smaller request.
_PLAUSIBLE: Final = 0.25
_STEPS: Final = 20
_SLACK: Final = 0.1
_LARGEST: Final = 8.0

Message = dict[str, Any]

# -- config --

#: The smallest limit of a tool result: in fewer bytes a clipped text would be little more than its marker.
SMALLEST_LIMIT: Final = 256

_Number = Annotated[int, Field(ge=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_PositiveShare = Annotated[float, Field(gt=0, le=1)]
_Names = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Strict(False), expects("a list of capability names")
]


class ContextConfig(Config):
    """How large a request may be and how it is made to fit."""

    forgiven_keys: ClassVar[frozenset[str]] = frozenset({"max_tokens"})

    max_tokens: Count | None = Field(
        None, description="Tokens that a request may take, however much the model can; null for no cap."
    )
    max_tokens_fallback: Count = Field(
        200_000, description="Budget when neither the caller, nor the provider, nor `max_tokens` names one."
    )
    output_reserve_fraction: _Share = Field(0.5, description="Share of the model's longest answer that is kept free.")
    token_meter: Literal["estimate", "actual"] = Field(
        "estimate", description="How requests are measured; `actual` learns from what providers report."
    )
    max_tool_result_bytes: Annotated[int, Field(ge=SMALLEST_LIMIT)] = Field(
        131_072, description="UTF-8 bytes of text that one tool result may have in the history."
    )
    compact_threshold: _PositiveShare = Field(
        0.92, description="Share of the budget above which requests are compacted."
    )
    target_usage: _PositiveShare = Field(0.50, description="Share of the budget that compaction aims at.")
    protected_recent: _Share = Field(0.30, description="Share of the newest messages that is removed last.")
    protected_tool_results: _Number = Field(5, description="Newest tool results that are not truncated.")
    truncate_chars: _Number = Field(250, description="Characters that a truncated tool result keeps.")
    compaction_notice_enabled: bool = Field(True, description="Tell the model what was compacted.")
    compaction_notice_token_reserve: _Number = Field(800, description="Tokens that are kept free for that notice.")
    compaction_notice_verbosity: Literal["minimal", "normal", "verbose"] = Field(
        "normal", description="How much the notice says."
    )
    compaction_notice_min_level: _Number = Field(1, description="Level of compaction from which on there is a notice.")
    instruction_filters: _Names = Field(
        (), description="Names of capabilities `(text) -> text` that the instructions pass through, in order."
    )
    instruction_callback_timeout_s: Seconds = Field(
        5.0, description="Seconds that the system prompt factory, and each filter, may take."
    )
    instruction_callback_max_workers: Count = Field(
        4, description="Threads for factories and filters that are not coroutine functions."
    )


# -- estimates --


def estimate_tokens(message: Any) -> int:
    """Return about how many tokens one message takes: a quarter of the characters of `str(message)`.

    An image counts IMAGE_TOKENS at most: its encoded bytes are not read as text. The time is proportional to the
    message, so estimate once and keep the number.
    """
    content = message.get("content") if isinstance(message, dict) else None
    images = [block for block in content if is_image(block)] if isinstance(content, list) else ()
    if not images:
        return len(str(message)) // CHARACTERS_PER_TOKEN
    rest = {**message, "content": [block for block in content or () if not is_image(block)]}
    pictured = sum(min(len(str(image)) // CHARACTERS_PER_TOKEN, IMAGE_TOKENS) for image in images)
    return len(str(rest)) // CHARACTERS_PER_TOKEN + pictured


def is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in ("image", "image_url")


def estimate_all(messages: Iterable[Any]) -> int:
    """Return about how many tokens messages take together."""
    return sum(map(estimate_tokens, messages))


# -- the budget of a request --


class TokenBudget(FrozenStruct):
    """The token budget of a request and how it is divided."""

    #: The whole request.
    total: int
    #: The total without the reserve for the compaction notice.
    usable: int
    #: Tokens of the system part.
    system: int
    #: Above this many tokens the conversation is compacted.
    threshold: int
    #: Tokens of conversation that a compaction aims at.
    target: int

    @property
    def limit(self) -> int:
        """Return the most tokens of conversation that can be sent."""
        return self.total - self.system

    @classmethod
    def divide(cls, total: int, system: int, settings: ContextConfig) -> TokenBudget:
        """Divide a budget as configured.

        The target is a share of the budget, the system part included. When that part is large, the conversation still
        keeps a third of its threshold: long instructions must not cost the whole history.
        """
        reserve = settings.compaction_notice_token_reserve if settings.compaction_notice_enabled else 0
        usable = max(total - reserve, total // 2)
        threshold = max(int(usable * settings.compact_threshold) - system, 0)
        target = max(int(usable * settings.target_usage) - system, threshold // 3)
        return cls(total, usable, system, threshold, min(target, threshold))


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
    for method in ("get_model_info", "get_info"):
        ask = getattr(provider, method, None)
        try:
            info = await maybe_await(ask()) if callable(ask) else None
        except Exception as error:
            name = getattr(provider, "name", type(provider).__name__)
            logger.warning("Provider %s: %s() failed and is ignored for the token budget: %s", name, method, error)
            continue
        if method == "get_info":
            info = _get(info, "defaults")
        window, output = _get(info, "context_window"), _get(info, "max_output_tokens")
        if _is_positive(window):
            reserve = int(output * settings.output_reserve_fraction) if _is_positive(output) else 0
            overhead = _get(_get(info, "defaults"), "request_overhead")
            margin = overhead if _is_positive(overhead) else SAFETY_MARGIN
            return int(max(window - reserve - margin, window // _SMALLEST_SHARE))
    return None


def _get(info: Any, key: str) -> Any:
    return info.get(key) if isinstance(info, dict) else getattr(info, key, None)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# -- measured answers --


class TokenMeter:
    """Learn from each answered request how far the estimates are off."""

    def __init__(self) -> None:
        #: Real tokens per estimated token, in coarse steps so that views stay steady.
        self.ratio = 1.0
        self._pending: tuple[list[Message], int, int] | None = None
        self._measured: dict[str, Any] | None = None
        self._view: list[Message] = []

    def expect(self, messages: list[Message], estimated: int, budget: int) -> None:
        """Set the request that the next response answers."""
        self._pending = (messages, estimated, budget)

    def record(self, answer: UsageRecord) -> None:
        """Learn from an answer, unless it has no input tokens or belongs to a smaller request."""
        if self._pending is None:
            return
        messages, estimated, budget = self._pending
        read, written = answer.input_tokens or 0, answer.cache_write_tokens or 0
        used = read + written
        if used <= 0 or used < estimated * _PLAUSIBLE:
            return
        self._pending = None
        self._view = messages
        self._measured = {
            "input_tokens": read,
            "cache_write_tokens": written,
            "measured_tokens": used,
            "estimated_tokens": estimated,
            "budget": budget,
        }
        seen = used / max(estimated, 1)
        if not self.ratio - _SLACK <= seen <= self.ratio:
            self.ratio = min(max(ceil(seen * _STEPS) / _STEPS, _PLAUSIBLE), _LARGEST)

    def usage(self) -> dict[str, Any] | None:
        """Return the measured tokens of the latest answered request, None before the first answer."""
        return None if self._measured is None else dict(self._measured)

    def view(self) -> dict[str, Any] | None:
        """Return `usage()` with the messages of that request."""
        return None if self._measured is None else {**self._measured, "messages": [dict(m) for m in self._view]}
