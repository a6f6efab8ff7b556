"""Name child sessions so that the same call always means the same child.

<parent span>-<first 16 hex of sha256(parent id, tool call id)>_<agent>
"""

from __future__ import annotations

import re
from typing import Final

from amplifier_kit.engine.delegation.session_ids import child_session_id, is_session_id

#: `<parent span>-<own span>_<agent>`.
_CHILD: Final = re.compile(r"(?P<above>[0-9a-f]{16})-(?P<span>[0-9a-f]{16})_.+")


def child_id(parent_id: str, tool_call_id: str | None, agent: str, *distinct: str) -> str:
    """Return the id of the child that a call starts; without a call it is another one every time.

    `distinct` tells children apart that one call id stands for: a second task in one call, an id that is used again.
    """
    call = tool_call_id if tool_call_id is None else "\0".join((tool_call_id, *distinct))
    return child_session_id(parent_id, call, agent)


def children_begin_with(parent_id: str) -> str:
    """Return what the ids of a session's children begin with; those of other sessions may begin with it too."""
    return child_session_id(parent_id, None, "").partition("-")[0] + "-"


def call_begins_with(parent_id: str, tool_call_id: str) -> str:
    """Return what the ids of the children of a call begin with, whichever agent they are."""
    return child_session_id(parent_id, tool_call_id, "").partition("_")[0] + "_"


def own_span(session_id: str) -> str | None:
    """Return the span in a child's id, None for an id of another form."""
    own = _CHILD.fullmatch(session_id)
    return own["span"] if own is not None else None


def is_plain(session_id: object) -> bool:
    """Tell whether something may be the id of a child, and so the name of its folder."""
    return isinstance(session_id, str) and is_session_id(session_id)
