"""What a model may say: which tools, how often, and the part of a schema that the engine can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.message_models import ToolSpec
from amplifier_module_provider_local.grammar import FENCE, choice_of, grammar_of, offered, readable_schema
from amplifier_testing.llm.rig import ask

TOOLS = [
    ToolSpec(name="look", parameters={"type": "object", "properties": {"where": {"type": "string"}}}),
    ToolSpec(name="go", parameters={}),
]


def test_calls_in_a_fence() -> None:
    """A model for code writes its calls in a fence, and no other text with such a fence."""
    grammar = grammar_of(TOOLS, "auto", parallel=False, style=FENCE)
    assert r'call_0: "```json\n{\"name\": \"look\", \"arguments\": " arguments_0 "}\n```"' in grammar
    assert "start: text | text? call{1,1}" in grammar
    assert "tool_call" not in grammar


@pytest.mark.parametrize(
    ("given_choice", "choice"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("look", "tool:look"),
        ({"type": "tool", "name": "look"}, "tool:look"),
        ({"type": "function", "function": {"name": "look"}}, "tool:look"),
        ({"type": "any"}, "required"),
        ({"type": "auto"}, "auto"),
    ],
)
def test_choices(given_choice: Any, choice: str) -> None:
    """Every published form of a choice is understood."""
    assert choice_of(ask(tool_choice=given_choice)) == choice


def _start(grammar: str) -> str:
    [start] = [line for line in grammar.splitlines() if line.startswith("start: ")]
    return start


def test_what_may_be_said() -> None:
    """The choice says whether text, calls or both may come, and which tools may be called."""
    assert _start(grammar_of(TOOLS, "auto")) == "start: TEXT | TEXT? call{1,4}"
    assert _start(grammar_of(TOOLS, "auto", parallel=False)) == "start: TEXT | TEXT? call{1,1}"
    assert _start(grammar_of(TOOLS, "auto", {"type": "object"})) == "start: answer | call{1,4}"
    assert _start(grammar_of(TOOLS, "required")) == "start: call{1,4}"
    assert _start(grammar_of(TOOLS, "none")) == "start: TEXT"
    named = grammar_of(TOOLS, "tool:go")
    assert _start(named) == "start: call{1,1}"
    assert "look" not in named


def test_names_are_quoted() -> None:
    """A name with quotes or backslashes cannot break out of the grammar."""
    grammar = grammar_of([ToolSpec(name='a"b\\c\nstart: x', parameters={})], "required")
    assert len([line for line in grammar.splitlines() if line.startswith("start")]) == 1


def test_native_tools_are_not_offered() -> None:
    """Tools that run at another service are not offered to a model that is here."""
    native = ToolSpec.model_validate({"name": "web_search", "type": "web_search_20250305", "parameters": {}})
    request = ask(tools=("look",))
    assert request.tools is not None
    request.tools.append(native)
    assert [tool.name for tool in offered(request)] == ["look"]


def test_what_the_engine_cannot_read_is_left_out() -> None:
    """Patterns, formats, conditions and foreign references are dropped; types, limits and own references stay."""
    schema = {
        "type": "object",
        "$defs": {"kind": {"enum": ["a", "b"]}},
        "properties": {
            "kind": {"$ref": "#/$defs/kind"},
            "far": {"$ref": "http://example.com/x"},
            "lost": {"$ref": "#/$defs/nothing"},
            "mail": {"type": "string", "format": "email", "pattern": "(?=a)", "maxLength": 9},
            "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "integer", "minimum": 1, "multipleOf": 2}},
        },
        "required": ["kind", "gone"],
        "if": {"properties": {}},
        "description": "words",
    }
    reduced = readable_schema(schema)
    assert reduced.pop("x-guidance")
    assert reduced == {
        "type": "object",
        "$defs": {"kind": {"enum": ["a", "b"]}},
        "properties": {
            "kind": {"$ref": "#/$defs/kind"},
            "far": {},
            "lost": {},
            "mail": {"type": "string", "maxLength": 9},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        },
        "required": ["kind"],
    }


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = ("type", "properties", "items", "required", "$ref", "anyOf", "enum", "maxLength", "additionalProperties", "x")


@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES))
def test_any_schema_can_be_written(schema: dict[str, Any]) -> None:
    """Whatever a tool declares, the grammar has one line per rule and its schemas are JSON."""
    grammar = grammar_of([ToolSpec(name="x", parameters=schema)], "auto", schema)
    rules = dict(line.split(": ", 1) for line in grammar.removesuffix("\n").split("\n")[1:])
    assert list(rules) == ["start", "answer", "call", "call_0", "arguments_0"]
    for name in ("answer", "arguments_0"):
        assert isinstance(json.loads(rules[name].removeprefix("%json ")), dict)
