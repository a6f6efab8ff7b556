"""The config keys that all context managers share."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, Strict

from amplifier_kit.config import Config, Count, Seconds, expects

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
