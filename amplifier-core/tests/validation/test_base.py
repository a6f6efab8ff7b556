"""What all validators share: results, structural checks, and the part that live sessions use."""

from __future__ import annotations

import asyncio
import inspect
import types
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation import (
    ContextValidator,
    ModuleValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationResult,
)
from amplifier_core.validation._probe import facts
from amplifier_core.validation.base import check_on_session_ready

WriteModule = Callable[[str], Path]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("mount = None", ("mount_exists", "No mount() function found in module")),
        (
            "def __getattr__(name): raise RuntimeError('no')",
            ("mount_exists", "No mount() function found in module: looking for it raised no"),
        ),
    ],
)
async def test_no_mount_stops(write_module: WriteModule, source: str, expected: tuple[str, str]) -> None:
    """Without a mount() that can be called, nothing else is checked."""
    result = await ToolValidator().validate(write_module(source))
    assert [check.passed for check in result.checks] == [True, False]
    assert (result.checks[1].name, result.checks[1].message) == expected


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        (
            "async def mount(): ...",
            "mount() should have at least 2 parameters (coordinator, config), found 0",
        ),
        (
            "mount = dict",
            (
                "mount() has no readable signature (no signature found for builtin type <class 'dict'>); "
                "use async def mount(coordinator, config=None)"
            ),
        ),
    ],
)
async def test_wrong_signature_does_not_stop(write_module: WriteModule, mount: str, message: str) -> None:
    """A mount() of the wrong shape is reported, and the mount is tried all the same."""
    result = await ToolValidator().validate(write_module(mount))
    assert (result.checks[2].name, result.checks[2].passed, result.checks[2].message) == (
        "mount_signature",
        False,
        message,
    )
    assert result.checks[3].name == "protocol_compliance"


def test_check_on_session_ready_bears_a_hostile_module() -> None:
    """A module that raises when it is looked at gives a failing check."""

    class Hostile:
        @property
        def on_session_ready(self) -> None:
            raise RuntimeError("hands off")

    check = check_on_session_ready(Hostile())
    assert check is not None
    assert (check.passed, check.message) == (False, "on_session_ready() cannot be inspected: hands off")


class Tool:
    name = "t"
    description = "d"

    async def execute(self, input: Any) -> None: ...


class Everything(Tool):
    """Has the members of all four interfaces."""

    def get_info(self) -> None: ...
    def parse_tool_calls(self) -> None: ...
    async def list_models(self) -> None: ...
    async def complete(self) -> None: ...
    async def add_message(self) -> None: ...
    async def get_messages_for_request(self) -> None: ...
    async def get_messages(self) -> None: ...
    async def set_messages(self) -> None: ...
    async def clear(self) -> None: ...


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("kind", [ToolValidator, ProviderValidator, OrchestratorValidator, ContextValidator])
def test_is_instance(kind: type[ModuleValidator]) -> None:
    """An object with the members is an instance; a class, a dict or an object that raises is not."""
    validator = kind()
    assert validator.is_instance(Everything())
    for other in (Everything, {}, None, Hostile(), object(), lambda: None):
        assert not validator.is_instance(other)


def live_check(
    validator: ModuleValidator, coordinator: MockCoordinator, before: Any, returned: Any = None
) -> list[str]:
    """Return the messages of one live check."""
    result = ValidationResult(validator.module_type, "live")
    validator.check_mounted(result, coordinator, before, returned)
    return [check.message for check in result.checks]


class Unprintable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("boom"), "boom"),
        (RuntimeError(), "RuntimeError"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit("out"), "out"),
        (Unprintable(), "Unprintable()"),
    ],
)
def test_raising_property_is_a_failed_check(error: BaseException, text: str) -> None:
    """Whatever a property raises, and whether or not it prints, the check fails and the next object is checked."""

    class Raising(Tool):
        @property
        def name(self) -> str:  # type: ignore[override]
            raise error

    validator, coordinator = ToolValidator(), MockCoordinator()
    coordinator.mount_points["tools"].update(bad=Raising(), good=Tool())
    messages = live_check(validator, coordinator, {})
    assert messages[:2] == [
        f"Error during protocol compliance check: {text}",
        "Tool 'good' implements Tool interface",
    ]
    assert live_check(validator, MockCoordinator(), {}, Raising()) == [messages[0]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_get_through(error: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit propagate instead of failing a check."""

    class Raising(Tool):
        @property
        def name(self) -> str:  # type: ignore[override]
            raise error

    validator, coordinator = ToolValidator(), MockCoordinator()
    coordinator.mount_points["tools"]["bad"] = Raising()
    with pytest.raises(error):
        live_check(validator, coordinator, {})
    with pytest.raises(error):
        validator.is_instance(Raising())


class PosingAsFunction:
    """Have the attributes of a function, and a code object that cannot be read: an async mock of Python 3.11.2."""

    def __init__(self) -> None:
        self.__name__ = "posing"
        self.__code__ = unittest.mock.NonCallableMock(spec_set=types.CodeType)
        self.__code__.co_flags = inspect.CO_COROUTINE
        self.__defaults__ = ()
        self.__kwdefaults__: dict[str, Any] = {}
        self.__annotations__: dict[str, Any] = {}

    async def __call__(self, first: Any, *others: Any) -> None:
        """Take anything."""


def test_facts_of_objects_that_pose_as_functions() -> None:
    """A callable without readable code is judged by the __call__ of its class."""
    assert facts(PosingAsFunction()).parameters == 2
    with pytest.raises(TypeError):
        facts(3)  # type: ignore[arg-type]
