"""What the validators of tools, providers, orchestrators and contexts report beyond the recorded scenarios."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import ContextValidator, OrchestratorValidator, ProviderValidator, ToolValidator

WriteModule = Callable[[str], Path]

TOOL = """
class T:
    name = "t"
    description = "d"
    async def execute(self, input): ...
"""
PROVIDER = """
from amplifier_core import ProviderInfo
class P:
    name = "p"
    def get_info(self): return ProviderInfo(id="p", display_name="P")
    async def list_models(self): return []
    async def complete(self, request, **kwargs): ...
    def parse_tool_calls(self, response): return []
async def mount(coordinator, config=None):
    await coordinator.mount("providers", P(), name="mounted")
"""
METHODS = ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear")
CONTEXT = """
class C:
    async def add_message(self, message): ...
    async def get_messages_for_request(self, token_budget=None, provider=None): return []
    async def get_messages(self): return []
    async def set_messages(self, messages): ...
    async def clear(self): ...
"""
MOUNT_CONTEXT = """
async def mount(coordinator, config=None):
    await coordinator.mount("context", C())
"""


@pytest.mark.parametrize("returned", ["{'name': 'tool-x'}", "5"])
async def test_iron_law(write_module: WriteModule, returned: str) -> None:
    """A mount() that mounts nothing and returns no tool fails, in the words of the Iron Law."""
    result = await ToolValidator().validate(
        write_module(f"async def mount(coordinator, config=None): return {returned}")
    )
    assert [f"{check.name}: {check.message}" for check in result.errors] == [
        "protocol_compliance: No tool was mounted and mount() did not return a Tool instance"
    ]
    assert result.summary() == "FAILED: 3/4 checks passed (1 errors, 0 warnings)"


async def test_returned_class_is_no_instance(write_module: WriteModule) -> None:
    """The class of a tool, returned without parentheses, is not a tool."""
    result = await ToolValidator().validate(write_module(TOOL + "async def mount(coordinator, config=None): return T"))
    assert [check.message for check in result.errors] == [
        "No tool was mounted and mount() did not return a Tool instance"
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


@pytest.mark.parametrize(
    ("before", "after", "check", "message"),
    [
        ('name = "p"', "name = None", "provider_name", "Provider.name should be a non-empty string"),
        (
            "def get_info",
            "async def get_info",
            "provider_get_info",
            "Provider.get_info() should return ProviderInfo, got coroutine",
        ),
    ],
)
async def test_members_of_a_provider(
    write_module: WriteModule, before: str, after: str, check: str, message: str
) -> None:
    """A faulty member is one error, and the other checks pass."""
    result = await ProviderValidator().validate(write_module(PROVIDER.replace(before, after)))
    assert [(c.severity, c.name, c.message) for c in result.checks if not c.passed] == [("error", check, message)]
    assert len(result.checks) == 9


async def test_execute_must_be_callable(write_module: WriteModule) -> None:
    """A mounted orchestrator whose execute is not callable fails."""
    source = (
        "class O: execute = 1\nasync def mount(coordinator, config=None): await coordinator.mount('orchestrator', O())"
    )
    result = await OrchestratorValidator().validate(write_module(source))
    assert [check.message for check in result.errors] == [
        "Mounted orchestrator does not implement Orchestrator interface (missing execute)"
    ]


@pytest.mark.parametrize("missing", METHODS)
async def test_context_without_a_method(write_module: WriteModule, missing: str) -> None:
    """A mounted object that lacks any one of the five methods fails."""
    source = CONTEXT.replace(f"def {missing}(", f"def other_{missing}(")
    result = await ContextValidator().validate(write_module(source + MOUNT_CONTEXT))
    assert [check.message for check in result.errors] == [
        (
            "Mounted context does not implement ContextManager interface "
            "(missing add_message, get_messages_for_request, get_messages, set_messages, or clear)"
        )
    ]


async def test_methods_of_a_context_must_be_async(write_module: WriteModule) -> None:
    """Each sync method is a separate error."""
    result = await ContextValidator().validate(write_module(CONTEXT.replace("async def", "def") + MOUNT_CONTEXT))
    assert [(check.name, check.message) for check in result.errors] == [
        (f"context_{name}", f"ContextManager.{name}() should be async") for name in METHODS
    ]


async def test_arguments_of_a_context_are_counted(write_module: WriteModule) -> None:
    """add_message() and set_messages() must take what they are given."""
    source = CONTEXT.replace("(self, message)", "(self)").replace("(self, messages)", "(self)")
    result = await ContextValidator().validate(write_module(source + MOUNT_CONTEXT))
    assert [(check.name, check.message) for check in result.errors] == [
        ("context_add_message", "ContextManager.add_message() should accept (message), found 0 params"),
        ("context_set_messages", "ContextManager.set_messages() should accept (messages), found 0 params"),
    ]
