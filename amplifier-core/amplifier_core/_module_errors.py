"""Say why a module cannot be used, to people by a text and to machines by a reason code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError

if TYPE_CHECKING:
    from amplifier_core.validation.base import ValidationResult

MODULE_FAILURE_REASONS = frozenset(
    {
        "invalid_package_layout",
        "missing_source",
        "invalid_entry_point",
        "invalid_module_metadata",
        "validation_failed",
        "unknown",
    }
)
_ENTRY_POINT_CHECKS = frozenset({"mount_exists", "mount_signature", "on_session_ready_async"})


class ModuleValidationError(Exception):
    """A module was found but must not be used; `reason_code` says why to machines."""

    def __init__(self, message: str, *, reason_code: str = "validation_failed") -> None:
        super().__init__(message)
        self.reason_code = reason_code


class NotFoundError(ValueError):
    """No module of that id is installed."""

    reason_code = "missing_source"


class UnloadableError(ValueError):
    """The package was found and checked, but has nothing to mount."""

    reason_code = "invalid_entry_point"


def module_failure_reason(error: BaseException) -> str:
    """Return the reason code of a load failure; "unknown" for errors that are not the loader's."""
    if isinstance(error, SourceNotFoundError):
        return "missing_source"
    code = getattr(error, "reason_code", None)
    return code if isinstance(code, str) and code in MODULE_FAILURE_REASONS else "unknown"


def validation_error(module_id: str, result: ValidationResult, hint: str = "") -> ModuleValidationError:
    """Return the error that says which checks a module failed."""
    failed = result.errors
    listed = "; ".join(f"{check.name}: {check.message}" for check in failed)
    entry_point = any(check.name in _ENTRY_POINT_CHECKS for check in failed)
    return ModuleValidationError(
        f"Module '{module_id}' failed validation: {result.summary()}. Errors: {listed}{hint}",
        reason_code="invalid_entry_point" if entry_point else "validation_failed",
    )
