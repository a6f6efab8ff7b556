"""Results of checks, and the checks that all kinds of modules have in common.

One implementation serves two callers. `validate()` imports a module, mounts it on a fresh coordinator and inspects the
result; a live session passes the same validator the module object it loaded (`check_structure`) and the mount it just
made (`observe` before, `check_mounted` after).
"""

from __future__ import annotations

import importlib
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from amplifier_core.data import INTERRUPTS, reason
from amplifier_core.validation._import import import_module_from_path
from amplifier_core.validation._probe import facts

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

__all__ = [
    "ModuleValidator",
    "ValidationCheck",
    "ValidationResult",
    "check_on_session_ready",
    "import_module_from_path",
]

Severity = Literal["error", "warning", "info"]


@dataclass
class ValidationCheck:
    """Hold the outcome of one check."""

    name: str
    passed: bool
    message: str
    severity: Severity


class CheckList:
    """Count and sort the checks of a result."""

    checks: list[ValidationCheck]

    @property
    def passed(self) -> bool:
        """Whether no check of severity error failed."""
        return not self.errors

    @property
    def errors(self) -> list[ValidationCheck]:
        """The failed checks of severity error."""
        return self._failed("error")

    @property
    def warnings(self) -> list[ValidationCheck]:
        """The failed checks of severity warning."""
        return self._failed("warning")

    def add(self, check: ValidationCheck) -> None:
        self.checks.append(check)

    def summary(self) -> str:
        """Return one line: verdict, how many checks passed, how many errors and warnings."""
        good = sum(check.passed for check in self.checks)
        verdict = "PASSED" if self.passed else "FAILED"
        counts = f"({len(self.errors)} errors, {len(self.warnings)} warnings)"
        return f"{verdict}: {good}/{len(self.checks)} checks passed {counts}"

    def _failed(self, severity: Severity) -> list[ValidationCheck]:
        return [check for check in self.checks if not check.passed and check.severity == severity]


@dataclass
class ValidationResult(CheckList):
    """The checks made of one module."""

    module_type: str
    module_path: str
    checks: list[ValidationCheck] = field(default_factory=list)


def passing(name: str, message: str, severity: Severity = "info") -> ValidationCheck:
    return ValidationCheck(name, True, message, severity)


def failing(name: str, message: str, severity: Severity = "error") -> ValidationCheck:
    return ValidationCheck(name, False, message, severity)


def compliance_error(error: BaseException) -> ValidationCheck:
    """Return the check for a module that raised while it was looked at."""
    return failing("protocol_compliance", f"Error during protocol compliance check: {reason(error)}")


def check_on_session_ready(module: Any) -> ValidationCheck | None:
    """Return None when the module has no on_session_ready() or a good one, else the failing check."""
    name = "on_session_ready_async"
    try:
        callback = getattr(module, "on_session_ready", None)
        if callback is None:
            return None
        if not inspect.iscoroutinefunction(callback):
            return failing(
                name,
                "on_session_ready() must be async: found sync function. "
                "Use 'async def on_session_ready(coordinator) -> None:'",
            )
        if not _takes_required_positional(callback):
            return failing(
                name,
                "on_session_ready() must accept a coordinator argument: "
                "async def on_session_ready(coordinator) -> None",
            )
    except INTERRUPTS:
        raise
    except BaseException as error:
        return failing(name, f"on_session_ready() cannot be inspected: {reason(error)}")
    return None


def _takes_required_positional(callback: Any) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        parameter.kind in positional and parameter.default is parameter.empty
        for parameter in inspect.signature(callback).parameters.values()
    )


class ModuleValidator(ABC):
    """Check that a module of one kind keeps its contract."""

    module_type: ClassVar[str]
    mount_point: ClassVar[str]

    async def validate(
        self,
        module_path: str | Path,
        entry_point: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> ValidationResult:
        """Import the module, mount it on a fresh MockCoordinator with `config` and return every check made.

        `module_path` is a package folder, a `.py` file or a dotted name; `entry_point` is accepted and not used.
        Errors of the module are in the result; only KeyboardInterrupt, SystemExit and the cancellation of the caller's
        task are raised.
        """
        result = ValidationResult(self.module_type, str(module_path))
        module = _import_checked(module_path, result)
        if module is not None and self.check_structure(module, result):
            from amplifier_core.validation._trial import trial_mount  # needs the testing helpers, a live mount does not

            await trial_mount(self, module, config, result)
        return result

    def check_structure(self, module: Any, result: ValidationResult) -> bool:
        """Add the checks that need no mount; return False when the module has no usable mount()."""
        mount, check = _find_mount(module)
        result.add(check)
        if not check.passed:
            return False
        result.add(_check_mount_signature(mount))
        ready = check_on_session_ready(module)
        if ready is not None:
            result.add(ready)
        return True

    @abstractmethod
    def observe(self, coordinator: ModuleCoordinator) -> Any:
        """Return a snapshot of the mount point of this kind, to compare with later."""

    def check_mounted(
        self, result: ValidationResult, coordinator: ModuleCoordinator, before: Any, returned: Any
    ) -> None:
        """Add the checks of the objects mounted since `before`, or else of the one that mount() returned."""
        try:
            self._check_mounted(result, coordinator, before, returned)
        except INTERRUPTS:
            raise
        except BaseException as error:
            result.add(compliance_error(error))

    @abstractmethod
    def _check_mounted(
        self, result: ValidationResult, coordinator: ModuleCoordinator, before: Any, returned: Any
    ) -> None:
        """Add the checks; errors of the module's objects may be raised."""

    @abstractmethod
    def is_instance(self, obj: Any) -> bool:
        """Whether `obj` looks like an instance of this kind; never raises for an object's own faults."""


def _import_checked(module_path: str | Path, result: ValidationResult) -> ModuleType | None:
    name = "module_importable"
    try:
        path = Path(module_path)
        if path.is_dir() and not (path / "__init__.py").exists():
            result.add(failing(name, f"No __init__.py found in {path}"))
            return None
        if path.exists():
            module = import_module_from_path(path)
            result.add(passing(name, f"Module loaded from {path}"))
        else:
            module = importlib.import_module(str(module_path))
            result.add(passing(name, f"Module '{module_path}' imported successfully"))
        return module
    except INTERRUPTS:
        raise
    except ImportError as error:
        result.add(failing(name, f"Failed to import module: {reason(error)}"))
    except BaseException as error:
        result.add(failing(name, f"Error loading module: {reason(error)}"))
    return None


def _find_mount(module: Any) -> tuple[Any, ValidationCheck]:
    name = "mount_exists"
    try:
        mount = getattr(module, "mount", None)
    except INTERRUPTS:
        raise
    except BaseException as error:
        return None, failing(name, f"No mount() function found in module: looking for it raised {reason(error)}")
    if mount is None:
        return None, failing(name, "No mount() function found in module")
    if not callable(mount):
        return None, failing(name, "mount is not callable")
    return mount, passing(name, "mount() function found")


def _check_mount_signature(mount: Any) -> ValidationCheck:
    name = "mount_signature"
    try:
        is_async, parameters = facts(mount)
    except INTERRUPTS:
        raise
    except BaseException as error:
        return failing(
            name, f"mount() has no readable signature ({reason(error)}); use async def mount(coordinator, config=None)"
        )
    if parameters < 2:
        return failing(name, f"mount() should have at least 2 parameters (coordinator, config), found {parameters}")
    if not is_async:
        return failing(name, "mount() should be async (async def mount(...))")
    return passing(name, "mount() is async with correct signature")
