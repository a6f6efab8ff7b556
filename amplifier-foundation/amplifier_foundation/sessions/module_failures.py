"""Describe why a module of a plan cannot be used: the reason, the place, and how to fix it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.data import reason
from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError
from amplifier_core.named_tuple import NamedTuple
from amplifier_core.plan import TYPE_TO_MOUNT_POINT
from amplifier_foundation.tracebacks import frame_lines, location

#: Errors that are faults of the code, whose text alone does not say what went wrong.
_CODE_FAULTS: Final = (LookupError, AttributeError, TypeError, NameError, ArithmeticError, AssertionError)
_MOUNT: Final = "`async def mount(coordinator, config=None)`"
#: How to fix what a check of the kernel found.
_FIXES: Final = {
    "mount_exists": f"define {_MOUNT} in the `__init__.py` of the package",
    "mount_signature": f"write {_MOUNT}",
    "tool_execute": "write `async def execute(self, input)`",
}


class ModuleFailure(NamedTuple):
    """A module that cannot be loaded or mounted."""

    kind: str
    #: Its entry in the plan.
    entry: Mapping[str, Any]
    error: BaseException

    @property
    def reason(self) -> str:
        """Why, on one line: the failed checks, or the text of the error."""
        checks = getattr(self.error, "checks", ())
        if checks:
            return "; ".join(f"{check.name}: {check.message}" for check in checks)
        has_no_source = isinstance(self.error, SourceNotFoundError) and self.error.__cause__ is not None
        text = reason(self.error.__cause__ if has_no_source and self.error.__cause__ else self.error)
        return f"{type(self.error).__name__}: {text}" if isinstance(self.error, _CODE_FAULTS) else text

    @property
    def text(self) -> str:
        return f"{self.kind} '{self.entry['module']}': {self.reason}"

    @property
    def hints(self) -> list[str]:
        """Where the module is and how to fix it; nothing for a module of the program, whose reason says that."""
        if not self.entry.get("source") and not isinstance(self.error, _CODE_FAULTS):
            return []
        place = location(self.error) or getattr(self.error, "path", None)
        fix = self._fix
        return [*([f"in {place}"] if place else []), *([f"fix: {fix}"] if fix else [])]

    @property
    def frames(self) -> list[str]:
        """The last lines of the module's own code in the traceback."""
        return frame_lines(self.error)

    @property
    def _fix(self) -> str | None:
        names = [check.name for check in getattr(self.error, "checks", ())]
        if "does not implement" in self.reason:
            return (
                f"write what is missing; `amplifier module validate {self.entry.get('source', 'PATH')}` checks it again"
            )
        if "protocol_compliance" in names:
            point = TYPE_TO_MOUNT_POINT.get(self.kind, f"{self.kind}s")
            if point == "hooks":
                return "register the handler with `coordinator.hooks.register(event, handler, name=…)`"
            how = f'await coordinator.mount("{point}", {self.kind}, name={self.kind}.name)'
            return f"call `{how}` in mount(), or return the {self.kind}"
        cause = self.error.__cause__
        if "module_importable" in names and isinstance(cause, ModuleNotFoundError):
            return f"correct the import, or add what provides '{cause.name}' to `dependencies` in its pyproject.toml"
        if "module_importable" in names:
            return "correct the code there: it runs when the module is imported"
        if names:
            return _FIXES.get(names[0])
        return "correct the code there; the log has the whole traceback" if location(self.error) else None
