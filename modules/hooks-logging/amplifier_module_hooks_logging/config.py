"""The config keys of the module, and the events that no config can exclude."""

from fnmatch import fnmatchcase
from typing import Annotated, Final

from pydantic import Field, Strict

from amplifier_kit.config import Config, expects
from amplifier_kit.log.open_work import TRACKED

__all__ = ["ALWAYS_RECORDED", "EXCLUDED", "LogConfig", "is_always_recorded"]

#: The deltas of a stream and the borders of its blocks: each block has one line anyway, `content_block:end`.
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


#: The audit of a session, and the events from which the tree of a run is built. There is no other record of them.
ALWAYS_RECORDED: Final = (
    "approval:*",  # who was asked, who allowed what, which requests are pending
    "policy:*",  # denials, and rules that an answer added
    "tool:pre",  # the calls and their results
    "tool:post",
    "tool:error",
    "artifact:write",  # which file was written, whatever the call named it
    "hook-shell:*",  # commands that hooks ran, and those that were denied
    "mcp:*",  # programs that were started, and servers that were not trusted
    "sandbox:*",  # the active limits, and what they blocked
    "module:*",  # a guard that could not be loaded
    "session:*",  # the start of a session, its origin, its end
    "delegate:*",  # the children it started
    "task:*",
    "prompt:submit",  # the turns, to which everything else belongs
    "prompt:complete",
    "execution:start",
    "execution:end",
    "orchestrator:complete",
    "cancel:*",  # who stopped it
    "budget:*",  # which limit stopped it
)


def is_always_recorded(event: str) -> bool:
    """Return whether an event is recorded whatever the config says."""
    return event in TRACKED or any(fnmatchcase(event, pattern) for pattern in ALWAYS_RECORDED)
