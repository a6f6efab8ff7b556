"""Answers in a given form."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, Message
from amplifier_core.llm_errors import InvalidRequestError
from amplifier_core.message_models import (
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    ToolCall,
    ToolSpec,
)
from amplifier_kit.llm.response import LLMResponse
from amplifier_kit.llm.structured_output import ANSWER_TOOL, Mode, Shape, closed_schema, shape_of

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def _request(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content="how many?")], **fields)


def _said(text: str, *calls: ToolCall) -> LLMResponse:
    return LLMResponse(content=[TextBlock(text=text)], text=text, tool_calls=list(calls) or None, content_blocks=[])


def test_which_form_is_asked_for() -> None:
    """Text is no form; a schema may be wrapped as OpenAI does; any JSON needs a JSON mode."""
    assert shape_of(_request(), "native") is None
    assert shape_of(_request(response_format=ResponseFormatText()), "native") is None
    for given in (SCHEMA, {"name": "x", "schema": SCHEMA}):
        shape = shape_of(_request(response_format=ResponseFormatJsonSchema(json_schema=given, strict=True)), "tool")
        assert shape == Shape(SCHEMA, "tool", True)
    anything = _request(response_format=ResponseFormatJson())
    assert shape_of(anything, "native") == Shape(None, "prompt")
    assert shape_of(anything, "native", has_json_mode=True) == Shape(None, "native")


def test_native_requests_are_left_alone() -> None:
    """A service that knows forms gets nothing else."""
    request = _request()
    assert Shape(SCHEMA, "native").asked(request) is request


def test_by_tool() -> None:
    """The answer is asked for as the arguments of a tool, alone or among others."""
    alone = Shape(SCHEMA, "tool").asked(_request())
    assert [tool.name for tool in alone.tools or ()] == [ANSWER_TOOL]
    assert alone.tool_choice == {"type": "tool", "name": ANSWER_TOOL}
    among = Shape(SCHEMA, "tool").asked(_request(tools=[ToolSpec(name="look", parameters={})]))
    assert [tool.name for tool in among.tools or ()] == ["look", ANSWER_TOOL]
    assert among.tool_choice == "required"


def test_by_words() -> None:
    """The words stand behind the conversation, so that its beginning stays the same."""
    asked = Shape(SCHEMA, "prompt").asked(_request())
    assert len(asked.messages) == 2
    assert '"required": ["n"]' in str(asked.messages[-1].content)


@pytest.mark.parametrize("text", ['{"n": 1}', ' {"n": 1}\n', '```json\n{"n": 1}\n```'])
def test_text_that_fits(text: str) -> None:
    """JSON is taken out of a fence."""
    response, fault = Shape(SCHEMA, "prompt").checked(_said(text))
    assert fault is None
    assert response.text == text.strip() if "`" not in text else response.text == '{"n": 1}'


@pytest.mark.parametrize(
    ("text", "fault"),
    [("many", "not JSON"), ('{"n": "x"}', r"at $.n: 'x' is not of type 'integer'"), ("{}", "at $: 'n' is a required")],
)
def test_text_that_does_not_fit(text: str, fault: str) -> None:
    """The fault names the path of the part that does not fit."""
    assert fault in (Shape(SCHEMA, "prompt").checked(_said(text))[1] or "")


def test_the_tools_arguments_are_the_answer() -> None:
    """The call becomes the text; other calls are kept."""
    shape = Shape(SCHEMA, "tool")
    response, fault = shape.checked(_said("well", ToolCall(id="1", name=ANSWER_TOOL, arguments={"n": 1})))
    assert (response.text, response.tool_calls, response.finish_reason, fault) == ('{"n": 1}', None, "stop", None)
    assert shape.checked(_said("", ToolCall(id="1", name=ANSWER_TOOL, arguments={"n": None})))[1] is not None
    going_on = _said("", ToolCall(id="1", name="look", arguments={}))
    assert shape.checked(going_on) == (going_on, None)


def test_asking_again() -> None:
    """The next request holds the answer and what was wrong with it."""
    again = Shape(SCHEMA, "native").again(_request(), _said("{}"), "at $: no n")
    assert [message.role for message in again.messages] == ["user", "assistant", "user"]
    assert "at $: no n" in str(again.messages[-1].content)


def test_a_schema_that_is_none() -> None:
    """A wrong schema is an error of the request."""
    with pytest.raises(InvalidRequestError, match="not a valid JSON schema"):
        Shape({"type": "nonsense"}, "native").fault({})


@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
def test_any_json(mode: Mode) -> None:
    """Without a schema any object fits."""
    assert Shape(None, mode).fault({"a": 1}) is None


def test_closed_schemas() -> None:
    """Objects are closed at every depth, limits are left out, names of properties are not taken for keywords."""
    schema = {
        "$schema": "x",
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "minimum": 1},
            "list": {"type": "array", "items": {"properties": {"a": {"enum": [{"type": "object"}]}}}, "maxItems": 2},
        },
        "$defs": {"d": {"type": "object"}},
    }
    assert closed_schema(schema, all_required=True) == {
        "type": "object",
        "properties": {
            "minimum": {"type": "integer"},
            "list": {
                "type": "array",
                "items": {
                    "properties": {"a": {"enum": [{"type": "object"}]}},
                    "additionalProperties": False,
                    "required": ["a"],
                },
            },
        },
        "$defs": {"d": {"type": "object", "properties": {}, "additionalProperties": False, "required": []}},
        "additionalProperties": False,
        "required": ["list", "minimum"],
    }
    assert "required" not in closed_schema({"type": "object"})


def test_open_schemas_cannot_be_closed() -> None:
    """An object that is open on purpose must not be closed behind the caller's back."""
    with pytest.raises(ValueError, match="allows other properties"):
        closed_schema({"type": "object", "additionalProperties": {"type": "string"}})
