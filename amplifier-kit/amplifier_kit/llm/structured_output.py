"""Ask for an answer that fits a schema, check it, and name the part that does not fit.

Services that accept a schema get it. Others get a tool whose arguments are the answer, or are asked in words. Every
answer is checked here, whatever the service promises.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal

from amplifier_core.llm_errors import InvalidRequestError, LLMError
from amplifier_core.message_models import ChatRequest, Message, ResponseFormatJsonSchema, TextBlock, ToolSpec
from amplifier_kit.llm.response import LLMResponse
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.reminders import reminder

Mode = Literal["native", "tool", "prompt"]

ANSWER_TOOL: Final = "final_answer"
#: Keywords whose value maps names to schemas.
_NAMED: Final = frozenset({"properties", "$defs", "definitions"})
#: Keywords that services with strict schemas refuse.
_LIMITS: Final = frozenset(
    {
        "$schema",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
    }
)


class OutputMismatchError(LLMError):
    """The model did not answer in the requested form after all attempts."""


class Shape(NamedTuple):
    """The form of an answer: a schema, or any JSON when it is None; and how to ask the service for it."""

    schema: dict[str, Any] | None
    mode: Mode
    strict: bool = False

    @property
    def json_schema(self) -> dict[str, Any]:
        """The schema, or that of any object."""
        return self.schema if self.schema is not None else {"type": "object"}

    def asked(self, request: ChatRequest) -> ChatRequest:
        """Return the request to send: with the tool or the words; unchanged for a service that accepts schemas."""
        if self.mode == "native":
            return request
        if self.mode == "tool":
            tool = ToolSpec(
                name=ANSWER_TOOL,
                description="Give the final answer. Call it once, when everything else is done.",
                parameters=self.json_schema,
            )
            choice: Any = "required" if request.tools else {"type": "tool", "name": ANSWER_TOOL}
            return request.model_copy(update={"tools": [*(request.tools or []), tool], "tool_choice": choice})
        # Behind everything else, so that the beginning of the request stays the same.
        words = (
            "When you give your final answer, answer with JSON only, without any other text or code fence, that fits "
            f"this JSON schema:\n{json.dumps(self.json_schema, ensure_ascii=False)}"
        )
        return request.model_copy(update={"messages": [*request.messages, _reminder(words)]})

    def checked(self, response: LLMResponse) -> tuple[LLMResponse, str | None]:
        """Return the response with its JSON as its only text, and why it does not fit, None when it fits.

        A response that calls tools is not final yet, and not checked.
        """
        answered = next((call for call in response.tool_calls or () if call.name == ANSWER_TOOL), None)
        if self.mode == "tool" and answered is not None:
            fault = self.fault(answered.arguments)
            return _as_text(response, json.dumps(answered.arguments, ensure_ascii=False)), fault
        if response.tool_calls:
            return response, None
        text = _unfenced(response.text or "")
        try:
            value = json.loads(text)
        except ValueError as error:
            return response, f"it is not JSON: {error}"
        fault = self.fault(value)
        return (response if text == (response.text or "") else _as_text(response, text)), fault

    def fault(self, value: Any) -> str | None:
        """Return where and why a value does not fit, None when it fits; raises InvalidRequestError for a bad schema."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError, best_match

        try:
            Draft202012Validator.check_schema(self.json_schema)
        except SchemaError as error:
            raise InvalidRequestError(f"the output schema is not a valid JSON schema: {error.message}") from error
        worst = best_match(Draft202012Validator(self.json_schema).iter_errors(value))
        return None if worst is None else f"at {worst.json_path}: {worst.message}"

    def again(self, request: ChatRequest, response: LLMResponse, fault: str) -> ChatRequest:
        """Return the request for another attempt, which names the fault."""
        said = response.text or "(nothing)"
        words = f"That answer does not fit the schema: {fault}. Answer again with JSON that fits, and nothing else."
        more = [Message(role="assistant", content=said), _reminder(words)]
        return request.model_copy(update={"messages": [*request.messages, *more]})


def shape_of(request: ChatRequest, mode: Mode, *, has_json_mode: bool = False) -> Shape | None:
    """Return the form that a request asks for, None for free text.

    `has_json_mode` is whether the service can be asked for any JSON.
    """
    wanted = request.response_format
    if wanted is None or wanted.type == "text":
        return None
    if isinstance(wanted, ResponseFormatJsonSchema):
        given = wanted.json_schema
        # OpenAI's form, which wraps the schema, is accepted too.
        inner = given.get("schema") if "type" not in given and "properties" not in given else None
        return Shape(inner if isinstance(inner, dict) else given, mode, bool(wanted.strict))
    return Shape(None, "native" if mode == "native" and has_json_mode else "prompt")


def closed_schema(schema: Any, *, all_required: bool = False) -> Any:
    """Return a schema for services with strict schemas: no object allows other properties.

    With `all_required`, every property is required too. Limits of numbers and lengths, which they refuse, are dropped:
    answers are checked here against the whole schema. Raises ValueError for an object that allows other properties.
    """
    if isinstance(schema, list):
        return [closed_schema(item, all_required=all_required) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            closed[key] = {name: closed_schema(item, all_required=all_required) for name, item in value.items()}
        elif key == "required":
            closed[key] = sorted(value) if isinstance(value, list) else value
        elif key in ("enum", "const", "default"):
            closed[key] = value
        elif key not in _LIMITS:
            closed[key] = closed_schema(value, all_required=all_required)
    if closed.get("type") == "object" or "properties" in closed:
        if closed.get("additionalProperties", False) is not False or "patternProperties" in closed:
            raise ValueError(
                "the schema has an object that allows other properties, which the service does not support"
            )
        closed["additionalProperties"] = False
        closed.setdefault("properties", {})
        if all_required:
            closed["required"] = sorted(closed["properties"])
    return closed


def _reminder(text: str) -> Message:
    return Message(role="user", content=reminder(text, "output-schema"))


def _unfenced(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped.partition("\n")[2][:-3].strip()
    return stripped


def _as_text(response: LLMResponse, text: str) -> LLMResponse:
    from amplifier_core.content_models import TextContent

    kept = [block for block in response.content if block.type not in ("text", "tool_call")]
    said = [block for block in response.content_blocks or () if block.type.value == "thinking"]
    fields = {
        "content": [*kept, TextBlock(text=text)],
        "content_blocks": [*said, TextContent(text=text)],
        "text": text,
        "tool_calls": None,
        "finish_reason": "stop",
    }
    return response.model_copy(update=fields)
