"""What is read from the messages of a request."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, Message, ToolSpec
from amplifier_kit.llm.request import (
    Call,
    Conversation,
    Image,
    Redacted,
    Result,
    Text,
    Thinking,
    Turn,
    instruction_text,
    native_spec,
    read_conversation,
    read_tool_choice,
    safe_id,
)


def _read(*messages: dict[str, Any]) -> Conversation:
    return read_conversation([Message(**message) for message in messages])


def test_instructions_in_front() -> None:
    """System messages in front are the system prompt; later ones stay where they are."""
    read = _read(
        {"role": "system", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "d"},
        {"role": "developer", "content": "e"},
    )
    assert read.system == ("a", "b")
    assert [(turn.role, turn.text) for turn in read.turns] == [("user", "c"), ("system", "d"), ("developer", "e")]


def test_calls_in_blocks_and_lists() -> None:
    """A call that stands in a block and in the list is one call; the forms of other programs are understood."""
    read = _read(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "tool_call", "id": "1", "name": "a", "input": {"n": 1}, "gemini:sig": "s", "other": 2},
            ],
            "tool_calls": [
                {"id": "1", "tool": "a", "arguments": {"n": 1}},
                {"id": "2", "function": {"name": "b", "arguments": '{"n": 2}'}},
                {"id": "3", "name": "c", "input": {"n": 3}},
                {"id": "4", "name": "d", "arguments": "{broken"},
            ],
        },
        *({"role": "tool", "tool_call_id": number, "content": "done"} for number in "1234"),
    )
    assert read.turns[0].parts == (
        Text("x"),
        Call("1", "a", {"n": 1}, {"gemini:sig": "s"}),
        Call("2", "b", {"n": 2}),
        Call("3", "c", {"n": 3}),
        Call("4", "d", {}),
    )
    assert [turn.parts for turn in read.turns[1:]] == [
        (Result(number, name, (Text("done"),)),) for number, name in zip("1234", "abcd", strict=True)
    ]
    assert read.repairs == ()


def test_results_with_images() -> None:
    """Results hold text and images, by value and by reference, in whichever block they come."""
    source = {"type": "base64", "media_type": "image/jpeg", "data": "QQ=="}
    read = _read(
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "a", "arguments": {}}]},
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": [
                {"type": "text", "text": "seen"},
                {"type": "image", "source": source},
                {
                    "type": "tool_result",
                    "tool_call_id": "1",
                    "output": [
                        {"type": "text", "text": "more"},
                        {"type": "image", "source": {"url": "data:image/gif;base64,Rw=="}},
                    ],
                },
            ],
        },
    )
    [result] = read.turns[1].parts
    assert isinstance(result, Result)
    assert result.text == "seen\nmore"
    assert result.images == (Image("image/jpeg", "QQ=="), Image("image/gif", "Rw=="))
    assert result.images[0].data_url == "data:image/jpeg;base64,QQ=="


def test_thinking_knows_its_origin() -> None:
    """Reasoning is sent only to its origin; unsigned reasoning without an origin is never sent."""
    blocks = [
        {"type": "thinking", "thinking": "own", "signature": "s", "origin": "here"},
        {"type": "thinking", "thinking": "foreign", "signature": "s", "origin": "there"},
        {"type": "thinking", "thinking": "unsigned"},
        {"type": "thinking", "thinking": "old", "signature": "s"},
        {"type": "redacted_thinking", "data": "d", "origin": "there"},
        {"type": "redacted_thinking", "data": "e", "origin": "here"},
        {"type": "text", "text": "said"},
    ]
    [turn] = _read({"role": "assistant", "content": blocks}).turns
    assert len(turn.parts) == 7
    kept = turn.of_origin("here").parts
    assert kept == (
        Thinking("own", "s", "here"),
        Thinking("old", "s", None),
        Redacted("e", "here"),
        Text("said"),
    )


def test_reasoning_blocks() -> None:
    """Reasoning in the form of content and summary is thinking with its items kept."""
    block = {"type": "reasoning", "content": [{"id": "r"}], "summary": [{"text": "a"}, "b"], "origin": "openai"}
    [turn] = _read({"role": "assistant", "content": [block]}).turns
    assert turn.parts == (Thinking("a\nb", None, "openai", [{"id": "r"}]),)


def test_empty_messages_are_left_out() -> None:
    """What says nothing is not sent."""
    assert _read({"role": "user", "content": ""}, {"role": "assistant", "content": []}).turns == ()


def test_only_models_think_and_call() -> None:
    """What a user's message holds besides text and images is text, or nothing."""
    blocks = [
        {"type": "thinking", "thinking": "x", "signature": "s"},
        {"type": "tool_call", "id": "1", "name": "a", "input": {}},
        {"type": "tool_result", "tool_call_id": "1", "output": {"a": 1}},
        {"type": "text", "text": "said"},
    ]
    [turn] = _read({"role": "user", "content": blocks}).turns
    assert turn.parts == (Text("said"), Text('{"a": 1}'))


