"""The hook registry: registering handlers, emitting events, collecting answers, handlers of every event."""

from __future__ import annotations

import asyncio
import functools
import logging
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from amplifier_core.events import ALL_EVENTS
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult


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


class Payload(BaseModel):
    """A payload that is a model."""

    number: int = 1
    when: datetime = datetime(2024, 1, 1, 12)


async def seen_by_handler(hooks: HookRegistry, data: Any) -> Any:
    """Emit to one handler and return what it saw, without the timestamp."""
    seen: list[Any] = []
    remove = hooks.register("x:y", lambda event, received: seen.append(received))
    await hooks.emit("x:y", data)
    remove()
    if isinstance(seen[0], dict):
        del seen[0]["timestamp"]
    return seen[0]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"a": (1, {"b": (2,)})}, {"a": [1, {"b": [2]}]}),
        ({1: 1, None: 2, 2.5: 3, False: 4}, {"1": 1, "null": 2, "2.5": 3, "false": 4}),
        ({"d": Decimal("1.23"), "t": datetime(2024, 1, 1, 12)}, {"d": "1.23", "t": "2024-01-01 12:00:00"}),
        ({"m": Payload()}, {"m": "number=1 when=datetime.datetime(2024, 1, 1, 12, 0)"}),
        ({"n": float("nan"), "s": "\ud800"}, {"n": "nan", "s": "\ufffd"}),
        ({(1, 2): 3}, {"[1, 2]": 3}),
        (Payload(), {"number": 1, "when": "2024-01-01T12:00:00"}),
    ],
)
async def test_json_hygiene(hooks: HookRegistry, data: Any, seen: Any) -> None:
    """Handlers see JSON: lists, string keys, and text for everything JSON has no word for."""
    assert await seen_by_handler(hooks, data) == seen


async def test_model_without_json_mode(hooks: HookRegistry) -> None:
    """What has no JSON mode is dumped plainly and cleaned."""

    class Old:
        def model_dump(self) -> dict[str, Any]:
            return {"pair": (1, 2)}

    assert await seen_by_handler(hooks, Old()) == {"pair": [1, 2]}


async def test_event_must_be_text(hooks: HookRegistry) -> None:
    """An event name must be a string."""
    hooks.register("*", lambda event, data: None)
    for event in (None, 5, b"x:y"):
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit(event, {})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit_and_collect(event, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [None, "1", [1]])
async def test_timeout_must_be_a_number(hooks: HookRegistry, timeout: Any) -> None:
    """Only a number of seconds is a timeout; None is refused, too."""
    with pytest.raises(TypeError, match="timeout must be a number of seconds, got "):
        await hooks.emit_and_collect("x:y", {}, timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1.0])
async def test_no_time_at_all(hooks: HookRegistry, timeout: float) -> None:
    """Without any time only those who need not wait are heard."""

    async def quick(event: str, data: Any) -> HookResult:
        return HookResult(data={"quick": True})

    async def slow(event: str, data: Any) -> HookResult:
        await asyncio.sleep(10)
        return HookResult(data={"slow": True})

    hooks.register("x:y", slow)
    hooks.register("x:y", quick)
    assert await hooks.emit_and_collect("x:y", {}, timeout) == [{"quick": True}]


async def test_every_event_is_heard(hooks: HookRegistry) -> None:
    """A handler of `*` hears every event under its own name, canonical or made up, with the same data as the others."""
    heard: list[str] = []
    hooks.set_default_fields(session_id="s")
    hooks.register("*", lambda event, data: heard.append(f"{event} {data['session_id']} {data['n']}"))
    for number, event in enumerate([*ALL_EVENTS, "made:up", "", "no colon"]):
        await hooks.emit(event, {"n": number})
    assert heard == [f"{event} s {n}" for n, event in enumerate([*ALL_EVENTS, "made:up", "", "no colon"])]


async def test_after_the_events_own_of_the_same_priority(hooks: HookRegistry) -> None:
    """Handlers of `*` run after the event's own handlers of the same priority, whatever the order of registration."""
    order: list[str] = []
    for label, event, priority in (
        ("all 0 first", "*", 0),
        ("all -1", "*", -1),
        ("own 0", "x:y", 0),
        ("own 1", "x:y", 1),
        ("all 0 second", "*", 0),
        ("own 0 later", "x:y", 0),
    ):
        hooks.register(event, lambda event, data, label=label: order.append(label), priority)
    await hooks.emit("x:y", {})
    assert order == ["all -1", "own 0", "own 0 later", "all 0 first", "all 0 second", "own 1"]


async def test_made_up_names_leave_nothing_behind(hooks: HookRegistry) -> None:
    """Names that are only ever emitted are not kept: a long session cannot fill the memory with them."""
    hooks.register("*", lambda event, data: None)
    hooks.register("x:y", lambda event, data: None)
    await hooks.emit("x:y", {})
    before = {name: len(value) for name, value in vars(hooks).items() if isinstance(value, dict)}
    for number in range(500):
        await hooks.emit(f"made:up_{number}", {})
        await hooks.emit_and_collect(f"made:up_{number}", {})
        hooks.list_handlers(f"made:up_{number}")
    assert {name: len(value) for name, value in vars(hooks).items() if isinstance(value, dict)} == before


async def test_late_handlers_are_skipped(hooks: HookRegistry, reports: Any) -> None:
    """A handler past the timeout is cancelled and skipped, with a warning; the others are not affected."""
    fate: list[str] = []

    async def slow(event: str, data: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            fate.append("cancelled")
            raise

    hooks.register("x:y", slow, name="slow")
    hooks.register("x:y", lambda event, data: {"data": {"ok": 1}})
    assert await hooks.emit_and_collect("x:y", {}, timeout=0.01) == [{"ok": 1}]
    assert fate == ["cancelled"]
    assert reports.of(logging.WARNING) == ["Hook handler timeout for event 'x:y' (handler 'slow')"]
    assert reports.of(logging.ERROR) == []
