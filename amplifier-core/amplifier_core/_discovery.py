"""Find a module, installed or in a folder, without loading it, and say why it cannot be used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.plan import TYPE_TO_MOUNT_POINT

if TYPE_CHECKING:
    from amplifier_core.validation.base import ValidationCheck, ValidationResult

_GROUP = "amplifier.modules"
PACKAGE_PREFIX = "amplifier_module_"
#: What in a module's id suggests its kind, in the order of the published kernel.
_KEYWORDS = {
    "orchestrat": "orchestrator",
    "loop": "orchestrator",
    "provider": "provider",
    "tool": "tool",
    "hook": "hook",
    "context": "context",
}


def package_name(module_id: str) -> str:
    return f"{PACKAGE_PREFIX}{module_id.replace('-', '_')}"


def guess_type(module_id: str) -> str:
    """Return the kind that a module's id suggests; a tool when it suggests none."""
    lowered = module_id.lower()
    return next((kind for keyword, kind in _KEYWORDS.items() if keyword in lowered), "tool")


# -- installed modules --

#: Entry points by module id, for a sys.path: of all that is installed, and of the modules that were asked for before.
#: One scan costs milliseconds and every module of every session asks: keep them while nothing can have changed.
_scan: tuple[tuple[str, ...], dict[str, Any]] | None = None
_single: tuple[tuple[str, ...], dict[str, Any]] = ((), {})


def find_entry_point(module_id: str, *, rescan: bool = False) -> Any | None:
    """Return the entry point of an installed module, None without one.

    That of the distribution which is named after the module counts first; looking for it takes a fraction of a scan.
    """
    global _single
    metadata = importlib.import_module("importlib.metadata")
    key = tuple(sys.path)
    if rescan or not _is_genuine(metadata) or (_scan is not None and _scan[0] == key):
        return module_entry_points(rescan=rescan).get(module_id)
    if _single[0] != key:
        _single = (key, {})
    known = _single[1]
    if module_id not in known:
        for distribution in metadata.distributions(name=f"amplifier-module-{module_id}"):
            for entry_point in distribution.entry_points.select(group=_GROUP, name=module_id):
                return known.setdefault(module_id, entry_point)
        return module_entry_points().get(module_id)
    return known[module_id]


def module_entry_points(*, rescan: bool = False) -> dict[str, Any]:
    """Return entry points by module id.

    The scan is cached while sys.path stays the same and `importlib.metadata.entry_points` is the original: tests of
    module authors replace that function, which must take effect at once.
    """
    global _scan
    metadata = importlib.import_module("importlib.metadata")
    is_genuine, key = _is_genuine(metadata), tuple(sys.path)
    if is_genuine and not rescan and _scan is not None and _scan[0] == key:
        return _scan[1]
    found: dict[str, Any] = {}
    for entry_point in _scan_files(metadata) if is_genuine else metadata.entry_points(group=_GROUP):
        found.setdefault(entry_point.name, entry_point)
    if is_genuine:
        _scan = (key, found)
    return found


def _is_genuine(metadata: Any) -> bool:
    scan = metadata.entry_points
    return isinstance(scan, FunctionType) and scan.__globals__ is vars(metadata)


def _scan_files(metadata: Any) -> Iterator[Any]:
    """Yield the entry points of modules; of most distributions, reading the file shows that there are none."""
    for distribution in metadata.distributions():
        text = distribution.read_text("entry_points.txt")
        if text and _GROUP in text:
            yield from distribution.entry_points.select(group=_GROUP)


# -- modules in folders --


def find_package_dir(module_id: str, path: Path) -> Path | None:
    """Return the package folder of a module at `path`, or None."""
    if not path.exists():
        return None
    if (path / "__init__.py").exists():
        return path
    candidates = [path / package_name(module_id), *sorted(path.glob(f"{PACKAGE_PREFIX}*"))]
    return next((package for package in candidates if (package / "__init__.py").exists()), None)


def check_manifest(module_id: str, path: Path) -> None:
    """Raise ModuleValidationError when amplifier.toml at `path` is malformed, or asks for anything but Python."""
    manifest = path / "amplifier.toml"
    if not manifest.exists():
        return
    import tomllib

    try:
        module = tomllib.loads(manifest.read_text(encoding="utf-8")).get("module")
        if not isinstance(module, dict):
            raise ValueError("the [module] table is missing")
        kinds = [*TYPE_TO_MOUNT_POINT, "approval"]  # "approval" is declared by published modules, and loaded as a tool
        if module.get("type") not in kinds:
            raise ValueError(f"[module] type must be one of {', '.join(kinds)}, got {module.get('type')!r}")
        transport = module.get("transport", "python")
        if not isinstance(transport, str):
            raise ValueError(f"[module] transport must be a string, got {transport!r}")
    except (OSError, ValueError) as error:
        text = f"failed to parse amplifier.toml at {manifest}: {error}"
        raise ModuleValidationError(text, reason_code="invalid_module_metadata") from error
    if transport != "python":
        raise ModuleValidationError(
            f"Module '{module_id}' at {path} asks for transport '{transport}', but only 'python' is supported: "
            "provide the module as a Python package, or remove the transport from amplifier.toml",
            reason_code="invalid_module_metadata",
        )


# -- why a module cannot be used: a text for people, a reason code for machines --

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


#: Marks the log records about a module that cannot be loaded, for apps that report it in their own words.
LOAD_FAILURE = {"is_load_failure": True}


class ModuleValidationError(Exception):
    """A module was found but must not be used; `reason_code` is the reason in machine-readable form.

    `checks` are the failed checks and `path` is the place of the module, if it was checked.
    """

    def __init__(
        self,
        message: str,
        *,
        reason_code: str = "validation_failed",
        checks: Sequence[ValidationCheck] = (),
        path: str | None = None,
    ) -> None:
        super().__init__(message)
        self.reason_code = reason_code
        self.checks = tuple(checks)
        self.path = path


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
        checks=failed,
        path=result.module_path,
    )
