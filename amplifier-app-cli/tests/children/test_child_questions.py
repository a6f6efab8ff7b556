"""What the questions of children are about: never the call that started them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amplifier_app_cli.chat.child_questions import ChildQuestions
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.spawn import ChildFacts

Make = Callable[..., ChildFacts]
PROMPT = "Allow process.exec? running a command"


def _required(span: str | None, command: str) -> dict[str, Any]:
    details = {"tool_name": "run", "tool_input": {"command": command}}
    return {"span_id": span, "action": "process.exec", "reason": "running a command", "details": details}


async def test_a_question_of_the_session_is_none_of_a_child(child: Make) -> None:
    """What the session asks itself is left alone, also while children run in other calls."""
    questions, root = ChildQuestions(), MockCoordinator()
    questions.connect(root)
    questions.take(child("one", call="c1"), "approval:required", _required("far", "theirs"))
    assert questions.about(PROMPT) is None
    with root.span("call"):
        await root.hooks.emit("tool:pre", {"span_id": root.span_id, "tool_call_id": "c2"})
        assert questions.about(PROMPT) is None


def test_a_child_of_this_process_is_known_by_where_it_asks(child: Make) -> None:
    """Two children with the same question at the same time are told apart."""
    questions, root = ChildQuestions(), MockCoordinator()
    questions.connect(root)
    with root.span("call"):
        for name in ("one", "two"):
            own = MockCoordinator()
            with own.span("call"):
                questions.take(child(name), "approval:required", _required(own.span_id, name))
                asked = questions.about(PROMPT)
                assert asked is not None
                assert asked.details["tool_input"] == {"command": name}
                assert asked.asker == f"{name} (session {name})"
                assert asked.action == "process.exec"


def test_a_hook_of_a_child_asks_about_its_call(child: Make) -> None:
    """A question that is a hook's own is about the child's call at hand; of what is not known nothing is shown."""
    questions, root, own = ChildQuestions(), MockCoordinator(), MockCoordinator()
    questions.connect(root)
    with root.span("call"), own.span("call"):
        unknown = questions.about("Really?")
        assert unknown is not None
        assert (unknown.details, unknown.action, bool(unknown.asker)) == ({}, "", True)
        questions.take(child("one"), "tool:pre", {"span_id": own.span_id, "tool_name": "run", "tool_input": {"a": 1}})
        asked = questions.about("Really?")
        assert asked is not None
        assert asked.details["tool_input"] == {"a": 1}
        questions.take(child("one"), "tool:post", {"span_id": own.span_id})
        assert questions.about("Really?") == unknown


async def test_a_child_that_never_ended_is_forgotten_with_its_call(child: Make) -> None:
    """A child that was refused, or whose process is gone, has no part in the next call of the same id."""
    questions, root = ChildQuestions(), MockCoordinator()
    questions.connect(root)
    questions.take(child("one", call="c1"), "module:load_failed", {})
    questions.take(child("deep", parent="one", depth=2, call="x"), "approval:required", _required("s1", "first"))
    await root.hooks.emit("tool:error", {"tool_call_id": "c1"})
    with root.span("call"):
        await root.hooks.emit("tool:pre", {"span_id": root.span_id, "tool_call_id": "c1"})
        assert questions.about(PROMPT) is None


async def test_children_of_other_processes(child: Make) -> None:
    """A child that asks from another process is found by its call and its question; when several may be, all are shown.

    None of them can become a rule then, since nobody knows which one it would be about.
    """
    questions, root = ChildQuestions(), MockCoordinator()
    questions.connect(root)
    with root.span("call"):
        await root.hooks.emit("tool:pre", {"span_id": root.span_id, "tool_call_id": "c1"})
        questions.take(child("one", call="c1"), "session:start", {})
        questions.take(child("deep", parent="one", depth=2, call="x"), "approval:required", _required("s1", "first"))
        questions.take(child("else", call="c9"), "approval:required", _required("s3", "elsewhere"))
        asked = questions.about(PROMPT)
        assert asked is not None
        assert (asked.asker, asked.details["tool_input"]) == ("deep (session deep)", {"command": "first"})
        questions.take(child("one", call="c1"), "approval:required", _required("s2", "second"))
        asked = questions.about(PROMPT)
        assert asked is not None
        assert asked.action == ""
        assert [one["tool_input"]["command"] for one in asked.details["one of"]] == ["first", "second"]
        questions.take(child("deep", parent="one", depth=2, call="x"), "approval:denied", {"span_id": "s1"})
        questions.take(child("one", call="c1"), "session:end", {})
        questions.take(child("deep", parent="one", depth=2, call="x"), "session:end", {})
        assert questions.about(PROMPT) is None


def test_a_grandchild_of_another_process_is_known_by_the_call_of_its_parent(child: Make) -> None:
    """It asks from inside a call of a child of this process, which is not what would run and is never shown for it."""
    questions, root, own = ChildQuestions(), MockCoordinator(), MockCoordinator()
    questions.connect(root)
    middle = child("middle", call="c1")
    with root.span("call"), own.span("call"):
        started = {"span_id": own.span_id, "tool_name": "faraway", "tool_input": {"agent": "deep"}}
        questions.take(middle, "tool:pre", {**started, "tool_call_id": "far"})
        deep, other = (child(name, parent="middle", depth=2, call=call) for name, call in (("deep", "far"), ("x", "y")))
        questions.take(deep, "session:start", {})
        unknown = questions.about("Really?")
        assert unknown is not None
        assert unknown.details == {}  # a question that nobody has told of, and surely none about the call `faraway`
        questions.take(other, "approval:required", _required("s1", "of another call"))
        questions.take(deep, "approval:required", _required("s1", "right"))
        asked = questions.about(PROMPT)
        assert asked is not None
        assert (asked.asker, asked.details["tool_input"]) == ("deep (session deep)", {"command": "right"})
        below = child("below", parent="deep", depth=3, call="z")
        questions.take(deep, "approval:denied", {"span_id": "s1"})
        questions.take(below, "approval:required", _required("s2", "further down"))
        asked = questions.about(PROMPT)
        assert asked is not None
        assert asked.details["tool_input"] == {"command": "further down"}
