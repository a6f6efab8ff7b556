"""Offer module authors the tests that every module of a kind must pass: inherit the class in a test file."""

from amplifier_core.validation.behavioral.test_context import ContextBehaviorTests
from amplifier_core.validation.behavioral.test_hook import HookBehaviorTests
from amplifier_core.validation.behavioral.test_orchestrator import OrchestratorBehaviorTests
from amplifier_core.validation.behavioral.test_provider import ProviderBehaviorTests
from amplifier_core.validation.behavioral.test_tool import ToolBehaviorTests

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "ToolBehaviorTests",
]
