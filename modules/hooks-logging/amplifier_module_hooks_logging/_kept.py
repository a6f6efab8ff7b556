"""Know the events that no config keeps out of the log: they are the audit, and what the tree of a run is made of."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from amplifier_kit.log.open_work import TRACKED

#: What must be told of a session afterwards. There is no other record of it.
KEPT: Final = (
    "approval:*",  # who was asked, who allowed what, what waits
    "policy:*",  # what was denied, what holds from an answer on
    "tool:pre",  # what was to be done, and what came of it
    "tool:post",
    "tool:error",
    "artifact:write",  # which file was written, whatever the call named it
    "hook-shell:*",  # commands that hooks ran, and those that were refused
    "mcp:*",  # programs that were started, and servers that were not trusted
    "sandbox:*",  # which walls there were, and what they stopped
    "module:*",  # a guard that could not be loaded
    "session:*",  # where a session began, what it came from, how it ended
    "delegate:*",  # whom it had work for it
    "task:*",
    "prompt:submit",  # the turns, in which everything else stands
    "prompt:complete",
    "execution:start",
    "execution:end",
    "orchestrator:complete",
    "cancel:*",  # who stopped it
    "budget:*",  # what stopped it
)


def is_kept(event: str) -> bool:
    """Tell whether an event is recorded whatever the config says."""
    return event in TRACKED or any(fnmatchcase(event, pattern) for pattern in KEPT)
