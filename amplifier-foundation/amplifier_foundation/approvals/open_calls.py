"""Track the tool calls in progress, to find the call that a request is about: a hook that asks names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_core.events import (
    APPROVAL_DENIED,
    APPROVAL_GRANTED,
    APPROVAL_REQUIRED,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest

#: Before hooks that change or mask what they pass on.
_FIRST: Final = -1000
_MOST: Final = 100

#: The `tool_name`, `tool_input` and `tool_call_id` of a call.
CallDetails = dict[str, Any]


class OpenCalls:
    """The latest tool calls of a session, by the span that they run in."""

    def __init__(self) -> None:
        self._calls: dict[str, CallDetails] = {}
        #: Spans whose call is still with the hooks on `tool:pre`: it has not run yet.
        self._in_hooks: set[str] = set()

    def connect(self, coordinator: Any) -> None:
        """Listen to a session."""
        for event in (TOOL_PRE, APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED, TOOL_POST, TOOL_ERROR):
            coordinator.hooks.register(event, self.record, priority=_FIRST, name="app-open-calls")

    def record(self, event: str, data: Mapping[str, Any]) -> None:
        """Process an event of the session."""
        span = str(data.get("span_id"))
        if event == TOOL_PRE:
            self._in_hooks.add(span)
            call = {key: data.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
            self._calls = {**dict(list(self._calls.items())[-_MOST:]), span: call}
        elif event in (TOOL_POST, TOOL_ERROR) or data.get("origin") == "policy":
            # Policies are asked after the hooks of a call; hooks and modules ask while hooks run.
            self._in_hooks.discard(span)

    def about(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call that a request is about, with the input as it will run; None without a complete call."""
        call = self.latest(request)
        if call is None or not isinstance(call["tool_input"], dict) or not isinstance(call["tool_call_id"], str):
            return None
        details = request.details
        is_same = request.origin == "policy" and details.get("tool_call_id") == call["tool_call_id"]
        if is_same and isinstance(given := details.get("tool_input"), dict):
            return {**call, "tool_input": given}  # as the hooks have left it
        return call

    def latest(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call in whose span a request was made, complete or not; None outside of calls."""
        return self._calls.get(str(request.span_id))

    def is_in_hooks(self, request: ApprovalRequest) -> bool:
        """Return whether a request is made while hooks look at its call, which has not run yet."""
        return str(request.span_id) in self._in_hooks


class ChildFacts(Protocol):
    """What identifies a child session: a part of `sessions.origin.ChildFacts`."""

    @property
    def session_id(self) -> str: ...

    @property
    def agent(self) -> str: ...


class ChildCalls:
    """The tool calls of child sessions; a request names the session that makes it."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[ChildFacts, OpenCalls]] = {}

    def record(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Process an event of a child or of one of its children."""
        if event == "session:end":
            self._sessions.pop(facts.session_id, None)
            return
        _, calls = self._sessions.setdefault(facts.session_id, (facts, OpenCalls()))
        if event.startswith(("tool:", "approval:")):
            calls.record(event, data)

    def asker(self, request: ApprovalRequest) -> str:
        """Return the agent that makes a request, by name and session."""
        facts, _ = self._sessions.get(str(request.session_id), (None, None))
        return f"the agent {facts.agent} (session {facts.session_id})" if facts is not None else "an agent"

    def call(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call of a child that a hook asks about, if any."""
        _, calls = self._sessions.get(str(request.session_id), (None, None))
        return calls.latest(request) if calls is not None else None
