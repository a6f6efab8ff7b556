"""Canned replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import ChatRequest, Message, TextBlock, ThinkingBlock, ToolResultBlock
from amplifier_module_provider_mock.replies import DEFAULT_RESPONSES, CannedReplies, last_message, text_of

Ask = Callable[..., ChatRequest]
READ = {"id": "mock_tool_1", "name": "read", "arguments": {"path": "test.txt"}}
REMINDER = '<system-reminder source="status">\nREADME.md is changed\n</system-reminder>'


def test_replies_go_round() -> None:
    """After the last reply comes the first again; a mapping may have thinking besides the text."""
    replies = CannedReplies(["one", {"text": "two", "thinking": "hm"}, {"thinking": "only"}])
    said = [replies.next([], []) for _ in range(4)]
    assert [(reply.text, reply.thinking) for reply in said] == [("one", ""), ("two", "hm"), ("", "only"), ("one", "")]


def test_there_are_three_by_default() -> None:
    """Without configured replies there are three, and none of them mentions reading."""
    replies = CannedReplies()
    assert [replies.next([], []).text for _ in range(3)] == list(DEFAULT_RESPONSES)
    assert CannedReplies([]).next([], []).text == DEFAULT_RESPONSES[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ok", 3], r"responses\[1\] must be a string or a mapping with 'text' and 'thinking', got 3"),
        ([{"txt": "a"}], r"responses\[0\] must be"),
        ({"text": "a"}, "responses must be a list, got dict"),
    ],
)
def test_other_replies_are_refused(given: Any, message: str) -> None:
    """What is no reply is named."""
    with pytest.raises(ValueError, match=message):
        CannedReplies(given)


def test_one_text_is_a_list_of_one() -> None:
    """A single text is understood."""
    assert CannedReplies("always").next([], []).text == "always"


def test_a_user_who_says_read_gets_a_tool_call(ask: Ask) -> None:
    """The published mock's one idea: "read" in what the user says last means a call to the tool `read`."""
    assert CannedReplies().next(ask("Please READ the file").messages, []).tool_calls == (READ,)


@pytest.mark.parametrize(
    "said",
    [
        ["read it", ("assistant", ""), ("tool", "no tool 'read' is there")],
        ["read it", ("assistant", "I read it.")],
        [("system", "You can read.")],
        [],
    ],
)
def test_nobody_else_who_says_read_does(ask: Ask, said: list[Any]) -> None:
    """Results that mention reading do not make the loop go round for ever."""
    assert CannedReplies(["done"]).next(ask(*said).messages, []).text == "done"


def test_reminders_are_not_the_user(ask: Ask) -> None:
    """What hooks add after the last message is passed over."""
    replies = CannedReplies(["done"])
    assert replies.next(ask("hello", REMINDER).messages, []).text == "done"
    assert replies.next(ask("read it", REMINDER).messages, []).tool_calls == (READ,)
    assert replies.next(ask("read it", ("assistant", ""), ("tool", "x"), REMINDER).messages, []).text == "done"
    assert last_message(ask(REMINDER).messages) is None


def test_text_of_any_content() -> None:
    """The text of a message is that of its text and result blocks, thinking excepted."""
    blocks = [
        ThinkingBlock(thinking="hidden"),
        TextBlock(text="a"),
        ToolResultBlock(tool_call_id="c", output={"b": "ü"}),
        ToolResultBlock(tool_call_id="d", output="c"),
    ]
    assert text_of(Message(role="user", content=blocks)) == 'a\n{"b": "ü"}\nc'
    assert text_of(Message(role="user", content="plain")) == "plain"
