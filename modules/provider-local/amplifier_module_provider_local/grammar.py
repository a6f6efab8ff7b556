"""Build the grammar for an answer with tool calls, or with an output schema.

The engine does not constrain models to tools by itself, and silently ignores a grammar that it cannot read. So schemas
are reduced to the keywords that it supports; answers are checked against the whole schema elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm.request import native_spec, read_tool_choice
from amplifier_kit.named_tuple import NamedTuple


class CallStyle(NamedTuple):
    """The marks around a call in a model's text."""

    start: str
    end: str


#: What most models were trained on.
TAGS: Final = CallStyle("<tool_call>", "</tool_call>")
#: What models for code fall into.
FENCE: Final = CallStyle("```json", "```")

_MOST_CALLS: Final = 4

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LENGTHS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"))
_RANGE: Final = ("minimum", "maximum")
#: Only one way to write JSON: it saves tokens, and is the same as in histories.
_SPACING: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
#: Any text without a call.
_TAGGED_TEXT: Final = rf"TEXT: /(.|\n)+/ & ~/(.|\n)*{TAGS.start}(.|\n)*/"
#: The same where a call begins like a block of code. The engine takes the longest match of a lexeme and never goes
#: back, so no lexeme of a text may go on where a call can begin.
_FENCED_TEXT: Final = (
    "text: (WORDS | INLINE | BLOCK)+",
    "WORDS: /[^`]+/",
    "INLINE: /`[^`\\n]+`/",
    "BLOCK: /```([a-ik-z][a-z+#-]*|java|javascript|js|julia)?\\n([^`]|`[^`]|``[^`])*```/",
)

#: none, auto, required, or `tool:` and the name of the tool to call.
Choice = str


def offered(request: ChatRequest) -> list[ToolSpec]:
    """Return the tools that a local model can call: functions, but no native tools of other services."""
    return [tool for tool in request.tools or () if native_spec(tool) is None]


def choice_of(request: ChatRequest) -> Choice:
    """Return the tool choice of a request."""
    choice = read_tool_choice(request)
    if choice is None:
        return "auto"
    return f"tool:{choice.name}" if choice.mode == "tool" else choice.mode


def grammar_of(
    tools: Sequence[ToolSpec],
    choice: Choice,
    schema: dict[str, Any] | None = None,
    *,
    parallel: bool = True,
    style: CallStyle = TAGS,
) -> str:
    """Return the grammar of an answer: text or calls, calls only, or text only; with a schema, JSON for text."""
    lines = ["%llguidance {}"]
    text = ("text" if style == FENCE else "TEXT") if schema is None else "answer"
    callable_tools = [tool for tool in tools if choice in ("auto", "required", f"tool:{tool.name}")]
    most = _MOST_CALLS if parallel and not choice.startswith("tool:") else 1
    if not callable_tools:
        lines.append(f"start: {text}")
    elif choice != "auto":
        lines.append(f"start: call{{1,{most}}}")
    else:
        # Some models announce their calls; one that must answer with JSON may not.
        lines.append(f"start: {text} | {f'{text}? ' if schema is None else ''}call{{1,{most}}}")
    if schema is None:
        lines += _FENCED_TEXT if style == FENCE else [_TAGGED_TEXT]
    else:
        lines.append(f"answer: {_json_rule(schema)}")
    if callable_tools:
        lines.append("call: " + " | ".join(f"call_{number}" for number in range(len(callable_tools))))
    for number, tool in enumerate(callable_tools):
        head = f'{style.start}\n{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "arguments": '
        tail = f"}}\n{style.end}"
        lines.append(f'call_{number}: {_quoted(head)} arguments_{number} {_quoted(tail)} "\\n"?')
        lines.append(f"arguments_{number}: {_json_rule(_arguments(tool))}")
    return "\n".join(lines) + "\n"


def readable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a JSON schema that the engine can enforce, with compact JSON."""
    return {**_reduced(schema, schema), "x-guidance": _SPACING}


def _arguments(tool: ToolSpec) -> dict[str, Any]:
    return {"additionalProperties": False, "properties": {}, **tool.parameters, "type": "object"}


def _json_rule(schema: Mapping[str, Any]) -> str:
    return "%json " + json.dumps(readable_schema(schema))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _reduced(schema: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(schema, Mapping):
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return {"$ref": reference} if _is_resolvable(reference, root) else {}
    kept = _values(schema)
    for key in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(key), Mapping):
            kept[key] = {name: _reduced(inner, root) for name, inner in schema[key].items() if inner is not False}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            kept[key] = _reduced(schema[key], root)
    if schema.get("additionalProperties") is False:
        kept["additionalProperties"] = False
    ways = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(ways, list) and ways and "properties" not in kept:
        kept["anyOf"] = [_reduced(way, root) for way in ways]
    required = schema.get("required")
    if isinstance(required, list):
        known = kept.get("properties") or {}
        kept["required"] = [name for name in required if isinstance(name, str) and name in known]
    return kept


def _values(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords for plain values, without contradictory limits."""
    kept: dict[str, Any] = {}
    kinds = schema.get("type")
    known = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if str(kind) in _TYPES]
    if known:
        kept["type"] = known if isinstance(kinds, list) else known[0]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        kept["enum"] = schema["enum"]
    if "const" in schema:
        kept["const"] = schema["const"]
    for pair in (*_LENGTHS, _RANGE):
        fits = _is_number if pair is _RANGE else _is_length
        limits = {key: schema[key] for key in pair if fits(schema.get(key))}
        if len(limits) < 2 or limits[pair[0]] <= limits[pair[1]]:
            kept |= limits
    return kept


def _is_resolvable(reference: str, root: Mapping[str, Any]) -> bool:
    """Return whether a reference points into the same schema, at a definition that is kept."""
    parts = reference.split("/")
    if parts[0] != "#" or len(parts) != 3 or parts[1] not in ("$defs", "definitions"):
        return reference == "#"
    known = root.get(parts[1])
    return isinstance(known, Mapping) and parts[2] in known


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
