"""Offer module authors a structural test per kind: inherit the class, and the validator runs with your tests."""

from amplifier_core.validation.base import check_on_session_ready
from amplifier_core.validation.structural.suites import (
    ContextStructuralTests,
    HookStructuralTests,
    OrchestratorStructuralTests,
    ProviderStructuralTests,
    ToolStructuralTests,
)

__all__ = [
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
    "check_on_session_ready",
]
