"""Run the validator of a module's kind as a test of the module's own suite."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from amplifier_core.validation import validator_for


class _StructuralTests:
    """Hold the one test; subclasses say which kind of module it is about."""

    module_type: ClassVar[str]

    @pytest.mark.asyncio
    async def test_structural_validation(self, module_path: Path | None) -> None:
        """The module passes every check of its kind."""
        if module_path is None:
            pytest.skip("No module path detected")
        validator = validator_for(self.module_type)
        assert validator is not None
        result = await validator.validate(module_path)
        if not result.passed:
            faults = "\n".join(f"  - {check.name}: {check.message}" for check in result.errors)
            pytest.fail(f"Structural validation failed:\n{faults}")


class ProviderStructuralTests(_StructuralTests):
    """Validate a provider module."""

    module_type = "provider"


class ToolStructuralTests(_StructuralTests):
    """Validate a tool module."""

    module_type = "tool"


class HookStructuralTests(_StructuralTests):
    """Validate a hook module."""

    module_type = "hook"


class OrchestratorStructuralTests(_StructuralTests):
    """Validate an orchestrator module."""

    module_type = "orchestrator"


class ContextStructuralTests(_StructuralTests):
    """Validate a context module."""

    module_type = "context"
