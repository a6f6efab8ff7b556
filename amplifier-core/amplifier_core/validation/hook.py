"""Check hook modules."""

from __future__ import annotations

from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from amplifier_core.data import INTERRUPTS
from amplifier_core.validation._probe import facts
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    ValidationResult,
    failing,
    passing,
)

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

__all__ = ["HookValidator"]

_COMPLIANCE = "protocol_compliance"

#: Callables that, returned by mount(), are cleanups and never handlers.
_CLEANUPS = (FunctionType, MethodType, BuiltinFunctionType, partial)


class HookValidator(ModuleValidator):
    """Look at the handlers that mount() registered, or at the handler object it returned.

    Registering nothing is valid: a hook may register in on_session_ready(), or only when configured.
    """

    module_type = "hook"
    mount_point = "hooks"

    def observe(self, coordinator: ModuleCoordinator) -> dict[str, list[str]]:
        """Return the names of all handlers by event."""
        return coordinator.hooks.list_handlers()

    def is_instance(self, obj: Any) -> bool:
        """Whether `obj` is an object, no class or function, whose __call__ is async and takes event and data."""
        try:
            return _is_callable_object(obj) and not isinstance(obj, type) and _check_call(obj).passed
        except INTERRUPTS:
            raise
        except BaseException:
            # An object that cannot be inspected is not a handler; check_mounted() reports why.
            return False

    def _check_mounted(
        self, result: ValidationResult, coordinator: ModuleCoordinator, before: Any, returned: Any
    ) -> None:
        if _grew(before, self.observe(coordinator)):
            result.add(passing(_COMPLIANCE, "Hooks registered via coordinator.hooks.register()"))
        elif _is_callable_object(returned):
            result.add(passing(_COMPLIANCE, "mount() returned a valid HookHandler instance"))
            result.add(_check_call(returned))
        elif callable(returned):
            result.add(passing(_COMPLIANCE, "mount() registered hooks via coordinator.hooks"))
        else:
            result.add(passing(_COMPLIANCE, "Hooks registered via coordinator.hooks"))


def _grew(before: dict[str, list[str]], after: dict[str, list[str]]) -> bool:
    for event, names in after.items():
        known = before.get(event, [])
        if names != known and (len(names) > len(known) or any(name not in known for name in names)):
            return True
    return False


def _is_callable_object(obj: Any) -> bool:
    return callable(obj) and not isinstance(obj, _CLEANUPS)


def _check_call(handler: Any) -> ValidationCheck:
    name = "hook_call"
    if isinstance(handler, type):
        return failing(name, f"mount() returned the class {handler.__name__}; return an instance of it")
    is_async, parameters = facts(handler.__call__)
    if not is_async:
        return failing(name, "HookHandler.__call__() should be async")
    if parameters < 2:
        return failing(name, f"HookHandler.__call__() should accept (event, data), found {parameters} params")
    return passing(name, "HookHandler.__call__() has correct async signature (event, data)")
