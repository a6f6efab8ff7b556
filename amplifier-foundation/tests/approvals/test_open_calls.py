"""Requests of child sessions are about the session they name, never the call that started it."""

from __future__ import annotations

from typing import Any

from amplifier_core import ApprovalRequest
from amplifier_foundation.approvals.open_calls import ChildCalls
from amplifier_foundation.sessions.origin import ChildFacts


def child(name: str, parent: str = "root", depth: int = 1) -> ChildFacts:
    return ChildFacts(name, parent, name, depth)


def _request(session: str | None, span: str = "s1") -> ApprovalRequest:
    facts: dict[str, Any] = {"session_id": session, "span_id": span, "origin": "hook", "prompt": "Really?"}
    return ApprovalRequest(tool_name="", action="hook.ask", risk_level="unknown", **facts)


def _call(span: str, command: str) -> dict[str, Any]:
    return {"span_id": span, "tool_name": "run", "tool_input": {"command": command}, "tool_call_id": f"call {command}"}


def test_a_request_names_its_session() -> None:
    """Children with the same question at the same time, however deep and wherever they run, are told apart."""
    calls = ChildCalls()
    for facts in (child("one"), child("two"), child("deep", parent="one", depth=2)):
        calls.record(facts, "session:start", {})
    for name in ("one", "two", "deep"):
        assert calls.asker(_request(name)) == f"the agent {name} (session {name})"


def test_a_session_that_is_not_known_is_an_agent() -> None:
    """A child of which nothing was heard yet, or no more, is not taken for another one."""
    calls = ChildCalls()
    calls.record(child("one"), "session:start", {})
    calls.record(child("two"), "tool:pre", _call("s1", "make"))
    calls.record(child("two"), "session:end", {})
    for unknown in ("two", "three", None):
        assert calls.asker(_request(unknown)) == "an agent"
        assert calls.call(_request(unknown)) is None


def test_a_hook_of_a_child_asks_about_its_call() -> None:
    """The call is the one of the session and the span that ask: not that of another child, nor one beside it."""
    calls = ChildCalls()
    calls.record(child("one"), "tool:pre", _call("s1", "first"))
    calls.record(child("one"), "tool:pre", _call("s2", "second"))
    calls.record(child("two"), "tool:pre", _call("s1", "of another"))
    asked = [calls.call(_request(name, span)) for name, span in (("one", "s1"), ("one", "s2"), ("two", "s1"))]
    assert [call["tool_input"]["command"] for call in asked if call] == ["first", "second", "of another"]
    assert calls.call(_request("two", "s2")) is None
