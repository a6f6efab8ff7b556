"""The input of a call is checked against the schema of its tool before the tool runs."""

import logging
from typing import Any

import pytest

from amplifier_core.models import HookResult, ToolResult
from amplifier_kit.engine.loop.tool_input import find_mismatch
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["text"],
}


def _tool(schema: Any = SCHEMA) -> PlainTool:
    return PlainTool("work", lambda _: "done", input_schema=schema)


def _rig(tool: PlainTool, arguments: dict[str, Any]) -> LoopRig:
    return LoopRig(call(("1", "work", arguments)), say("done"), tools=[tool])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"text": 5}, "at $.text: 5 is not of type 'string'"),
        ({"count": 1}, "at $: 'text' is a required property"),
        ({"text": "a", "count": "two"}, "at $.count: 'two' is not of type 'integer'"),
        ({"text": None}, "at $.text: None is not of type 'string'"),
    ],
)
async def test_a_wrong_input_goes_back_to_the_model(run: Any, arguments: dict[str, Any], named: str) -> None:
    """The tool does not run, nothing is authorized, and the result for the model names the path of the fault."""
    tool = _tool()
    rig = _rig(tool, arguments)
    await run(rig)
    assert tool.inputs == []
    assert rig.names("approval:granted", "tool:error") == ["tool:error"]
    [error] = rig.data("tool:error")
    assert error["error"]["type"] == "invalid_input"
    [content] = rig.results()
    assert content.startswith("Error: the input of tool 'work' does not match its schema: ")
    assert named in content


@pytest.mark.parametrize("arguments", [{"text": "a"}, {"text": "a", "count": None}, {"text": "a", "extra": 1}])
async def test_a_good_input_runs(run: Any, arguments: dict[str, Any]) -> None:
    """The tool gets its input unchanged, also with null for a property that is not required."""
    tool = _tool()
    await run(_rig(tool, arguments))
    assert tool.inputs == [arguments]


async def test_the_input_is_checked_as_hooks_leave_it(run: Any) -> None:
    """A hook may repair the input before it is checked."""
    tool = _tool()
    rig = _rig(tool, {"text": 5})

    def repair(_: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="modify", data={**data, "tool_input": {"text": "5"}})

    rig.coordinator.hooks.register("tool:pre", repair)
    await run(rig)
    assert tool.inputs == [{"text": "5"}]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": "object", "properties": {"text": {"type": "string", "required": True}}},
        {"type": "object", "properties": {"text": {"type": "any"}}},
        {"type": "object", "properties": {"text": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"text": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"type": "object", "properties": {"text": {"pattern": "("}}},
        {"$schema": ["a list"]},
        {"$schema": 5},
    ],
)
async def test_an_invalid_schema_is_a_warning(run: Any, schema: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A tool with a schema that cannot be applied runs as before, and one warning names the tool."""
    tool = _tool(schema)
    rig = LoopRig(call(("1", "work", {"text": "a"})), call(("2", "work", {"text": "b"})), say("done"), tools=[tool])
    with caplog.at_level(logging.WARNING):
        await run(rig)
    assert tool.inputs == [{"text": "a"}, {"text": "b"}]
    [warning] = [record.getMessage() for record in caplog.records if "input_schema" in record.getMessage()]
    assert warning.startswith("Tool 'work' has an invalid input_schema, so its inputs are not checked: ")


@pytest.mark.parametrize("schema", [None, {}, "text", 5])
def test_a_tool_without_a_schema_takes_everything(schema: Any) -> None:
    """No schema means no check."""
    assert find_mismatch(_tool(schema), "work", {"anything": 1}) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"text": {"pattern": "^(a+)+$"}}}, {"text": "a" * 60 + "!"}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 60 + "!": 1}),
    ],
)
def test_a_schema_cannot_stop_the_session_by_a_pattern(schema: Any, value: dict[str, Any]) -> None:
    """Patterns are left to the tool: matching one that doubles with every character would never end."""
    assert find_mismatch(_tool(schema), "work", value) is None


def test_a_schema_cannot_stop_the_session_by_references(caplog: pytest.LogCaptureFixture) -> None:
    """A schema whose references double at each of its levels is reported and not applied."""
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(60)}
    schema = {"$defs": {**levels, "l60": {}}, "$ref": "#/$defs/l0"}
    tool = _tool(schema)
    assert find_mismatch(tool, "work", {}) is None
    assert "more than 10,000 references" in caplog.text
    good = _tool({"$defs": {"name": {"type": "string"}}, "properties": {"text": {"$ref": "#/$defs/name"}}})
    assert find_mismatch(good, "work", {"text": 5}) is not None


def test_other_properties_are_refused_where_no_pattern_names_them() -> None:
    """`additionalProperties: false` still names what is too much."""
    message = find_mismatch(_tool({"properties": {}, "additionalProperties": False}), "work", {"odd": 1})
    assert message is not None
    assert "'odd' was unexpected" in message


def test_a_schema_of_a_named_draft_is_read_by_it() -> None:
    """A schema that names an older draft is checked by the rules of that draft."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"minimum": 1, "exclusiveMinimum": True}},
    }
    assert find_mismatch(_tool(schema), "work", {"n": 1}) is not None
    assert find_mismatch(_tool(schema), "work", {"n": 2}) is None


def test_a_changed_schema_counts() -> None:
    """A tool that changes its schema is checked against the new one."""
    tool = _tool()
    assert find_mismatch(tool, "work", {"text": 5}) is not None
    tool.input_schema = {"type": "object", "properties": {"text": {"type": "integer"}}}
    assert find_mismatch(tool, "work", {"text": 5}) is None


def test_a_large_value_is_not_repeated_whole() -> None:
    """A message quotes the beginning and the end of a long value."""
    message = find_mismatch(_tool(), "work", {"text": ["x" * 10_000]})
    assert message is not None
    assert len(message) < 300


async def test_an_exception_is_a_warning_with_its_traceback(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A tool that raises is reported with the exception, besides what the model reads."""

    def fail(_: Any) -> Any:
        raise KeyError("txt")

    with caplog.at_level(logging.WARNING):
        await run(_rig(PlainTool("work", fail), {}))
    [record] = [one for one in caplog.records if "raised" in one.getMessage()]
    assert record.getMessage() == "Tool 'work' raised KeyError: 'txt'"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


async def test_a_tool_that_returns_nothing_is_a_warning(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A forgotten `return` is named; a ToolResult without output is not."""

    class Forgetful(PlainTool):
        async def execute(self, input: dict[str, Any]) -> Any:
            return None

    with caplog.at_level(logging.WARNING):
        await run(_rig(Forgetful("work"), {}))
        assert "Tool 'work' returned None instead of a ToolResult" in caplog.text
        caplog.clear()
        await run(_rig(PlainTool("work", lambda _: ToolResult()), {}))
        assert "returned None" not in caplog.text
