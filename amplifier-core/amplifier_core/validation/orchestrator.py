"""Check orchestrator modules."""

from __future__ import annotations

from typing import Any

from amplifier_core.validation._interface import SingleValidator, check_async
from amplifier_core.validation.base import ValidationResult

__all__ = ["OrchestratorValidator"]


class OrchestratorValidator(SingleValidator):
    """Check that mount() mounts, or returns, something with execute()."""

    module_type = "orchestrator"
    mount_point = "orchestrator"
    interface = "Orchestrator"
    article = "an"
    members = "execute"
    methods = ("execute",)

    def _check_methods(self, result: ValidationResult, obj: Any) -> None:
        result.add(
            check_async(
                "orchestrator_execute",
                "Orchestrator.execute()",
                obj.execute,
                5,
                "Orchestrator.execute() should accept (prompt, context, providers, tools, hooks), found {n} params",
                "Orchestrator.execute() has correct async signature with {n} parameters",
            )
        )
