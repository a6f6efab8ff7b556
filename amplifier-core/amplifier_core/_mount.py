"""Mount modules in live sessions: what one session mounts, no other session of the process sees.

A mount wave is one pass of mounting and getting ready in one session. Loaders and modules are shared between sessions;
the current wave, found through the current scope, is not. A live session mounts a module once, and `mount_checked`
checks what that left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, MutableSequence
from functools import partial
from inspect import unwrap
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from amplifier_core._discovery import validation_error
from amplifier_core._rollback import Ledger, mount_points_copy, remove_identical, same
from amplifier_core.plan import TYPE_TO_MOUNT_POINT
from amplifier_core.trace import current_scope

if TYPE_CHECKING:
    from amplifier_core.validation.base import ModuleValidator, ValidationResult

logger = logging.getLogger(__name__)

Ready = Callable[[Any], Any]


class MountWave:
    """One pass of mounting and getting ready."""

    __slots__ = ("kind", "ready", "skipped")

    def __init__(self) -> None:
        #: The kind of module being mounted now, as the plan says.
        self.kind: str | None = None
        self.ready: list[tuple[str, Ready]] = []
        #: The modules whose on_session_ready() does not run, and why.
        self.skipped: list[tuple[str, str]] = []


class SessionList(MutableSequence[Any]):
    """A module-level list with separate contents for every session, and common ones outside of any.

    Whatever runs for a session (mounts, callbacks, handlers, turns) sees that session's contents. They live and die
    with its coordinator; the additions of a module whose mount fails are removed.
    """

    __hash__ = None  # type: ignore[assignment]  # like every list

    def __init__(self, common: list[Any]) -> None:
        self._common = common
        self._key = object()

    def _contents(self) -> list[Any]:
        scope = current_scope()
        fields = getattr(scope.owner, "__dict__", None) if scope is not None else None
        if fields is None:
            return self._common
        contents: list[Any] = fields.setdefault("_module_lists", {}).setdefault(self._key, [])
        return contents

    def insert(self, index: int, value: Any) -> None:
        """Insert a value; append() and extend() call this, too."""
        contents = self._contents()
        contents.insert(index, value)
        scope = current_scope()
        ledger = getattr(scope.owner, "_ledger", None) if scope is not None else None
        if isinstance(ledger, Ledger):
            ledger.note(partial(remove_identical, contents, value))

    def __getitem__(self, index: Any) -> Any:
        return self._contents()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._contents()[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._contents()[index]

    def __len__(self) -> int:
        return len(self._contents())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._contents())

    def __eq__(self, other: object) -> bool:
        return self._contents() == (other._contents() if isinstance(other, SessionList) else other)

    def __add__(self, other: list[Any]) -> list[Any]:
        return self._contents() + list(other)

    def __radd__(self, other: list[Any]) -> list[Any]:
        return list(other) + self._contents()

    def __repr__(self) -> str:
        return repr(self._contents())

    def copy(self) -> list[Any]:
        return self._contents().copy()

    def sort(self, **options: Any) -> None:
        self._contents().sort(**options)


def separate_deferred_lists(module: ModuleType | None, mount: object, ready: object) -> None:
    """Give each session its own contents of the lists in which a module leaves things for on_session_ready.

    The seeds' template appends its config to the module-level list `_deferred_configs` in mount() and pops it in
    on_session_ready(). With two sessions starting at once, one would pop the other's. Every private module-level list
    that is empty when the module is loaded counts as such a list; public ones stay as they are. Replacing them in the
    module is the only way to separate them: the template has no other place to ask which session is running.
    """
    functions = [unwrap(function) for function in (mount, ready) if callable(function)]
    homes = [function.__globals__ for function in functions if isinstance(function, FunctionType)]
    for home in [*homes, vars(module)] if module is not None else homes:
        for name, value in list(home.items()):
            if type(value) is list and not value and name.startswith("_") and not name.startswith("__"):
                home[name] = SessionList(value)


async def mount_checked(
    module_id: str, mount: Any, coordinator: Any, config: dict[str, Any], structure: ValidationResult
) -> Any:
    """Call the real mount(), check it by the rules of its kind and return its cleanup, if any.

    Raises ModuleValidationError when the module does not keep the contract of its kind. Rolling back is up to the
    caller, who does so for every other failure too.
    """
    from amplifier_core.validation import validator_for
    from amplifier_core.validation.base import ValidationResult

    validator = validator_for(structure.module_type)
    if validator is None:
        return await mount(coordinator, config)
    points = mount_points_copy(coordinator)
    before = validator.observe(coordinator)
    returned = await mount(coordinator, config)
    result = ValidationResult(structure.module_type, structure.module_path, list(structure.checks))
    validator.check_mounted(result, coordinator, before, returned)
    if not result.passed:
        raise validation_error(module_id, result, _wrong_kind_hint(validator, points, coordinator))
    if logger.isEnabledFor(logging.INFO):
        logger.info("[module:validated] %s - %s", module_id, result.summary())
    if not validator.is_instance(returned):
        return returned
    # An instance is never a cleanup, even if it can be called. One that did not mount itself is mounted here; hook
    # handlers register themselves.
    if validator.mount_point != "hooks" and same(before, validator.observe(coordinator)):
        await coordinator.mount(validator.mount_point, returned)
    return None


def _wrong_kind_hint(validator: ModuleValidator, before: dict[str, Any], coordinator: Any) -> str:
    """Name the kind of module it mounted instead, if it did: most likely it is listed in the wrong section."""
    for kind, point in TYPE_TO_MOUNT_POINT.items():
        if point != validator.mount_point and not same(before.get(point), coordinator.mount_points.get(point)):
            return f". It mounted a {kind} instead: list it under '{point}'"
    return ""
