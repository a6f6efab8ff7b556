"""Ids of child sessions, and the depth of a session in its tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["DEPTH_KEY", "child_session_id", "delegation_depth", "is_session_id"]

#: The key in `session.metadata` of a child's plan for the number of its ancestors.
DEPTH_KEY: Final = "delegation_depth"

_NO_SPAN: Final = "0" * 16
_CHILD: Final = re.compile(r"[0-9a-f]{16}-([0-9a-f]{16})_.+")
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_NAME: Final = re.compile(r"[^a-z0-9]")
_LONGEST_NAME: Final = 80


def child_session_id(parent_id: str, tool_call_id: str | None, agent: str) -> str:
    """Return the id of the child that a call starts: `<span of the parent>-<span of the child>_<agent>`.

    The same call of the same parent always gives the same id, so that a call repeated after a crash finds its child.
    A call without an id gives a new one each time.
    """
    import hashlib
    import os

    if tool_call_id:
        content = f"{parent_id}\0{tool_call_id}".encode("utf-8", "surrogatepass")
        span = hashlib.sha256(content).hexdigest()[:16]
    else:
        span = os.urandom(8).hex()
    name = _NAME.sub("-", agent.lower())[:_LONGEST_NAME] or "agent"
    return f"{_span_of(parent_id)}-{span}_{name}"


def _span_of(session_id: str) -> str:
    own = _CHILD.fullmatch(session_id)
    if own is not None:
        return own.group(1)
    return session_id[8:24] if _TRACE.fullmatch(session_id) else _NO_SPAN


def is_session_id(text: str) -> bool:
    """Tell whether a text can be the id of a session: no path, no space, of bounded length."""
    return _SESSION_ID.fullmatch(text) is not None and ".." not in text


def delegation_depth(coordinator: Any) -> int:
    """Return the number of ancestors of a session, from its plan; 0 for a root."""
    config = getattr(coordinator, "config", None)
    session = config.get("session") if isinstance(config, Mapping) else None
    metadata = session.get("metadata") if isinstance(session, Mapping) else None
    depth = metadata.get(DEPTH_KEY) if isinstance(metadata, Mapping) else None
    return depth if isinstance(depth, int) and not isinstance(depth, bool) and depth > 0 else 0
