"""Check modules and mount plans: standalone, in a live session, from the command line and from pytest.

Names are resolved when first used, so that a session loads the validators of the kinds it mounts and nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amplifier_core.validation.base import ModuleValidator, ValidationCheck, ValidationResult
    from amplifier_core.validation.context import ContextValidator
    from amplifier_core.validation.hook import HookValidator
    from amplifier_core.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
    from amplifier_core.validation.orchestrator import OrchestratorValidator
    from amplifier_core.validation.provider import ProviderValidator
    from amplifier_core.validation.tool import ToolValidator

__all__ = [
    "ContextValidator",
    "HookValidator",
    "ModuleValidator",
    "MountPlanValidationResult",
    "MountPlanValidator",
    "OrchestratorValidator",
    "ProviderValidator",
    "ToolValidator",
    "ValidationCheck",
    "ValidationResult",
    "validator_for",
]

#: Module types that have a validator, in the order people list them.
MODULE_TYPES = ("provider", "tool", "hook", "orchestrator", "context")

_HOMES = {
    "ModuleValidator": "base",
    "ValidationCheck": "base",
    "ValidationResult": "base",
    "MountPlanValidationResult": "mount_plan",
    "MountPlanValidator": "mount_plan",
    **{f"{kind.title()}Validator": kind for kind in MODULE_TYPES},
}

_validators: dict[str, ModuleValidator] = {}


def validator_for(module_type: str) -> ModuleValidator | None:
    """Return the validator of a module type, or None for a type that has none; it keeps no state between calls."""
    if module_type not in MODULE_TYPES:
        return None
    validator = _validators.get(module_type)
    if validator is None:
        validator = _validators[module_type] = __getattr__(f"{module_type.title()}Validator")()
    return validator


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
