"""Registering handlers, listing them and taking them away."""

from __future__ import annotations

import functools
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
