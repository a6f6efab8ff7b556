"""What HookValidator says of hook modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation import HookValidator, ValidationResult

WriteModule = Callable[[str], Path]

REGISTERED = "Hooks registered via coordinator.hooks.register()"
INSTANCE = "mount() returned a valid HookHandler instance"

HANDLER = """
class H:
    async def __call__(self, event, data): ...
"""


async def test_registered_handler(write_module: WriteModule) -> None:
    """A module that registers a handler passes; the handler itself is looked at when it is called."""
    result = await HookValidator().validate(
        write_module("async def mount(coordinator, config=None): coordinator.hooks.register('tool:pre', 5)")
    )
    assert result.passed
    assert [(check.name, check.message) for check in result.checks[3:]] == [("protocol_compliance", REGISTERED)]


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "Hooks registered via coordinator.hooks"),
        ("{}", "Hooks registered via coordinator.hooks"),
        ("lambda: None", "mount() registered hooks via coordinator.hooks"),
        ("handler", "mount() registered hooks via coordinator.hooks"),
        ("partial(handler)", "mount() registered hooks via coordinator.hooks"),
        ("H().__call__", "mount() registered hooks via coordinator.hooks"),
    ],
)
async def test_nothing_registered_is_no_fault(write_module: WriteModule, returned: str, message: str) -> None:
    """A hook may register later; functions, methods and partials that it returns are cleanups."""
    source = HANDLER + (
        "from functools import partial\n"
        "async def handler(event=None, data=None): ...\n"
        f"async def mount(coordinator, config=None): return {returned}"
    )
    result = await HookValidator().validate(write_module(source))
    assert result.passed
    assert [(check.name, check.message) for check in result.checks[3:]] == [("protocol_compliance", message)]


async def test_returned_class_is_no_handler(write_module: WriteModule) -> None:
    """The class of a handler, returned without parentheses, is told from an instance."""
    result = await HookValidator().validate(
        write_module(HANDLER + "async def mount(coordinator, config=None): return H")
    )
    assert [(check.name, check.message) for check in result.errors] == [
        ("hook_call", "mount() returned the class H; return an instance of it")
    ]


async def test_returned_handler_that_registered_itself(write_module: WriteModule) -> None:
    """A handler that is registered and returned counts as registered."""
    source = HANDLER + (
        "async def mount(coordinator, config=None):\n"
        "    handler = H()\n"
        "    coordinator.hooks.register('tool:pre', handler)\n"
        "    return handler\n"
    )
    result = await HookValidator().validate(write_module(source))
    assert [check.message for check in result.checks[3:]] == [REGISTERED]


class Handler:
    async def __call__(self, event: str, data: Any) -> None: ...


class Cleanup:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (Handler(), True),
        (Cleanup(), False),
        (Handler, False),
        (Handler().__call__, False),
        (partial(Handler()), False),
        (lambda event, data: None, False),
        (None, False),
        ({}, False),
    ],
    ids=["handler", "cleanup object", "class", "method", "partial", "lambda", "None", "dict"],
)
def test_is_instance(obj: Any, expected: bool) -> None:
    """Only an object with an async __call__ of two parameters is a handler."""
    assert HookValidator().is_instance(obj) is expected


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
