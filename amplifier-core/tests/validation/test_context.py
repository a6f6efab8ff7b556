"""What ContextValidator says of context modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import ContextValidator

WriteModule = Callable[[str], Path]

METHODS = ("add_message", "get_messages_for_request", "get_messages", "set_messages", "clear")
CONTEXT = """
class C:
    async def add_message(self, message): ...
    async def get_messages_for_request(self, token_budget=None, provider=None): return []
    async def get_messages(self): return []
    async def set_messages(self, messages): ...
    async def clear(self): ...
"""
MOUNT = """
async def mount(coordinator, config=None):
    await coordinator.mount("context", C())
"""


async def test_valid_context(write_module: WriteModule) -> None:
    """A valid context passes nine checks, word for word."""
    result = await ContextValidator().validate(write_module(CONTEXT + MOUNT))
    assert [(check.name, check.message) for check in result.checks[3:]] == [
        ("protocol_compliance", "Context implements ContextManager interface"),
        *((f"context_{name}", f"ContextManager.{name}() has correct async signature") for name in METHODS),
    ]
    assert result.summary() == "PASSED: 9/9 checks passed (0 errors, 0 warnings)"


@pytest.mark.parametrize(
    ("returned", "passed", "message"),
    [
        ("C()", True, "mount() returned a valid ContextManager instance"),
        ("lambda: None", True, "mount() returned a cleanup callable (no context mounted yet - may be conditional)"),
        ("None", False, "No context was mounted and mount() did not return a ContextManager instance"),
    ],
)
async def test_nothing_mounted(write_module: WriteModule, returned: str, passed: bool, message: str) -> None:
    """When nothing was mounted, what mount() returned decides."""
    source = CONTEXT + f"async def mount(coordinator, config=None): return {returned}"
    result = await ContextValidator().validate(write_module(source))
    assert result.passed is passed
    assert result.checks[3].message == message


@pytest.mark.parametrize("missing", METHODS)
async def test_object_without_the_interface(write_module: WriteModule, missing: str) -> None:
    """A mounted object that lacks any one of the five methods fails."""
    source = CONTEXT.replace(f"def {missing}(", f"def other_{missing}(")
    result = await ContextValidator().validate(write_module(source + MOUNT))
    assert [check.message for check in result.errors] == [
        (
            "Mounted context does not implement ContextManager interface "
            "(missing add_message, get_messages_for_request, get_messages, set_messages, or clear)"
        )
    ]


async def test_methods_must_be_async(write_module: WriteModule) -> None:
    """Each sync method is an error of its own."""
    result = await ContextValidator().validate(write_module(CONTEXT.replace("async def", "def") + MOUNT))
    assert [(check.name, check.message) for check in result.errors] == [
        (f"context_{name}", f"ContextManager.{name}() should be async") for name in METHODS
    ]


async def test_arguments_are_counted(write_module: WriteModule) -> None:
    """add_message() and set_messages() must take what they are given."""
    source = CONTEXT.replace("(self, message)", "(self)").replace("(self, messages)", "(self)")
    result = await ContextValidator().validate(write_module(source + MOUNT))
    assert [(check.name, check.message) for check in result.errors] == [
        ("context_add_message", "ContextManager.add_message() should accept (message), found 0 params"),
        ("context_set_messages", "ContextManager.set_messages() should accept (messages), found 0 params"),
    ]
