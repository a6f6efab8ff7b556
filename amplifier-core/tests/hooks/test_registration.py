"""Registering handlers, listing them and taking them away."""

from __future__ import annotations

import functools
import uuid
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry


class Stage:
    """A registry whose handlers write down that they ran."""

    def __init__(self) -> None:
        self.hooks = HookRegistry()
        self.ran: list[str] = []

    def runner(self, label: str) -> Any:
        return lambda event, data: self.ran.append(label)

    async def heard(self, event: str = "x:y") -> list[str]:
        """Emit and return who ran."""
        self.ran.clear()
        await self.hooks.emit(event, {})
        return list(self.ran)


@pytest.fixture
def stage() -> Stage:
    """Give an empty stage."""
    return Stage()


def test_registry_takes_nothing() -> None:
    """A registry is built from nothing, and a fresh one lists nothing."""
    assert HookRegistry().list_handlers() == {}
    with pytest.raises(TypeError):
        HookRegistry("anything")  # type: ignore[call-arg]


async def test_priority_orders_handlers(stage: Stage) -> None:
    """Lower priorities run earlier, negative ones too, and equal ones in order of registration."""
    for label, priority in (("d", 10), ("b", 0), ("a", -5), ("c", 0), ("e", 10)):
        stage.hooks.register("x:y", stage.runner(label), priority, label)
    assert await stage.heard() == list("abcde")
    assert stage.hooks.list_handlers("x:y") == {"x:y": list("abcde")}


async def test_arguments_by_position_and_keyword(stage: Stage) -> None:
    """All of event, handler, priority and name can be given either way; `on` is the same method."""
    stage.hooks.register(event="x:y", handler=stage.runner("a"), priority=1, name="a")
    stage.hooks.on("x:y", stage.runner("b"), 0, "b")
    assert HookRegistry.on is HookRegistry.register
    assert await stage.heard() == ["b", "a"]


def test_automatic_name(hooks: HookRegistry) -> None:
    """Without a name a handler is called `_auto_<event>_<uuid4>`."""
    hooks.register("tool:pre", print)
    [name] = hooks.list_handlers("tool:pre")["tool:pre"]
    assert name.startswith("_auto_tool:pre_")
    assert uuid.UUID(name.removeprefix("_auto_tool:pre_")).version == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"event": 5}, "event must be a string, got int"),
        ({"event": None}, "event must be a string, got NoneType"),
        ({"name": 5}, "name must be a string, got int"),
        ({"priority": "1"}, "'str' object cannot be interpreted as an integer"),
        ({"priority": 1.5}, "'float' object cannot be interpreted as an integer"),
        ({"priority": None}, "'NoneType' object cannot be interpreted as an integer"),
    ],
)
def test_wrong_types_are_refused(hooks: HookRegistry, arguments: dict[str, Any], message: str) -> None:
    """A wrong type is refused at once, with what was expected, and leaves nothing behind."""
    with pytest.raises(TypeError, match=message):
        hooks.register(**{"event": "x:y", "handler": print, **arguments})
    assert hooks.list_handlers() == {}


def test_wrong_on_error_is_refused(hooks: HookRegistry) -> None:
    """What happens on an error is one of two things, and only a keyword can say which."""
    with pytest.raises(ValueError, match="on_error must be 'continue' or 'deny', got 'explode'"):
        hooks.register("x:y", print, on_error="explode")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hooks.register("x:y", print, 0, "n", "deny")  # type: ignore[call-arg]


async def test_any_handler_can_be_registered(stage: Stage) -> None:
    """A handler is first looked at when it is called; one that cannot be called does not disturb the others."""
    stage.hooks.register("x:y", "no function")  # type: ignore[arg-type]
    stage.hooks.register("x:y", None)  # type: ignore[arg-type]
    stage.hooks.register("x:y", stage.runner("after"))
    assert await stage.heard() == ["after"]


