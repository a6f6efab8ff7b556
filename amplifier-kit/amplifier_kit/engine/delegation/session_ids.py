"""Ids of child sessions, and the depth of a session in its tree. Light to import, for tools that only read logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

#: The key in `session.metadata` of a child's plan for the number of its ancestors.
DEPTH_KEY: Final = "delegation_depth"

_NO_SPAN: Final = "0" * 16
_CHILD: Final = r"[0-9a-f]{16}-([0-9a-f]{16})_.+"
_TRACE: Final = r"[0-9a-f]{32}"
_SESSION_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_LONGEST_NAME: Final = 80


def child_session_id(parent_id: str, tool_call_id: str | None, agent: str) -> str:
    """Return the id of the child that a call starts: `<span of the parent>-<span of the child>_<agent>`.

    The same call of the same parent always gives the same id, so that a call repeated after a crash finds its child.
    A call without an id gives a new one each time.
    """
    import hashlib
    import os

    if parent := re.fullmatch(_CHILD, parent_id):
        parent_span = parent.group(1)
    else:
        parent_span = parent_id[8:24] if re.fullmatch(_TRACE, parent_id) else _NO_SPAN
    if tool_call_id:
        content = f"{parent_id}\0{tool_call_id}".encode("utf-8", "surrogatepass")
        span = hashlib.sha256(content).hexdigest()[:16]
    else:
        span = os.urandom(8).hex()
    name = re.sub(r"[^a-z0-9]", "-", agent.lower())[:_LONGEST_NAME] or "agent"
    return f"{parent_span}-{span}_{name}"


def is_session_id(text: str) -> bool:
    """Return whether a text can be the id of a session: no path, no space, of bounded length."""
    return re.fullmatch(_SESSION_ID, text) is not None and ".." not in text


def delegation_depth(coordinator: Any) -> int:
    """Return the number of ancestors of a session, from its plan; 0 for a root."""
    session = plan_section(getattr(coordinator, "config", None), "session")
    depth = plan_section(session, "metadata").get(DEPTH_KEY)
    return depth if isinstance(depth, int) and not isinstance(depth, bool) and depth > 0 else 0


def plan_section(plan: Any, key: str) -> Mapping[str, Any]:
    """Return the mapping below a key of a plan or of a part of it, empty if it is missing."""
    section = plan.get(key) if isinstance(plan, Mapping) else None
    return section if isinstance(section, Mapping) else {}
