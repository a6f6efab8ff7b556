"""Creating modules: each box of the validation checklist left unchecked, and each line of the minimum removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.validation import ToolValidator

TOOL = """
from amplifier_core import ToolResult


class MyTool:
    {members}

    {execute}


async def mount(coordinator, config=None):
    tool = MyTool()
    await coordinator.mount("tools", tool, name="my_tool")
    return {{"name": "tool-my-tool", "version": "0.1.0", "provides": ["my_tool"]}}
"""

GOOD = {"name": '"my_tool"', "description": '"What this tool does"', "input_schema": '{"type": "object"}'}
EXECUTE = "async def execute(self, input_data): return ToolResult(success=True, output=1)"


def tool(execute: str = EXECUTE, **members: str | None) -> str:
    """Return the source of a tool module with other members than the good ones; None leaves one out."""
    lines = [f"{name} = {value}" for name, value in {**GOOD, **members}.items() if value is not None]
    return TOOL.format(members="\n    ".join(lines), execute=execute)


def test_the_good_one_is_good() -> None:
    """The source that the cases below are made of has every member once."""
    assert all(f"{name} = {value}" in tool() for name, value in GOOD.items())


NOT_A_TOOL = "Tool 'my_tool' does not implement Tool interface (missing name, description, or execute)"


@pytest.mark.parametrize(
    ("source", "severity", "check", "message"),
    [
        (tool(name=None), "error", "protocol_compliance", NOT_A_TOOL),
        (tool(name="42"), "error", "tool_name", "Tool.name should be a non-empty string"),
        (tool(name='""'), "error", "tool_name", "Tool.name should be a non-empty string"),
        (tool(description=None), "error", "protocol_compliance", NOT_A_TOOL),
        (tool(description="42"), "warning", "tool_description", "Tool.description should be a non-empty string"),
        (tool(description='""'), "warning", "tool_description", "Tool.description should be a non-empty string"),
        (tool(input_schema="[]"), "warning", "tool_input_schema", "Tool.input_schema should return a dict, got list"),
        (tool(execute=""), "error", "protocol_compliance", NOT_A_TOOL),
        (tool(execute="execute = 42"), "error", "protocol_compliance", NOT_A_TOOL),
        (tool(execute="def execute(self, x): ..."), "error", "tool_execute", "Tool.execute() should be async"),
        (
            tool(execute="async def execute(self): ..."),
            "error",
            "tool_execute",
            "Tool.execute() should accept input parameter",
        ),
    ],
)
async def test_unchecked_box_of_the_tool_class(
    bench: Any, record: Any, source: str, severity: str, check: str, message: str
) -> None:
    """A tool without a proper member is named by the validator; a session refuses errors and keeps warnings."""
    result = await ToolValidator().validate(bench.install("tool-my-tool", source))
    failed = result.errors if severity == "error" else result.warnings
    assert [(entry.name, entry.message) for entry in failed] == [(check, message)]
    assert result.passed is (severity == "warning")
    session = bench.session(bench.plan(tools=["tool-my-tool"]))
    heard = record(session)
    async with session:
        assert ("my_tool" in session.coordinator.get("tools")) is (severity == "warning")
        assert await session.execute("hi") == "echo: hi"
    failures = [data["error"] for data in heard.data("module:load_failed")]
    assert len(failures) == (severity == "error")
    assert all(f"{check}: {message}" in failure for failure in failures)


async def test_a_tool_may_go_without_a_schema(bench: Any) -> None:
    """An absent input_schema is an empty one: older tools have none."""
    result = await ToolValidator().validate(bench.install("tool-my-tool", tool(input_schema=None)))
    assert result.passed
    assert result.warnings == []


@pytest.mark.parametrize(
    ("source", "check", "message"),
    [
        ("x = 1", "mount_exists", "No mount() function found in module"),
        ("mount = 42", "mount_exists", "mount is not callable"),
        (
            "def mount(coordinator, config=None): ...",
            "mount_signature",
            "mount() should be async (async def mount(...))",
        ),
        (
            "async def mount(coordinator): ...",
            "mount_signature",
            "mount() should have at least 2 parameters (coordinator, config), found 1",
        ),
    ],
)
async def test_unchecked_box_of_mount(bench: Any, record: Any, source: str, check: str, message: str) -> None:
    """A mount() that is missing or has the wrong signature is named, by the validator and in a session."""
    package = bench.install("tool-my-tool", source)
    result = await ToolValidator().validate(package)
    assert (check, message) in [(entry.name, entry.message) for entry in result.errors]
    session = bench.session(bench.plan(tools=["tool-my-tool"]))
    heard = record(session)
    async with session:
        assert await session.execute("hi") == "echo: hi"
    (failure,) = heard.data("module:load_failed")
    assert failure["reason_code"] == "invalid_entry_point"
    assert "mount" in failure["error"]


async def test_metadata_is_for_people(bench: Any, example: Any) -> None:
    """A session does not need the dict that mount() returns; the author's tests do."""
    source = example("minimum").rpartition("    return")[0]
    package = bench.install("tool-my-tool", source)
    async with bench.session(bench.plan(tools=["tool-my-tool"])) as session:
        assert "my_tool" in session.coordinator.get("tools")
    assert (await ToolValidator().validate(package)).passed
    with pytest.raises(AssertionError):
        await authors_tests(example)[0]()


def authors_tests(example: Any) -> list[Callable[[], Awaitable[None]]]:
    """Return the two unit tests of the example, bound to the module as it is installed now."""
    scope: dict[str, Any] = {}
    exec(compile(example("unit_tests"), "test_mount.py", "exec"), scope)
    return [scope["test_mount_registers_tool"], scope["test_tool_has_required_properties"]]


async def is_complete(bench: Any, example: Any, source: str) -> bool:
    """Tell whether a module imports, validates, passes its author's tests and does its work."""
    package = bench.install("tool-my-tool", source)
    result = await ToolValidator().validate(package)
    if not result.passed or result.warnings:
        return False
    try:
        for test in authors_tests(example):
            await test()
        async with bench.session(bench.plan(tools=["tool-my-tool"])) as session:
            return isinstance(await session.coordinator.get("tools", "my_tool").execute({}), ToolResult)
    except (AssertionError, AttributeError, NameError):
        return False


async def test_the_minimum_is_enough(bench: Any, example: Any) -> None:
    """Nothing has to be added to the minimum viable module."""
    assert await is_complete(bench, example, example("minimum"))


#: Lines of the minimum viable module that hold code.
CODE_LINES = [0, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12]


@pytest.mark.parametrize("number", CODE_LINES)
async def test_every_line_is_required(bench: Any, example: Any, number: int) -> None:
    """Without any one of its lines the minimum viable module is broken, and that shows."""
    lines = example("minimum").splitlines(keepends=True)
    assert [index for index, line in enumerate(lines) if line.strip()] == CODE_LINES
    del lines[number]
    assert not await is_complete(bench, example, "".join(lines))
