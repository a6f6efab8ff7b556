"""The validators of each kind of module, and of plain result dicts, beyond the recorded scenarios."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation import HookValidator, ProviderValidator, ValidationResult
from amplifier_core.validation.proto_schema import validate_hook_result, validate_tool_result

WriteModule = Callable[[str], Path]

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


REGISTERED = "Hooks registered via coordinator.hooks.register()"

HANDLER = """
class H:
    async def __call__(self, event, data): ...
"""


async def test_returned_class_is_no_handler(write_module: WriteModule) -> None:
    """The class of a handler, returned without parentheses, is not an instance."""
    result = await HookValidator().validate(
        write_module(HANDLER + "async def mount(coordinator, config=None): return H")
    )
    assert [(check.name, check.message) for check in result.errors] == [
        ("hook_call", "mount() returned the class H; return an instance of it")
    ]


class Handler:
    async def __call__(self, event: str, data: Any) -> None: ...


async def test_only_new_handlers_count() -> None:
    """In a live session, handlers of other modules are not taken for this module's."""
    validator, coordinator = HookValidator(), MockCoordinator()
    coordinator.hooks.register("tool:pre", Handler(), name="other")
    before = validator.observe(coordinator)

    def message() -> str:
        result = ValidationResult("hook", "here")
        validator.check_mounted(result, coordinator, before, None)
        return result.checks[0].message

    assert message() == "Hooks registered via coordinator.hooks"
    coordinator.hooks.unregister("other")
    assert message() == "Hooks registered via coordinator.hooks"
    coordinator.hooks.register("tool:pre", Handler(), name="mine")
    assert message() == REGISTERED


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"success": False, "output": 3, "error": None}, []),
        ({"success": None}, ["Field 'success' must be bool, got NoneType"]),
        ([], ["Tool result must be a dict, got list"]),
    ],
)
def test_tool_result(data: Any, expected: list[str]) -> None:
    """A tool result needs a bool under `success`."""
    assert validate_tool_result(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"action": "ask_user", "context_injection_role": None, "approval_default": "allow"}, []),
        (
            {"action": []},
            ["Invalid action '[]': must be one of ['ask_user', 'continue', 'deny', 'inject_context', 'modify']"],
        ),
        (
            {"context_injection_role": "tool", "user_message_level": "loud", "approval_default": "maybe"},
            [
                "Invalid context_injection_role 'tool': must be one of ['assistant', 'system', 'user']",
                "Invalid user_message_level 'loud': must be one of ['error', 'info', 'warning']",
                "Invalid approval_default 'maybe': must be one of ['allow', 'deny']",
            ],
        ),
        (None, ["Hook result must be a dict, got NoneType"]),
    ],
)
def test_hook_result(data: Any, expected: list[str]) -> None:
    """A hook result may leave everything out, but what is there must be known; no action means continue."""
    assert validate_hook_result(data) == expected
