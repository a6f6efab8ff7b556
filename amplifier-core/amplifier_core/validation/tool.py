"""Check tool modules."""

from __future__ import annotations

from typing import Any

from amplifier_core.validation._interface import NamedValidator, check_async, check_name
from amplifier_core.validation.base import ValidationCheck, ValidationResult, failing, passing

__all__ = ["ToolValidator"]


class ToolValidator(NamedValidator):
    """Check that mount() mounts, or returns, something with name, description and execute()."""

    module_type = "tool"
    mount_point = "tools"
    interface = "Tool"
    members = "name, description, or execute"
    attributes = ("name", "description")
    methods = ("execute",)

    def _check_methods(self, result: ValidationResult, obj: Any) -> None:
        result.add(check_name("tool", "Tool", obj))
        result.add(_check_description(obj))
        result.add(_check_input_schema(obj))
        result.add(
            check_async(
                "tool_execute",
                "Tool.execute()",
                obj.execute,
                1,
                "Tool.execute() should accept input parameter",
                "Tool.execute() has correct async signature",
            )
        )


def _check_description(tool: Any) -> ValidationCheck:
    description = tool.description
    if isinstance(description, str) and description:
        return passing("tool_description", "Tool has description")
    return failing("tool_description", "Tool.description should be a non-empty string", "warning")


def _check_input_schema(tool: Any) -> ValidationCheck:
    schema = getattr(tool, "input_schema", {})
    if isinstance(schema, dict):
        return passing("tool_input_schema", f"Tool.input_schema returns dict with {len(schema)} properties")
    return failing(
        "tool_input_schema", f"Tool.input_schema should return a dict, got {type(schema).__name__}", "warning"
    )
