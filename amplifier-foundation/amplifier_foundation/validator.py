"""Validate bundles as objects, by the names that published apps import: anything with the attributes of a bundle.

Files are checked when they are read, with file and line (`bundles/checks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.exceptions import BundleValidationError

__all__ = ["BundleValidator", "ValidationResult", "validate_bundle", "validate_bundle_or_raise"]


@dataclass
class ValidationResult:
    """Whether a bundle is valid, and why not."""

    valid: bool = True
    errors: list[str] = field(default_factory=list)
    #: What does not make it invalid.
    warnings: list[str] = field(default_factory=list)


class BundleValidator:
    """Check the name, modules, agents and context of bundles; when `strict`, missing context files are errors."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict

    def validate(self, bundle: Any) -> ValidationResult:
        """Return the errors of a bundle that others may be composed with: it may have no session and no provider."""
        errors, warnings = list(_errors(bundle)), list(_missing_context(bundle))
        if self.strict:
            errors, warnings = errors + warnings, []
        return ValidationResult(not errors, errors, warnings)

    def validate_completeness(self, bundle: Any) -> ValidationResult:
        """Return the errors of a bundle that is to be run as it is: it needs a loop, a context and a provider too."""
        result = self.validate(bundle)
        session = getattr(bundle, "session", None)
        for key in SESSION_MODULES:
            if not (isinstance(session, Mapping) and session.get(key)):
                result.errors.append(f"Mount plan requires session.{key}")
        if not getattr(bundle, "providers", None):
            result.errors.append("Mount plan requires at least one provider")
        result.valid = not result.errors
        return result

    def validate_or_raise(self, bundle: Any) -> None:
        """Raise BundleValidationError with all errors that `validate` finds."""
        _raise(self.validate(bundle))

    def validate_completeness_or_raise(self, bundle: Any) -> None:
        """Raise BundleValidationError with all errors that `validate_completeness` finds."""
        _raise(self.validate_completeness(bundle))


def validate_bundle(bundle: Any, *, strict: bool = False) -> ValidationResult:
    """Return the errors and warnings of a bundle; see `BundleValidator.validate`."""
    return BundleValidator(strict=strict).validate(bundle)


def validate_bundle_or_raise(bundle: Any, *, strict: bool = False) -> None:
    """Raise BundleValidationError with all errors of a bundle; see `BundleValidator.validate`."""
    BundleValidator(strict=strict).validate_or_raise(bundle)


def _raise(result: ValidationResult) -> None:
    if not result.valid:
        raise BundleValidationError(f"Bundle validation failed: {'; '.join(result.errors)}")


def _errors(bundle: Any) -> Iterator[str]:
    if not getattr(bundle, "name", None):
        yield "Bundle must have a name"
    for section in MODULE_SECTIONS:
        entries = getattr(bundle, section, None) or []
        if not isinstance(entries, (list, tuple)):
            yield f"{section}: expected a list of modules, got {_kind(entries)}"
            continue
        for index, entry in enumerate(entries):
            yield from _module_errors(f"{section}[{index}]", entry, "module")
    session = getattr(bundle, "session", None) or {}
    if not isinstance(session, Mapping):
        yield f"session: expected a mapping, got {_kind(session)}"
        session = {}
    for key in SESSION_MODULES:
        if (spec := session.get(key)) and not isinstance(spec, str):
            yield from _module_errors(f"session.{key}", spec, "module", "source")
    agents = getattr(bundle, "agents", None) or {}
    if not isinstance(agents, Mapping):
        yield f"agents: expected a mapping, got {_kind(agents)}"
        agents = {}
    for name, agent in agents.items():
        if not isinstance(agent, Mapping):
            yield f"agents[{name!r}]: expected a mapping, got {_kind(agent)}"


def _module_errors(at: str, entry: Any, *required: str) -> Iterator[str]:
    """Yield the errors of one entry, which needs one of the `required` fields."""
    if not isinstance(entry, Mapping):
        yield f"{at}: expected a mapping with a 'module', got {_kind(entry)} {entry!r}"
        return
    given = [entry.get(key) for key in required]
    if not any(given):
        yield f"{at}: Missing required 'module' field"
    elif any(value is not None and not isinstance(value, str) for value in given):
        yield f"{at}: 'module' must be the id of a module, got {_kind(entry.get('module'))}"
    if not isinstance(config := entry.get("config"), Mapping | None):
        yield f"{at}: 'config' must be a mapping, got {_kind(config)}"


def _missing_context(bundle: Any) -> Iterator[str]:
    for name, path in (getattr(bundle, "context", None) or {}).items():
        if not Path(path).exists():
            yield f"context {name!r}: there is no file {path}"


def _kind(value: Any) -> str:
    return type(value).__name__
