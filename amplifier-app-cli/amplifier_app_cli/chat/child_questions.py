"""Know the child sessions that may ask: whom a request comes from, and the call that a hook of theirs asks about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_foundation.sessions.open_calls import CallDetails, OpenCalls

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest
    from amplifier_foundation.spawn import ChildFacts


class ChildQuestions:
    """Hear the sessions below one; a request names the session that makes it."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[ChildFacts, OpenCalls]] = {}

    def take(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take one event of a child, or of a child of one."""
        if event == "session:end":
            self._running.pop(facts.session_id, None)
            return
        _, calls = self._running.setdefault(facts.session_id, (facts, OpenCalls()))
        if event.startswith(("tool:", "approval:")):
            calls.take(event, data)

    def asker(self, request: ApprovalRequest) -> str:
        """Return the agent that makes a request, by name and session."""
        facts, _ = self._running.get(str(request.session_id), (None, None))
        return f"the agent {facts.agent} (session {facts.session_id})" if facts is not None else "an agent"

    def call(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call of a child that a hook asks about, None without one."""
        _, calls = self._running.get(str(request.session_id), (None, None))
        return calls.latest(request) if calls is not None else None