async def test_unregister_callable(stage: Stage) -> None:
    """What register returns removes exactly that handler, says so, and may be called again."""
    first = stage.hooks.register("x:y", stage.runner("a"), name="same")
    second = stage.hooks.register("x:y", stage.runner("b"), name="same")
    third = stage.hooks.register("z:z", stage.runner("c"), name="same")
    assert repr(first) == "<unregister 'same'>"
    first()
    first()
    assert await stage.heard() == ["b"]
    assert await stage.heard("z:z") == ["c"]
    assert first() is None
    third()
    second()
    assert stage.hooks.list_handlers() == {"x:y": [], "z:z": []}


async def test_unregister_by_name(stage: Stage) -> None:
    """By name the most recent registration of that name goes, on whatever event; an unknown name is ignored."""
    stage.hooks.register("x:y", stage.runner("old"), name="same")
    stage.hooks.register("z:z", stage.runner("new"), name="same")
    stage.hooks.unregister("same")
    assert stage.hooks.list_handlers() == {"x:y": ["same"], "z:z": []}
    stage.hooks.unregister("same")
    stage.hooks.unregister("same")
    stage.hooks.unregister("never there")
    assert await stage.heard() == []


def test_list_handlers(hooks: HookRegistry) -> None:
    """All events that ever had a handler are listed; one that is asked for is always there; the lists are copies."""
    remove = hooks.register("x:y", print, name="a")
    hooks.register("z:z", print, name="b")
    assert hooks.list_handlers() == {"x:y": ["a"], "z:z": ["b"]}
    assert hooks.list_handlers("x:y") == hooks.list_handlers(event="x:y") == {"x:y": ["a"]}
    assert hooks.list_handlers("never:heard") == {"never:heard": []}
    remove()
    assert hooks.list_handlers() == {"x:y": [], "z:z": ["b"]}
    hooks.list_handlers()["z:z"].append("intruder")
    assert hooks.list_handlers("z:z") == {"z:z": ["b"]}
    assert "never:heard" not in hooks.list_handlers()


async def test_default_fields_are_replaced(hooks: HookRegistry) -> None:
    """Setting default fields forgets the earlier ones; the emitter's own fields win over them."""
    seen: list[Any] = []
    hooks.register("x:y", lambda event, data: seen.append(data))
    hooks.set_default_fields(a=1, b=1)
    await hooks.emit("x:y", {"b": 2})
    hooks.set_default_fields(c=(3,))
    await hooks.emit("x:y", {})
    hooks.set_default_fields()
    await hooks.emit("x:y", {})
    for data in seen:
        del data["timestamp"]
    assert seen == [{"a": 1, "b": 2}, {"c": [3]}, {}]


async def test_same_callable_registered_twice(stage: Stage) -> None:
    """Two registrations of one callable, even under one name, are two: both run, and each is removed by itself."""
    handler = stage.runner("same")
    first = stage.hooks.register("x:y", handler, name="same")
    second = stage.hooks.register("x:y", handler, name="same")
    assert await stage.heard() == ["same", "same"]
    second()
    assert await stage.heard() == ["same"]
    first()
    assert await stage.heard() == []


async def test_equal_handlers_are_told_apart(stage: Stage) -> None:
    """Handlers that claim to equal everything are still removed one by one."""

    class Equal:
        def __init__(self, label: str) -> None:
            self.label = label

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

        def __call__(self, event: str, data: Any) -> None:
            stage.ran.append(self.label)

    stage.hooks.register("x:y", Equal("a"))
    remove = stage.hooks.register("x:y", Equal("b"))
    remove()
    assert await stage.heard() == ["a"]


async def test_handler_runs_once_per_event(stage: Stage) -> None:
    """One registration runs once per emit, whatever else is registered, asked for or emitted meanwhile."""
    nested = functools.partial(stage.hooks.emit, "inner:event", {})

    async def outer(event: str, data: Any) -> None:
        stage.ran.append("outer")
        await nested()

    stage.hooks.register("x:y", outer)
    stage.hooks.register("inner:event", stage.runner("inner"))
    stage.hooks.register("*", lambda event, data: stage.ran.append(f"all {event}"))
    assert await stage.heard() == ["outer", "inner", "all inner:event", "all x:y"]
    assert await stage.heard() == ["outer", "inner", "all inner:event", "all x:y"]
    assert await stage.heard("*") == ["all *"]
