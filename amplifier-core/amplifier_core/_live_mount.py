"""Mount a module in a live session, once, and check what it left behind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from amplifier_core._attempt import mount_points_copy, same
from amplifier_core._module_errors import validation_error
from amplifier_core._module_layout import TYPE_TO_MOUNT_POINT
from amplifier_core.validation import validator_for
from amplifier_core.validation.base import ValidationResult

if TYPE_CHECKING:
    from amplifier_core.validation.base import ModuleValidator

logger = logging.getLogger(__name__)


async def mount_checked(
    module_id: str, mount: Any, coordinator: Any, config: dict[str, Any], structure: ValidationResult
) -> Any:
    """Call the real mount(), check it by the rules of its kind and return what is to be run as its cleanup.

    Raises ModuleValidationError when the module kept nothing of its kind's contract; taking back what it registered
    is the caller's part, who does the same for every other failure.
    """
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
    # An instance is never a cleanup, even if it can be called. One that did not mount itself is mounted here; a hook
    # handler says itself what it wants to hear.
    if validator.mount_point != "hooks" and same(before, validator.observe(coordinator)):
        await coordinator.mount(validator.mount_point, returned)
    return None


def _wrong_kind_hint(validator: ModuleValidator, before: dict[str, Any], coordinator: Any) -> str:
    """Say what the module mounted instead, if it did: most likely it is listed in the wrong section."""
    for kind, point in TYPE_TO_MOUNT_POINT.items():
        if point != validator.mount_point and not same(before.get(point), coordinator.mount_points.get(point)):
            return f". It mounted a {kind} instead: list it under '{point}'"
    return ""
