"""Make the ids of child sessions, for apps that start children themselves."""

from __future__ import annotations

from amplifier_kit.engine.delegation.session_ids import child_session_id

__all__ = ["generate_sub_session_id"]


def generate_sub_session_id(
    agent_name: str | None = None,
    parent_session_id: str | None = None,
    parent_trace_id: str | None = None,
) -> str:
    """Return a new id: `<span of the parent>-<span of the child>_<agent>`, spans in 16 hex digits.

    The parent's span is that in its session id, if it is a child itself, else the middle of its trace id, else zeros.
    """
    parent = parent_session_id or ""
    own = child_session_id(parent, None, agent_name or "")
    if parent_trace_id and own.startswith("0" * 16):
        own = child_session_id(parent_trace_id, None, agent_name or "")
    return own
