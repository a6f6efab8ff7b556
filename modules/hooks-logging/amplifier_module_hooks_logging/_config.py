"""The config keys of the module."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from amplifier_kit.config import Config, expects

__all__ = ["EXCLUDED", "LogConfig"]

#: The pieces of a stream and the borders of its blocks: every block is in a line of its own, `content_block:end`.
EXCLUDED = ("llm:stream_*delta", "llm:stream_block_*", "content_block:start")

_Events = Annotated[tuple[str, ...], Strict(False), expects("a list of event names")]
_Path = Annotated[str, Field(min_length=1), expects("a path")]


class LogConfig(Config):
    """What a bundle may set."""

    priority: Annotated[int, Strict(False), expects("a whole number")] = Field(
        100, description="When the handler runs, on a kernel without observers."
    )
    auto_discover: bool = Field(
        True,
        description="Record every event; else the canonical ones, `additional_events` and those of the audit.",
    )
    additional_events: _Events = Field((), description="Events to record besides the canonical ones.")
    exclude_events: _Events = Field(
        EXCLUDED,
        description="Patterns of events that are not recorded; those of the audit always are.",
    )
    strip_raw: bool = Field(False, description="Leave out `raw`, in which providers put what they sent and received.")
    verify: bool = Field(False, description="Put the hash of the line before into every line; a changed line shows.")
    session_log_template: _Path | None = Field(
        None, description="Where the log lies when the app does not write one itself; null for the usual place."
    )
