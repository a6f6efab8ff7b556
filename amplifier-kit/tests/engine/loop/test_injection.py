"""What hooks inject for one request is added to it, and to nothing else."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.models import ContextInjection, HookResult
from amplifier_kit.engine.loop.request import inject
from amplifier_kit.engine.loop.session import TurnSession, ephemeral_injections

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "tool": "t", "arguments": {}}]},
    {"role": "tool", "tool_call_id": "a", "content": "result"},
]


def item(content: str, *, glue: bool = False, role: str = "user") -> ContextInjection:
    fields = {"content": content, "role": role, "ephemeral": True, "append_to_last_tool_result": glue}
    return ContextInjection.model_validate(fields)


def test_an_item_becomes_a_message() -> None:
    """A reminder follows as a message with the role it asks for."""
    assert inject(MESSAGES, [item("mind", role="system")])[-1] == {"role": "system", "content": "mind"}


def test_glue_sticks_to_the_last_tool_result() -> None:
    """An item that asks for it is appended to the result with a blank line, others follow as messages."""
    extended = inject(MESSAGES, [item("after"), item("glued", glue=True)])
    assert [m["content"] for m in extended[2:]] == ["result\n\nglued", "after"]


def test_glue_on_a_result_of_blocks() -> None:
    """A result that is a list of blocks gets one more text block."""
    blocks = [*MESSAGES[:2], {**MESSAGES[2], "content": [{"type": "text", "text": "result"}]}]
    assert inject(blocks, [item("glued", glue=True)])[2]["content"][1] == {"type": "text", "text": "\n\nglued"}


def test_glue_without_a_result_is_a_message() -> None:
    """Where the last message is no tool result, the item is a message like any other."""
    assert inject(MESSAGES[:1], [item("x", glue=True)])[1] == {"role": "user", "content": "x"}
    assert inject([], [item("x", glue=True)]) == [{"role": "user", "content": "x"}]


@given(st.lists(st.tuples(st.text(max_size=3), st.booleans())))
def test_the_messages_given_are_not_changed(items: list[tuple[str, bool]]) -> None:
    """Whatever is injected, the history keeps its messages."""
    before = copy.deepcopy(MESSAGES)
    inject(MESSAGES, [item(content, glue=glue) for content, glue in items])
    assert before == MESSAGES


def test_only_ephemeral_items_are_taken() -> None:
    """Of a verdict with several injections, those for good are the kernel's business."""
    kept = ContextInjection(content="for good")
    verdict = HookResult(action="inject_context", context_injections=[kept, item("once")])
    assert [taken.content for taken in ephemeral_injections(verdict, "x:y")] == ["once"]
    assert ephemeral_injections(HookResult(action="inject_context", context_injection="for good"), "x:y") == []
    assert ephemeral_injections(HookResult(action="deny", context_injection="x", ephemeral=True), "x:y") == []
    [single] = ephemeral_injections(HookResult(action="inject_context", context_injection="x", ephemeral=True), "x:y")
    assert (single.content, single.event) == ("x", "x:y")


def test_what_waits_is_taken_once() -> None:
    """A reminder is wrapped, waits for one request, and is gone after it."""
    session = TurnSession(None, None, None)
    session.remind("guard", "try another way")
    [taken] = session.take_injections()
    assert taken.content == '<system-reminder source="guard">\ntry another way\n</system-reminder>'
    assert (taken.role, taken.ephemeral) == ("user", True)
    assert session.take_injections() == []
