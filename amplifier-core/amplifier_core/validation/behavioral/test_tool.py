"""State what every tool does; `tool_module` is the first tool that the module mounts."""

from __future__ import annotations

from typing import Any

import pytest

#: A call as an orchestrator makes it, for a tool whose schema is unknown here.
_CALL = {"_tool_call_id": "test-123"}


class ToolBehaviorTests:
    """Inherit this in the tests of a tool module."""

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, tool_module: Any) -> None:
        """mount() leaves a tool behind."""
        assert tool_module is not None

    @pytest.mark.asyncio
    async def test_tool_has_name(self, tool_module: Any) -> None:
        """The name is text that is not empty."""
        assert isinstance(tool_module.name, str), "Tool.name must be a string"
        assert tool_module.name, "Tool.name must not be empty"

    @pytest.mark.asyncio
    async def test_tool_has_description(self, tool_module: Any) -> None:
        """The description is text that is not empty: models choose by it."""
        assert isinstance(tool_module.description, str), "Tool.description must be a string"
        assert tool_module.description, "Tool.description must not be empty"

    @pytest.mark.asyncio
    async def test_tool_has_execute_method(self, tool_module: Any) -> None:
        """execute() can be called."""
        assert callable(getattr(tool_module, "execute", None)), "Tool must have execute()"

    @pytest.mark.asyncio
    async def test_execute_returns_tool_result(self, tool_module: Any) -> None:
        """execute() answers with a ToolResult, also to input it can do nothing with."""
        from amplifier_core.models import ToolResult

        result = await tool_module.execute(dict(_CALL))
        assert isinstance(result, ToolResult), f"execute() must return ToolResult, got {type(result).__name__}"

    @pytest.mark.asyncio
    async def test_tool_result_has_required_fields(self, tool_module: Any) -> None:
        """The result says whether it succeeded, and what came of it."""
        result = await tool_module.execute(dict(_CALL))
        assert isinstance(result.success, bool), "ToolResult.success must be a bool"
        assert hasattr(result, "output"), "ToolResult must have output"
        assert hasattr(result, "error"), "ToolResult must have error"

    @pytest.mark.asyncio
    async def test_invalid_input_returns_error_result(self, tool_module: Any) -> None:
        """Empty input is answered, or refused on purpose: it does not cause an unexpected error."""
        try:
            result = await tool_module.execute({})
        except (AttributeError, TypeError, KeyError) as error:
            pytest.fail(f"execute({{}}) raised {error!r}; return ToolResult(success=False, error={{...}}) instead")
        except Exception:
            # Raised on purpose. Answering is better, but the caller can see what happened.
            return
        assert isinstance(result.success, bool), "ToolResult.success must be a bool"
