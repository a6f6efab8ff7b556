"""Write down what a model may say when it has tools, or when its answer must have a form.

The engine does not hold models to tools by itself, and does without a grammar that it cannot read, silently. So schemas
are reduced to what it certainly can; answers are checked against the whole schema elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from amplifier_core.message_models import ChatRequest, ToolSpec
from amplifier_kit.llm import native_spec

__all__ = ["CALL_END", "CALL_START", "Choice", "choice_of", "grammar_of", "offered", "readable_schema"]

CALL_START: Final = "<tool_call>"
CALL_END: Final = "</tool_call>"
_MOST_CALLS: Final = 4

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_LENGTHS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"))
_RANGE: Final = ("minimum", "maximum")
#: One way to write JSON: it saves tokens, and is what histories are written in.
_SPACING: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
#: Any text that holds no call.
_TEXT: Final = rf"TEXT: /(.|\n)+/ & ~/(.|\n)*{CALL_START}(.|\n)*/"

#: none, auto, required, or the name of the one tool to call behind `tool:`.
Choice = str


def offered(request: ChatRequest) -> list[ToolSpec]:
    """Return the tools that a model on this machine can be given: functions, none that another service runs."""
    return [tool for tool in request.tools or () if native_spec(tool) is None]


def choice_of(request: ChatRequest) -> Choice:
    """Return what a request says about calling tools."""
    choice = request.tool_choice
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
        return f"tool:{name}" if name else {"any": "required"}.get(str(choice.get("type")), str(choice.get("type")))
    known = {None: "auto", "auto": "auto", "none": "none", "required": "required", "any": "required"}
    return known.get(choice) or f"tool:{choice}"


def grammar_of(
    tools: Sequence[ToolSpec], choice: Choice, schema: dict[str, Any] | None = None, *, parallel: bool = True
) -> str:
    """Return the grammar of an answer: text or calls, calls only, or text only; with a schema, JSON for text."""
    lines = ["%llguidance {}"]
    text = "TEXT" if schema is None else "answer"
    callable_tools = [tool for tool in tools if choice in ("auto", "required", f"tool:{tool.name}")]
    most = _MOST_CALLS if parallel and not choice.startswith("tool:") else 1
    if not callable_tools:
        lines.append(f"start: {text}")
    elif choice != "auto":
        lines.append(f"start: call{{1,{most}}}")
    else:
        # Some models say what they are about to do; one that owes JSON must not.
        lines.append(f"start: {text} | {'TEXT? ' if schema is None else ''}call{{1,{most}}}")
    if schema is None:
        lines.append(_TEXT)
    else:
        lines.append(f"answer: {_json_rule(schema)}")
    if callable_tools:
        lines.append("call: " + " | ".join(f"call_{number}" for number in range(len(callable_tools))))
    for number, tool in enumerate(callable_tools):
        head = f'{CALL_START}\n{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "arguments": '
        tail = f"}}\n{CALL_END}"
        lines.append(f'call_{number}: {_quoted(head)} arguments_{number} {_quoted(tail)} "\\n"?')
        lines.append(f"arguments_{number}: {_json_rule(_arguments(tool))}")
    return "\n".join(lines) + "\n"


def readable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a JSON schema that the engine can hold a model to, written without needless blanks."""
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
        return {"$ref": reference} if _leads_somewhere(reference, root) else {}
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
    """Return what a schema says of plain values, without what contradicts itself."""
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


def _leads_somewhere(reference: str, root: Mapping[str, Any]) -> bool:
    """Tell whether a reference points at something of the same schema that is kept."""
    parts = reference.split("/")
    if parts[0] != "#" or len(parts) != 3 or parts[1] not in ("$defs", "definitions"):
        return reference == "#"
    known = root.get(parts[1])
    return isinstance(known, Mapping) and parts[2] in known


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
