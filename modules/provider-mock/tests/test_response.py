"""Responses."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from amplifier_core import ChatRequest, TextContent, ThinkingContent, ToolCallContent
from amplifier_module_provider_mock.replies import Reply, build_response

Ask = Callable[..., ChatRequest]
CALL = {"id": "c1", "name": "look", "arguments": {"at": [{"x": 1}]}}


def test_a_response_has_blocks_of_both_kinds(ask: Ask) -> None:
    """Content for the conversation, blocks for those who show it, text for those who want no more."""
    response = build_response(Reply(text="hi", thinking="hm", tool_calls=(CALL,)), ask("x"))
    assert [block.type for block in response.content] == ["thinking", "text", "tool_call"]
    assert [type(block) for block in response.content_blocks or []] == [ThinkingContent, TextContent, ToolCallContent]
    assert response.text == "hi"
    assert response.finish_reason == "tool_use"
    [call] = response.tool_calls or []
    assert (call.id, call.name, call.arguments) == ("c1", "look", {"at": [{"x": 1}]})


def test_an_empty_reply_is_an_empty_response(ask: Ask) -> None:
    """A model may say nothing."""
    response = build_response(Reply(), ask("x"))
    assert (response.content, response.tool_calls, response.text) == ([], None, None)
    assert response.finish_reason == "stop"


def test_usage_is_estimated_where_it_is_not_scripted(ask: Ask) -> None:
    """Four characters are a token, and a script costs nothing."""
    usage = build_response(Reply(text="12345678", thinking="1234"), ask("x" * 40)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 3, 13)
    assert usage.cost_usd == Decimal(0)


def test_scripted_usage_counts(ask: Ask) -> None:
    """What the script says is taken, and the total follows."""
    scripted = {"input_tokens": 100, "cache_read_tokens": 90, "cost_usd": Decimal("0.5")}
    usage = build_response(Reply(text="12345678", usage=scripted), ask("x")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 2, 102)
    assert (usage.cache_read_tokens, usage.cost_usd) == (90, Decimal("0.5"))


def test_responses_share_nothing(ask: Ask) -> None:
    """A tool that changes its arguments changes no other answer, and not the script."""
    reply = Reply(tool_calls=(CALL,))
    first, second = build_response(reply, ask("x")), build_response(reply, ask("x"))
    assert first.tool_calls is not None
    first.tool_calls[0].arguments["at"][0]["x"] = 2
    assert second.tool_calls is not None
    assert second.tool_calls[0].arguments == {"at": [{"x": 1}]}
    assert first.content[0].input == {"at": [{"x": 1}]}  # type: ignore[union-attr]
    assert CALL["arguments"] == {"at": [{"x": 1}]}
