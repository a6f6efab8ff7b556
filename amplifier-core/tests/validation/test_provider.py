"""What ProviderValidator says of provider modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import ProviderValidator

WriteModule = Callable[[str], Path]

PROVIDER = """
from amplifier_core import ProviderInfo
class P:
    name = "p"
    def get_info(self): return ProviderInfo(id="p", display_name="P")
    async def list_models(self): return []
    async def complete(self, request, **kwargs): ...
    def parse_tool_calls(self, response): return []
"""
MOUNT = """
async def mount(coordinator, config=None):
    await coordinator.mount("providers", P(), name="mounted")
"""


async def test_valid_provider(write_module: WriteModule) -> None:
    """A valid provider passes nine checks, word for word."""
    result = await ProviderValidator().validate(write_module(PROVIDER + MOUNT))
    assert [(check.name, check.message) for check in result.checks[3:]] == [
        ("protocol_compliance", "Provider 'mounted' implements Provider interface"),
        ("provider_name", "Provider has name: 'p'"),
        ("provider_get_info", "Provider.get_info() returns ProviderInfo"),
        ("provider_list_models", "Provider.list_models() is async"),
        ("provider_complete", "Provider.complete() has correct async signature"),
        ("provider_parse_tool_calls", "Provider.parse_tool_calls() exists and is callable"),
    ]
    assert result.summary() == "PASSED: 9/9 checks passed (0 errors, 0 warnings)"


@pytest.mark.parametrize(
    ("returned", "passed", "message"),
    [
        ("P()", True, "mount() returned a valid Provider instance"),
        (
            "lambda: None",
            True,
            "mount() returned a cleanup callable (no provider mounted yet - may be conditional)",
        ),
        ("None", False, "No provider was mounted and mount() did not return a Provider instance"),
    ],
)
async def test_nothing_mounted(write_module: WriteModule, returned: str, passed: bool, message: str) -> None:
    """When nothing was mounted, what mount() returned decides."""
    source = PROVIDER + f"async def mount(coordinator, config=None): return {returned}"
    result = await ProviderValidator().validate(write_module(source))
    assert result.passed is passed
    assert result.checks[3].message == message


async def test_object_without_the_interface(write_module: WriteModule) -> None:
    """A mounted object that lacks a member fails, with all members listed."""
    result = await ProviderValidator().validate(write_module("class P:\n    name = 'p'\n" + MOUNT))
    assert [check.message for check in result.errors] == [
        (
            "Provider 'mounted' does not implement Provider interface "
            "(missing name, get_info, list_models, complete, or parse_tool_calls)"
        )
    ]


@pytest.mark.parametrize(
    ("before", "after", "check", "severity", "message"),
    [
        ('name = "p"', "name = None", "provider_name", "error", "Provider.name should be a non-empty string"),
        (
            'return ProviderInfo(id="p", display_name="P")',
            "return {}",
            "provider_get_info",
            "error",
            "Provider.get_info() should return ProviderInfo, got dict",
        ),
        (
            "def get_info",
            "async def get_info",
            "provider_get_info",
            "error",
            "Provider.get_info() should return ProviderInfo, got coroutine",
        ),
        (
            'return ProviderInfo(id="p", display_name="P")',
            "raise RuntimeError('no key')",
            "provider_get_info",
            "warning",
            "Error calling Provider.get_info(): no key",
        ),
        (
            "async def list_models",
            "def list_models",
            "provider_list_models",
            "error",
            "Provider.list_models() should be async",
        ),
        ("async def complete", "def complete", "provider_complete", "error", "Provider.complete() should be async"),
        (
            "(self, request, **kwargs)",
            "(self)",
            "provider_complete",
            "error",
            "Provider.complete() should accept request parameter",
        ),
    ],
)
async def test_member_checks(
    write_module: WriteModule, before: str, after: str, check: str, severity: str, message: str
) -> None:
    """Each member of a provider has a check of its own; only errors fail the module."""
    assert before in PROVIDER
    result = await ProviderValidator().validate(write_module(PROVIDER.replace(before, after) + MOUNT))
    assert [(c.severity, c.name, c.message) for c in result.checks if not c.passed] == [(severity, check, message)]
    assert result.passed is (severity != "error")
    assert len(result.checks) == 9
