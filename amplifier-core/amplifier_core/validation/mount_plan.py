"""Check the shape of a mount plan before a session is made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from amplifier_core.data import describe
from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES, type_error
from amplifier_core.utils.truncate import redact_secrets
from amplifier_core.validation.base import CheckList, ValidationCheck, failing, passing

__all__ = ["MountPlanValidationResult", "MountPlanValidator"]


@dataclass
class MountPlanValidationResult(CheckList):
    """The checks made of one plan."""

    checks: list[ValidationCheck] = field(default_factory=list)

    def format_errors(self) -> str:
        """Return the errors as a numbered list with a title and a total, or `No errors`."""
        errors = self.errors
        if not errors:
            return "No errors"
        lines = [f"  {number}. [{check.name}] {check.message}" for number, check in enumerate(errors, 1)]
        return "\n".join(["Mount Plan Validation Failed:", "", *lines, "", f"Total: {len(errors)} error(s)"])


class MountPlanValidator:
    """Check that a plan has the sections, and its module specs the fields, that a session needs."""

    REQUIRED_SECTIONS: ClassVar[frozenset[str]] = frozenset({"session"})
    OPTIONAL_SECTIONS: ClassVar[frozenset[str]] = frozenset({*MODULE_SECTIONS, "agents"})
    REQUIRED_SESSION_FIELDS: ClassVar[frozenset[str]] = frozenset(SESSION_MODULES)
    REQUIRED_MODULE_SPEC_FIELDS: ClassVar[frozenset[str]] = frozenset({"module"})

    def validate(self, plan: Any) -> MountPlanValidationResult:
        """Return every check made of `plan`, which may be anything; never raises."""
        result = MountPlanValidationResult()
        if not isinstance(plan, dict):
            result.add(failing("root_type", f"Mount plan must be a dict, got {type(plan).__name__}"))
            return result
        result.add(passing("root_type", "Mount plan is a dict"))
        self._check_sections(plan, result)
        if "session" in plan:
            self._check_session(plan["session"], result)
        for section in MODULE_SECTIONS:
            if section in plan:
                self._check_modules(section, plan[section], result)
        return result

    def _check_sections(self, plan: dict[Any, Any], result: MountPlanValidationResult) -> None:
        for section in sorted(self.REQUIRED_SECTIONS):
            if section in plan:
                result.add(passing(f"{section}_present", f"{section.title()} section present"))
            else:
                result.add(failing(f"{section}_present", f"Mount plan missing required '{section}' section"))
        # Sections named after the session's two modules carry their config: known, but not checked.
        known = self.REQUIRED_SECTIONS | self.OPTIONAL_SECTIONS | SESSION_MODULES.keys()
        unknown = sorted((section for section in plan if section not in known), key=str)
        if unknown:
            result.add(failing("unknown_sections", f"Unknown sections will be ignored: {unknown}", "warning"))

    def _check_session(self, session: Any, result: MountPlanValidationResult) -> None:
        if not isinstance(session, dict):
            result.add(failing("session_type", f"Session section must be a dict, got {type(session).__name__}"))
            return
        for name in sorted(self.REQUIRED_SESSION_FIELDS):
            if name in session:
                self._check_spec(f"session.{name}", session[name], result)
            else:
                result.add(failing(f"session_{name}_present", f"Session section missing required '{name}' field"))

    def _check_modules(self, section: str, specs: Any, result: MountPlanValidationResult) -> None:
        if not isinstance(specs, list):
            result.add(failing(f"{section}_type", f"'{section}' section must be a list, got {type(specs).__name__}"))
            return
        if not specs:
            result.add(passing(f"{section}_empty", f"'{section}' section is empty"))
        for index, spec in enumerate(specs):
            self._check_spec(f"{section}[{index}]", spec, result)

    def _check_spec(self, path: str, spec: Any, result: MountPlanValidationResult) -> None:
        if not isinstance(spec, dict):
            result.add(failing(f"{path}_type", f"Module spec at {path} must be a dict, got {type(spec).__name__}"))
            return
        missing = sorted(self.REQUIRED_MODULE_SPEC_FIELDS - spec.keys())
        for name in missing:
            result.add(
                failing(
                    f"{path}_{name}_required",
                    f"Module spec at {path} missing required '{name}' field.\n  Got: {_shown(spec)}\n"
                    "  Expected: {'module': 'module-name', 'source': '...', 'config': {...}}",
                )
            )
        if not missing:
            self._check_module_fields(path, spec, result)

    def _check_module_fields(self, path: str, spec: dict[Any, Any], result: MountPlanValidationResult) -> None:
        module = spec["module"]
        if module == "":
            result.add(failing(f"{path}_module_empty", f"Module path at {path} cannot be empty"))
        elif isinstance(module, str):
            result.add(passing(f"{path}_module_valid", f"Module path '{module}' at {path} is valid"))
        for name in ("module", "config", "source"):
            error = type_error(path, name, spec[name]) if name in spec else None
            if error is not None:
                result.add(failing(f"{path}_{name}_type", error))


def _shown(spec: dict[Any, Any]) -> str:
    """Return the spec as text: messages end up in logs, so keys of services must not be in them."""
    return describe(redact_secrets(spec))
