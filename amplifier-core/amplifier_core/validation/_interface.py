"""Check modules whose mount() must leave an object behind: tools, providers, orchestrators, contexts.

An interface is a set of attributes that exist and methods that can be called; no base class is required.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from amplifier_core.data import INTERRUPTS
from amplifier_core.validation._probe import facts
from amplifier_core.validation.base import (
    ModuleValidator,
    ValidationCheck,
    ValidationResult,
    compliance_error,
    failing,
    passing,
)

if TYPE_CHECKING:
    from amplifier_core.coordinator import ModuleCoordinator

_COMPLIANCE = "protocol_compliance"


class InterfaceValidator(ModuleValidator):
    """Check an object that is mounted, or returned for the kernel to mount."""

    #: The interface as messages name it, with its article, and its members as they list them.
    interface: ClassVar[str]
    article: ClassVar[str] = "a"
    members: ClassVar[str]

    attributes: ClassVar[tuple[str, ...]] = ()
    methods: ClassVar[tuple[str, ...]]

    def is_instance(self, obj: Any) -> bool:
        """Return whether `obj` is an object, not a class, that has the whole interface."""
        try:
            return not isinstance(obj, type) and self._implements(obj)
        except INTERRUPTS:
            raise
        except BaseException:
            # An object that cannot be inspected is not an instance; check_mounted() reports why.
            return False

    def _implements(self, obj: Any) -> bool:
        return all(hasattr(obj, name) for name in self.attributes) and all(
            callable(getattr(obj, name, None)) for name in self.methods
        )

    def _check_mounted(
        self, result: ValidationResult, coordinator: ModuleCoordinator, before: Any, returned: Any
    ) -> None:
        fresh = self._fresh(coordinator, before)
        if not fresh:
            self._check_returned(result, returned)
        for name, obj in fresh.items():
            try:
                self._check_object(result, name, obj)
            except INTERRUPTS:
                raise
            except BaseException as error:  # one object's fault must not hide the others
                result.add(compliance_error(error))

    @abstractmethod
    def _fresh(self, coordinator: ModuleCoordinator, before: Any) -> dict[str, Any]:
        """Return the objects mounted since `before`, by name."""

    def _check_returned(self, result: ValidationResult, returned: Any) -> None:
        implements = self._implements(returned)
        if implements and not isinstance(returned, type):
            result.add(passing(_COMPLIANCE, f"mount() returned a valid {self.interface} instance"))
            self._check_methods(result, returned)
        elif callable(returned) and not implements:
            result.add(
                passing(
                    _COMPLIANCE,
                    f"mount() returned a cleanup callable (no {self.module_type} mounted yet - may be conditional)",
                    "warning",
                )
            )
        else:
            result.add(
                failing(
                    _COMPLIANCE,
                    f"No {self.module_type} was mounted and mount() did not return "
                    f"{self.article} {self.interface} instance",
                )
            )

    def _check_object(self, result: ValidationResult, name: str, obj: Any) -> None:
        if self._implements(obj):
            result.add(passing(_COMPLIANCE, f"{self._called(name)} implements {self.interface} interface"))
            self._check_methods(result, obj)
        else:
            what = self._called(name, good=False)
            result.add(
                failing(_COMPLIANCE, f"{what} does not implement {self.interface} interface (missing {self.members})")
            )

    @abstractmethod
    def _called(self, name: str, *, good: bool = True) -> str:
        """Return how messages name a mounted object."""

    @abstractmethod
    def _check_methods(self, result: ValidationResult, obj: Any) -> None:
        """Add a check for every member of an object that has the interface."""


class NamedValidator(InterfaceValidator):
    """Check modules that mount any number of objects by name."""

    def observe(self, coordinator: ModuleCoordinator) -> dict[str, Any]:
        """Return a copy of the mount point."""
        mounted = _mounted(coordinator, self.mount_point)
        return dict(mounted) if isinstance(mounted, dict) else {}

    def _fresh(self, coordinator: ModuleCoordinator, before: dict[str, Any]) -> dict[str, Any]:
        missing = object()
        return {name: obj for name, obj in self.observe(coordinator).items() if before.get(name, missing) is not obj}

    def _called(self, name: str, *, good: bool = True) -> str:
        return f"{self.interface} '{name}'"


class SingleValidator(InterfaceValidator):
    """Check modules that mount the one object of their kind."""

    def observe(self, coordinator: ModuleCoordinator) -> Any:
        return _mounted(coordinator, self.mount_point)

    def _fresh(self, coordinator: ModuleCoordinator, before: Any) -> dict[str, Any]:
        mounted = self.observe(coordinator)
        return {} if mounted is None or mounted is before else {self.module_type: mounted}

    def _called(self, name: str, *, good: bool = True) -> str:
        return name.title() if good else f"Mounted {name}"


def check_name(prefix: str, owner: str, obj: Any) -> ValidationCheck:
    """Check that the object's name is text that is not empty."""
    name = obj.name
    if isinstance(name, str) and name:
        return passing(f"{prefix}_name", f"{owner} has name: '{name}'")
    return failing(f"{prefix}_name", f"{owner}.name should be a non-empty string")


def check_async(check: str, method_name: str, method: Any, least: int, too_few: str, good: str) -> ValidationCheck:
    """Check that a method is async and declares at least that many parameters.

    `too_few` is the message for too few of them, `good` the one for a good method; `{n}` in them is the number found.
    """
    is_async, parameters = facts(method)
    if not is_async:
        return failing(check, f"{method_name} should be async")
    if parameters < least:
        return failing(check, too_few.format(n=parameters))
    return passing(check, good.format(n=parameters))


def _mounted(coordinator: ModuleCoordinator, mount_point: str) -> Any:
    points: object = coordinator.mount_points  # a module may have put anything there
    return points.get(mount_point) if isinstance(points, dict) else None
