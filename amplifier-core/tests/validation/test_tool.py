"""What ToolValidator says of tool modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import ToolValidator, ValidationResult

WriteModule = Callable[[str], Path]

TOOL = """
class T:
    name = "t"
    description = "d"
    input_schema = {"type": "object", "properties": {}}
    async def execute(self, input): ...
"""
MOUNT = """
async def mount(coordinator, config=None):
    await coordinator.mount("tools", T(), name="mounted")
"""


def told(result: ValidationResult) -> list[tuple[bool, str, str, str]]:
    """Return the checks as tuples, without the three that come before the mount."""
    return [(check.passed, check.severity, check.name, check.message) for check in result.checks[3:]]


async def test_valid_tool_gives_exactly_eight_passing_checks(write_module: WriteModule) -> None:
    """A fully valid tool module yields exactly 8 passing checks, word for word."""
    package = write_module(TOOL + MOUNT)
    result = await ToolValidator().validate(package)
    assert [(check.name, check.passed, check.severity, check.message) for check in result.checks] == [
        ("module_importable", True, "info", f"Module loaded from {package}"),
        ("mount_exists", True, "info", "mount() function found"),
        ("mount_signature", True, "info", "mount() is async with correct signature"),
        ("protocol_compliance", True, "info", "Tool 'mounted' implements Tool interface"),
        ("tool_name", True, "info", "Tool has name: 't'"),
        ("tool_description", True, "info", "Tool has description"),
        ("tool_input_schema", True, "info", "Tool.input_schema returns dict with 2 properties"),
        ("tool_execute", True, "info", "Tool.execute() has correct async signature"),
    ]
    assert result.summary() == "PASSED: 8/8 checks passed (0 errors, 0 warnings)"
    assert (result.module_type, result.module_path) == ("tool", str(package))


@pytest.mark.parametrize("returned", ["None", "{'name': 'tool-x'}", "5"])
async def test_iron_law(write_module: WriteModule, returned: str) -> None:
    """A mount() that mounts nothing and returns no tool fails, in the words of the Iron Law."""
    result = await ToolValidator().validate(
        write_module(f"async def mount(coordinator, config=None): return {returned}")
    )
    assert [f"{check.name}: {check.message}" for check in result.errors] == [
        "protocol_compliance: No tool was mounted and mount() did not return a Tool instance"
    ]
    assert result.summary() == "FAILED: 3/4 checks passed (1 errors, 0 warnings)"


async def test_returned_instance_counts(write_module: WriteModule) -> None:
    """A tool that is returned instead of mounted is checked like a mounted one."""
    result = await ToolValidator().validate(
        write_module(TOOL + "async def mount(coordinator, config=None): return T()")
    )
    assert result.passed
    assert len(result.checks) == 8
    assert result.checks[3].message == "mount() returned a valid Tool instance"


async def test_returned_class_is_no_instance(write_module: WriteModule) -> None:
    """The class of a tool, returned without parentheses, is not a tool."""
    result = await ToolValidator().validate(write_module(TOOL + "async def mount(coordinator, config=None): return T"))
    assert [check.message for check in result.errors] == [
        "No tool was mounted and mount() did not return a Tool instance"
    ]


async def test_cleanup_callable_passes_as_conditional(write_module: WriteModule) -> None:
    """A module that mounts nothing yet but returns a cleanup passes, marked as a warning."""
    result = await ToolValidator().validate(
        write_module("async def mount(coordinator, config=None): return lambda: None")
    )
    assert result.passed
    assert told(result) == [
        (
            True,
            "warning",
            "protocol_compliance",
            "mount() returned a cleanup callable (no tool mounted yet - may be conditional)",
        )
    ]
    assert result.warnings == []


async def test_object_without_the_interface(write_module: WriteModule) -> None:
    """A mounted object that lacks a member fails under the name it was mounted with."""
    result = await ToolValidator().validate(write_module("class T:\n    name = 't'\n" + MOUNT))
    assert [check.message for check in result.errors] == [
        "Tool 'mounted' does not implement Tool interface (missing name, description, or execute)"
    ]


async def test_every_tool_is_checked(write_module: WriteModule) -> None:
    """Of two tools, a bad one does not hide the good one."""
    source = TOOL + (
        "class B:\n    name = 'b'\n"
        "async def mount(coordinator, config=None):\n"
        "    await coordinator.mount('tools', B())\n"
        "    coordinator.mount_points['tools']['t'] = T()\n"
    )
    result = await ToolValidator().validate(write_module(source))
    assert [check.message for check in result.checks if check.name == "protocol_compliance"] == [
        "Tool 'b' does not implement Tool interface (missing name, description, or execute)",
        "Tool 't' implements Tool interface",
    ]


@pytest.mark.parametrize(
    ("before", "after", "check", "severity", "message"),
    [
        ('name = "t"', 'name = ""', "tool_name", "error", "Tool.name should be a non-empty string"),
        ('name = "t"', "name = 3", "tool_name", "error", "Tool.name should be a non-empty string"),
        (
            'description = "d"',
            'description = ""',
            "tool_description",
            "warning",
            "Tool.description should be a non-empty string",
        ),
        (
            "input_schema = {",
            "input_schema = str()\n    unused = {",
            "tool_input_schema",
            "warning",
            "Tool.input_schema should return a dict, got str",
        ),
        ("async def execute", "def execute", "tool_execute", "error", "Tool.execute() should be async"),
        ("(self, input)", "(self)", "tool_execute", "error", "Tool.execute() should accept input parameter"),
    ],
)
async def test_member_checks(
    write_module: WriteModule, before: str, after: str, check: str, severity: str, message: str
) -> None:
    """Each member of a tool has a check of its own; only errors fail the module."""
    assert before in TOOL
    result = await ToolValidator().validate(write_module(TOOL.replace(before, after) + MOUNT))
    assert [(c.severity, c.name, c.message) for c in result.checks if not c.passed] == [(severity, check, message)]
    assert result.passed is (severity != "error")
    assert len(result.checks) == 8


async def test_absent_input_schema_is_an_empty_one(write_module: WriteModule) -> None:
    """A tool without input_schema counts as one that takes no properties."""
    result = await ToolValidator().validate(write_module(TOOL.replace("input_schema", "other") + MOUNT))
    assert result.checks[6].message == "Tool.input_schema returns dict with 0 properties"
    assert result.checks[6].passed


async def test_placeholder_tool_is_a_real_tool(write_module: WriteModule) -> None:
    """The smallest useful module, which only says that it is not implemented, passes all eight checks."""
    result = await ToolValidator().validate(
        write_module(
            """
            from amplifier_core import ToolResult
            class MyTool:
                name = "my_tool"
                description = "What this tool does"
                input_schema = {"type": "object", "properties": {}}
                async def execute(self, input_data):
                    return ToolResult(success=False, output="Not yet implemented")
            async def mount(coordinator, config=None):
                tool = MyTool()
                await coordinator.mount("tools", tool, name=tool.name)
                return {"name": "tool-my-tool", "version": "0.1.0", "provides": ["my_tool"]}
            """
        )
    )
    assert result.summary() == "PASSED: 8/8 checks passed (0 errors, 0 warnings)"
