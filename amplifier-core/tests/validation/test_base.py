"""What all validators share: results, structural checks, and the part that live sessions use."""

from __future__ import annotations

import asyncio
import gc
import inspect
import types
import unittest.mock
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.data import reason
from amplifier_core.testing import MockCoordinator, MockTool
from amplifier_core.validation import (
    ContextValidator,
    ModuleValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationCheck,
    ValidationResult,
    validator_for,
)
from amplifier_core.validation._probe import Facts, facts
from amplifier_core.validation.base import check_on_session_ready

WriteModule = Callable[[str], Path]

TOOL = """
class T:
    name = "t"
    description = "d"
    async def execute(self, input): ...
"""
READY_SYNC = (
    "on_session_ready() must be async: found sync function. Use 'async def on_session_ready(coordinator) -> None:'"
)
READY_ARGUMENT = (
    "on_session_ready() must accept a coordinator argument: async def on_session_ready(coordinator) -> None"
)


def test_results_do_not_share_checks() -> None:
    """Each result starts with a list of its own."""
    ValidationResult("tool", "a").add(ValidationCheck("a", True, "fine", "info"))
    assert ValidationResult("tool", "b").checks == []


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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("on_session_ready = 5", READY_SYNC),
        ("async def on_session_ready(*, coordinator): ...", READY_ARGUMENT),
    ],
)
async def test_wrong_on_session_ready(write_module: WriteModule, source: str, message: str) -> None:
    """A callback that could not be called is an error between the signature and the mount."""
    module = TOOL + f"async def mount(coordinator, config=None): return T()\n{source}"
    result = await ToolValidator().validate(write_module(module))
    assert (result.checks[3].name, result.checks[3].severity, result.checks[3].message) == (
        "on_session_ready_async",
        "error",
        message,
    )
    assert result.checks[4].name == "protocol_compliance"
    assert len(result.errors) == 1


@pytest.mark.parametrize("source", ["", "async def on_session_ready(coordinator): ...", "on_session_ready = None"])
async def test_good_on_session_ready_adds_no_check(write_module: WriteModule, source: str) -> None:
    """A good callback, or none, is not mentioned."""
    module = TOOL + f"async def mount(coordinator, config=None): return T()\n{source}"
    assert len((await ToolValidator().validate(write_module(module))).checks) == 8


def test_check_on_session_ready_bears_a_hostile_module() -> None:
    """A module that raises when it is looked at gives a failing check."""

    class Hostile:
        @property
        def on_session_ready(self) -> None:
            raise RuntimeError("hands off")

    check = check_on_session_ready(Hostile())
    assert check is not None
    assert (check.passed, check.message) == (False, "on_session_ready() cannot be inspected: hands off")


def test_validator_for() -> None:
    """Five kinds have a validator, known by type and mount point; others have none."""
    kinds = {"provider": "providers", "tool": "tools", "hook": "hooks", "orchestrator": "orchestrator"}
    for kind, point in {**kinds, "context": "context"}.items():
        validator = validator_for(kind)
        assert isinstance(validator, ModuleValidator)
        assert (validator.module_type, validator.mount_point) == (kind, point)
    assert validator_for("resolver") is None
    assert validator_for("nonsense") is None


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


def test_live_check_looks_at_what_is_new() -> None:
    """Tools that were there before do not count for the module that mounts now."""
    validator, coordinator = ToolValidator(), MockCoordinator()
    coordinator.mount_points["tools"]["old"] = MockTool("old")
    before = validator.observe(coordinator)
    assert live_check(validator, coordinator, before) == [
        "No tool was mounted and mount() did not return a Tool instance"
    ]
    coordinator.mount_points["tools"]["new"] = Tool()
    assert live_check(validator, coordinator, before)[0] == "Tool 'new' implements Tool interface"
    assert len(live_check(validator, coordinator, before)) == 5


def test_live_check_sees_a_replacement() -> None:
    """A tool mounted over another of the same name is new."""
    validator, coordinator = ToolValidator(), MockCoordinator()
    coordinator.mount_points["tools"]["t"] = MockTool("t")
    before = validator.observe(coordinator)
    coordinator.mount_points["tools"]["t"] = Tool()
    assert live_check(validator, coordinator, before)[0] == "Tool 't' implements Tool interface"


def test_live_check_of_a_single_mount_point() -> None:
    """An orchestrator that is replaced is new, one that stays is not."""
    validator, coordinator = OrchestratorValidator(), MockCoordinator()
    coordinator.mount_points["orchestrator"] = first = Tool()
    before = validator.observe(coordinator)
    assert before is first
    assert live_check(validator, coordinator, before) == [
        "No orchestrator was mounted and mount() did not return an Orchestrator instance"
    ]
    coordinator.mount_points["orchestrator"] = Tool()
    assert live_check(validator, coordinator, before)[0] == "Orchestrator implements Orchestrator interface"


@pytest.mark.parametrize("points", [{}, None, {"tools": None}, {"tools": [1]}])
def test_live_check_bears_ruined_mount_points(points: Any) -> None:
    """A module that puts junk where the tools were mounted no tool."""
    validator, coordinator = ToolValidator(), MockCoordinator()
    before = validator.observe(coordinator)
    coordinator.mount_points = points
    assert live_check(validator, coordinator, before) == [
        "No tool was mounted and mount() did not return a Tool instance"
    ]


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
    """KeyboardInterrupt and SystemExit are nobody's failed check."""

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


def test_facts_are_those_of_the_caller() -> None:
    """A bound method does not count self, the function behind it does; both are remembered apart."""
    tool = Tool()
    for _ in range(2):
        assert facts(tool.execute) == Facts(True, 1)
        assert facts(Tool.execute) == Facts(True, 2)
    assert facts(len) == Facts(False, 1)


def test_facts_keep_nothing_alive() -> None:
    """Remembering a function does not keep it, or the module it came from, in memory."""
    namespace: dict[str, Any] = {}
    exec("async def mount(coordinator, config=None): ...", namespace)
    function = namespace.pop("mount")
    assert facts(function) == Facts(True, 2)
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_structure_of_a_module_object() -> None:
    """A module that a session already loaded is checked as the object it is."""
    module = types.ModuleType("m")
    result = ValidationResult("tool", "m")
    assert ToolValidator().check_structure(module, result) is False

    async def mount(coordinator: Any, config: Any = None) -> None: ...

    module.mount = mount  # type: ignore[attr-defined]
    result = ValidationResult("tool", "m")
    assert ToolValidator().check_structure(module, result) is True
    assert [check.name for check in result.checks] == ["mount_exists", "mount_signature"]


def test_reason_lets_interrupts_through() -> None:
    """An exception whose text cannot be had because somebody pressed Ctrl-C is not swallowed."""

    class Interrupting(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reason(Interrupting())


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
    """What has no readable code of its own is judged by how its class is called."""
    assert facts(PosingAsFunction()).parameters == 2
    with pytest.raises(TypeError):
        facts(3)  # type: ignore[arg-type]