def test_broken_pairs_are_mended() -> None:
    """A lost result is replaced, and the repair is reported."""
    read = _read(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "a", "arguments": {}}]},
        {"role": "user", "content": "y"},
        {"role": "tool", "tool_call_id": "9", "content": "of nobody"},
    )
    assert [turn.role for turn in read.turns] == ["user", "assistant", "tool", "assistant", "user"]
    assert [(repair.kind, repair.tool_call_id) for repair in read.repairs] == [
        ("missing_result", "1"),
        ("unclosed_turn", ""),
        ("orphan_result", "9"),
    ]


def test_reminders_are_marked_once() -> None:
    """An instruction that is marked already is left as it is."""
    marked = instruction_text(Turn("system", (Text("hurry"),)))
    assert marked == "<system-reminder>\nhurry\n</system-reminder>"
    assert instruction_text(Turn("system", (Text(marked),))) == marked


def test_context_files_are_marked() -> None:
    """A developer's message is marked as a file, unless it is blank."""
    assert instruction_text(Turn("developer", (Text("x"),))) == "<context_file>\nx\n</context_file>"
    assert instruction_text(Turn("developer", (Text(" "),))) == ""


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        (None, None),
        ("auto", ("auto", "")),
        ("any", ("required", "")),
        ("look", ("tool", "look")),
        ({"type": "any"}, ("required", "")),
        ({"type": "tool", "name": "look"}, ("tool", "look")),
        ({"type": "function", "function": {"name": "look"}}, ("tool", "look")),
        ({"type": "allowed_tools"}, None),
    ],
)
def test_tool_choices(given: Any, choice: tuple[str, str] | None) -> None:
    """Every common way to choose tools is read; a form of one service is left to it."""
    request = ChatRequest(messages=[Message(role="user", content="x")], tool_choice=given)
    assert read_tool_choice(request) == choice


def test_native_tools() -> None:
    """A tool of the service's own is passed on as it is; a function is not one."""
    search = ToolSpec.model_validate({"name": "web_search", "parameters": {}, "type": "web_search_2025", "max_uses": 3})
    assert native_spec(search) == {"type": "web_search_2025", "max_uses": 3, "name": "web_search"}
    assert native_spec(ToolSpec(name="a", parameters={})) is None
    assert native_spec(ToolSpec.model_validate({"name": "a", "parameters": {}, "type": "function"})) is None


def test_ids_that_every_service_takes() -> None:
    """A good id stays; a bad one always becomes the same good one, and two bad ones do not meet."""
    assert safe_id("call_A-1") == "call_A-1"
    assert safe_id("functions.look:0") == safe_id("functions.look:0")
    assert safe_id("functions.look:0") != safe_id("functions.look.0")
    for given in ("", "functions.look:0", "ü" * 90, "x" * 65):
        assert 0 < len(safe_id(given)) <= 64
        assert safe_id(safe_id(given)) == safe_id(given)
