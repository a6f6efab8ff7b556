"""What the validators of tools, providers, orchestrators and contexts report beyond the recorded scenarios."""

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
