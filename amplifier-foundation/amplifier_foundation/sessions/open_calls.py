"""Know the tool calls of a session that are under way: a hook that asks names none, and asks from inside of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

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
_KEYS: Final = ("tool_name", "tool_input", "tool_call_id")

#: What a call was made with: `tool_name`, `tool_input` and `tool_call_id`.
CallDetails = dict[str, Any]


class OpenCalls:
    """The latest tool calls, by the span that they run in."""

    def __init__(self) -> None:
        self._calls: dict[str, CallDetails] = {}
        #: Spans whose call hooks hear of just now: it has not run yet.
        self._in_hooks: set[str] = set()

    def connect(self, coordinator: Any) -> None:
        """Hear the calls of a session."""
        for event in (TOOL_PRE, APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED, TOOL_POST, TOOL_ERROR):
            coordinator.hooks.register(event, self.take, priority=_FIRST, name="app-open-calls")

    def take(self, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of a session."""
        span = str(data.get("span_id"))
        if event != TOOL_PRE:
            # Policies are asked after the hooks of a call; what hooks and modules ask, they ask among them.
            if event in (TOOL_POST, TOOL_ERROR) or data.get("origin") == "policy":
                self._in_hooks.discard(span)
            return
        self._in_hooks.add(span)
        kept = dict(list(self._calls.items())[-_MOST:])
        self._calls = {**kept, span: {key: data.get(key) for key in _KEYS}}

    def about(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call that a request is about, with the input as it will run; None when it is about none."""
        call = self._calls.get(str(request.span_id))
        if call is None or not isinstance(call["tool_input"], dict) or not isinstance(call["tool_call_id"], str):
            return None
        details = request.details
        is_same = request.origin == "policy" and details.get("tool_call_id") == call["tool_call_id"]
        if is_same and isinstance(given := details.get("tool_input"), dict):
            return {**call, "tool_input": given}  # as hooks have left it
        return call

    def latest(self, request: ApprovalRequest) -> CallDetails | None:
        """Return the call in whose span a request was made, whatever it was made with; None when there is none."""
        return self._calls.get(str(request.span_id))

    def is_in_hooks(self, request: ApprovalRequest) -> bool:
        """Tell whether a request is made while hooks hear of its call, which has not run yet."""
        return str(request.span_id) in self._in_hooks
