"""What OrchestratorValidator says of orchestrator modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.validation import OrchestratorValidator

WriteModule = Callable[[str], Path]

ORCHESTRATOR = """
class O:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs): return "x"
"""
MOUNT = """
async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", O())
"""


async def test_valid_orchestrator(write_module: WriteModule) -> None:
    """A valid orchestrator passes five checks, word for word."""
    result = await OrchestratorValidator().validate(write_module(ORCHESTRATOR + MOUNT))
    assert [(check.name, check.message) for check in result.checks[3:]] == [
        ("protocol_compliance", "Orchestrator implements Orchestrator interface"),
        ("orchestrator_execute", "Orchestrator.execute() has correct async signature with 6 parameters"),
    ]
    assert result.summary() == "PASSED: 5/5 checks passed (0 errors, 0 warnings)"


@pytest.mark.parametrize(
    ("returned", "passed", "message"),
    [
        ("O()", True, "mount() returned a valid Orchestrator instance"),
        (
            "lambda: None",
            True,
            "mount() returned a cleanup callable (no orchestrator mounted yet - may be conditional)",
        ),
        ("None", False, "No orchestrator was mounted and mount() did not return an Orchestrator instance"),
    ],
)
async def test_nothing_mounted(write_module: WriteModule, returned: str, passed: bool, message: str) -> None:
    """When nothing was mounted, what mount() returned decides."""
    source = ORCHESTRATOR + f"async def mount(coordinator, config=None): return {returned}"
    result = await OrchestratorValidator().validate(write_module(source))
    assert result.passed is passed
    assert result.checks[3].message == message


@pytest.mark.parametrize("body", ["pass", "execute = 1"])
async def test_object_without_the_interface(write_module: WriteModule, body: str) -> None:
    """A mounted object without a callable execute fails."""
    result = await OrchestratorValidator().validate(write_module(f"class O: {body}\n{MOUNT}"))
    assert [check.message for check in result.errors] == [
        "Mounted orchestrator does not implement Orchestrator interface (missing execute)"
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("async def", "def", "Orchestrator.execute() should be async"),
        (
            "providers, tools, hooks, **kwargs",
            "*args, **kwargs",
            "Orchestrator.execute() should accept (prompt, context, providers, tools, hooks), found 4 params",
        ),
    ],
)
async def test_execute_check(write_module: WriteModule, before: str, after: str, message: str) -> None:
    """execute() must be async and declare the five arguments."""
    assert before in ORCHESTRATOR
    result = await OrchestratorValidator().validate(write_module(ORCHESTRATOR.replace(before, after) + MOUNT))
    assert [(check.name, check.message) for check in result.errors] == [("orchestrator_execute", message)]
