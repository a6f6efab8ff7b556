"""What HookValidator says of hook modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation import HookValidator, ValidationResult

WriteModule = Callable[[str], Path]

REGISTERED = "Hooks registered via coordinator.hooks.register()"

HANDLER = """
class H:
    async def __call__(self, event, data): ...
"""


async def test_returned_class_is_no_handler(write_module: WriteModule) -> None:
    """The class of a handler, returned without parentheses, is told from an instance."""
    result = await HookValidator().validate(
        write_module(HANDLER + "async def mount(coordinator, config=None): return H")
    )
    assert [(check.name, check.message) for check in result.errors] == [
        ("hook_call", "mount() returned the class H; return an instance of it")
    ]


class Handler:
    async def __call__(self, event: str, data: Any) -> None: ...


async def test_only_new_handlers_count() -> None:
    """In a live session, handlers of other modules are not taken for this module's."""
    validator, coordinator = HookValidator(), MockCoordinator()
    coordinator.hooks.register("tool:pre", Handler(), name="other")
    before = validator.observe(coordinator)

    def message() -> str:
        result = ValidationResult("hook", "here")
        validator.check_mounted(result, coordinator, before, None)
        return result.checks[0].message

    assert message() == "Hooks registered via coordinator.hooks"
    coordinator.hooks.unregister("other")
    assert message() == "Hooks registered via coordinator.hooks"
    coordinator.hooks.register("tool:pre", Handler(), name="mine")
    assert message() == REGISTERED
