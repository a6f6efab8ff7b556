"""Handlers that take too long."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, bounded_call
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult

MakePlan = Callable[..., dict[str, Any]]


async def hangs(event: str, data: Any) -> None:
    await asyncio.Event().wait()


async def hangs_in_a_task(event: str, data: Any) -> None:
    await asyncio.create_task(asyncio.Event().wait())


async def loops(event: str, data: Any) -> None:
    while True:  # noqa: ASYNC110  # a busy loop is the point
        await asyncio.sleep(0)


async def swallows(event: str, data: Any) -> HookResult:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        pass
    return HookResult(action="deny", reason="too late to count")


async def raises_something_else(event: str, data: Any) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ValueError("instead") from None


async def swallows_for_ever(event: str, data: Any) -> None:
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


async def swallows_for_ever_in_a_loop(event: str, data: Any) -> None:
    while True:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            continue


async def gathers(event: str, data: Any) -> None:
    await asyncio.gather(asyncio.Event().wait(), asyncio.sleep(60))


async def shields(event: str, data: Any) -> None:
    await asyncio.shield(asyncio.sleep(60))


async def groups(event: str, data: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))


async def has_a_longer_timeout(event: str, data: Any) -> None:
    async with asyncio.timeout(60):
        await asyncio.Event().wait()


async def waits_for_itself(event: str, data: Any) -> None:
    task = asyncio.current_task()
    assert task is not None
    try:
        await task
    except RuntimeError:  # asyncio says that this cannot be
        await asyncio.Event().wait()


#: Set when a test is done with the thread of the handler below.
released = threading.Event()


async def threads(event: str, data: Any) -> None:
    released.clear()
    await asyncio.get_running_loop().run_in_executor(None, released.wait, 60)


LATE = [
    *(hangs, hangs_in_a_task, loops, swallows, raises_something_else, swallows_for_ever, swallows_for_ever_in_a_loop),
    *(gathers, shields, groups, has_a_longer_timeout, waits_for_itself, threads),
]


@pytest.mark.parametrize("handler", LATE)
async def test_late_handler_counts_as_raising(hurried: HookRegistry, reports: Any, handler: Any) -> None:
    """A handler past its deadline, however it hangs, is reported with the word timeout and the next one runs."""
    ran: list[str] = []
    hurried.register("x:y", handler, name="late")
    hurried.register("x:y", lambda event, data: ran.append("next"))
    result = await hurried.emit("x:y", {})
    released.set()
    assert result.action == "continue"
    assert ran == ["next"]
    assert reports.of(logging.ERROR) == [
        "Hook handler error for event 'x:y' (handler 'late'): timeout after 0.02 s",
    ]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


@pytest.mark.parametrize("handler", LATE)
async def test_late_gate_denies(hurried: HookRegistry, handler: Any) -> None:
    """A gate past its deadline denies, and the reason says that it was a timeout, and whose."""
    hurried.register("x:y", handler, name="gate", on_error="deny")
    result = await hurried.emit("x:y", {})
    released.set()
    assert (result.action, result.reason) == ("deny", "Gate 'gate' failed: timeout after 0.02 s")


async def test_not_even_closing_helps(hurried: HookRegistry, reports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that swallows everything, its own closing included, is left behind too."""
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: None)  # the interpreter's last word on such code
    stop: list[bool] = []

    async def immortal(event: str, data: Any) -> None:
        while not stop:
            try:
                await asyncio.sleep(0)
            except BaseException:
                continue

    hurried.register("x:y", immortal, name="immortal")
    assert (await hurried.emit("x:y", {})).action == "continue"
    assert "timeout" in reports.texts[0]
    stop.append(True)
    gc.collect()


async def test_clean_up_runs(hurried: HookRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late handler is cancelled where it waits, may clean up, and its children are cancelled too."""
    monkeypatch.setattr(bounded_call, "GRACE", 30)
    fate: list[str] = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            fate.append("child")

    async def handler(event: str, data: Any) -> None:
        try:
            await asyncio.create_task(child())
        except asyncio.CancelledError:
            fate.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0.001)
            fate.append("cleaned up")

    hurried.register("x:y", handler)
    await hurried.emit("x:y", {})
    assert fate == ["child", "cancelled", "cleaned up"]


async def test_deadline_is_per_handler(hurried: HookRegistry, reports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each handler has the whole time; many quick ones are not late together."""
    hurried._timeout = 100
    loop, real, ran = asyncio.get_running_loop(), time.monotonic, list[float]()
    monkeypatch.setattr(loop, "time", lambda: real() + 30 * len(ran))

    async def quick(event: str, data: Any) -> None:
        ran.append(loop.time())  # by the loop's clock it takes half a minute
        for _ in range(3):
            await asyncio.sleep(0)

    for _ in range(11):
        hurried.register("x:y", quick)
    await hurried.emit("x:y", {})
    assert ran[-1] - ran[0] > 2 * 100
    assert reports.texts == []


async def test_answers_in_time_count(hurried: HookRegistry) -> None:
    """With a deadline, answers arrive unchanged: values, exceptions of what was awaited, and cancelled children."""
    hurried._timeout = 30
    seen: list[Any] = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("child")

    async def handler(event: str, data: Any) -> HookResult:
        seen.append(await asyncio.sleep(0.001, "value"))
        seen.append(await asyncio.create_task(asyncio.sleep(0.001, "task")))
        try:
            await asyncio.create_task(failing())
        except KeyError as error:
            seen.append(repr(error))
        queue: asyncio.Queue[int] = asyncio.Queue()
        asyncio.get_running_loop().call_later(0.001, queue.put_nowait, 7)
        seen.append(await queue.get())
        return HookResult(action="deny", reason="in time")

    hurried.register("x:y", handler)
    assert (await hurried.emit("x:y", {})).reason == "in time"
    assert seen == ["value", "task", "KeyError('child')", 7]


@pytest.mark.parametrize("shared", ["future", "task"])
async def test_waiting_for_something_shared(hurried: HookRegistry, reports: Any, shared: str) -> None:
    """Several handlers, and others, can wait for the same future or task at the same time."""
    hurried._timeout = 30
    loop = asyncio.get_running_loop()
    common: Any = asyncio.ensure_future(asyncio.sleep(0.02, "common")) if shared == "task" else loop.create_future()
    if shared == "future":
        loop.call_later(0.02, common.set_result, "common")
    seen: list[str] = []

    async def handler(event: str, data: Any) -> None:
        seen.append(await common)

    hurried.register("x:y", handler)
    await asyncio.gather(hurried.emit("x:y", {}), hurried.emit("x:y", {}), handler("x:y", {}), asyncio.wait([common]))
    assert seen == ["common"] * 3
    assert reports.texts == []


async def test_future_of_another_loop(hurried: HookRegistry, reports: Any) -> None:
    """What asyncio refuses to wait for is refused to handlers too, at once."""
    other = asyncio.new_event_loop()
    future = other.create_future()

    async def handler(event: str, data: Any) -> None:
        await future

    hurried._timeout = 30
    hurried.register("x:y", handler)
    await hurried.emit("x:y", {})
    assert "attached to a different loop" in reports.texts[0]
    future.cancel()
    other.close()


async def test_nested_emits_each_have_a_deadline(hurried: HookRegistry, reports: Any) -> None:
    """A handler that emits waits no longer than its own deadline for the handlers of that event."""
    hurried.register("inner:event", hangs, name="inner")

    async def outer(event: str, data: Any) -> None:
        await hurried.emit("inner:event", {})

    hurried.register("x:y", outer, name="outer")
    assert (await hurried.emit("x:y", {})).action == "continue"
    assert any("timeout" in text for text in reports.texts)


async def test_without_a_deadline_handlers_may_wait(hooks: HookRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default there is no limit."""
    assert hooks._timeout is None
    monkeypatch.setattr(bounded_call, "GRACE", 0)
    done: list[str] = []

    async def slow(event: str, data: Any) -> None:
        await asyncio.sleep(0.05)
        done.append("slow")

    hooks.register("x:y", slow)
    await hooks.emit("x:y", {})
    assert done == ["slow"]


async def test_plan_sets_the_deadline(make_plan: MakePlan, reports: Any) -> None:
    """`session.hook_timeout` holds for the session's handlers, from the first event on."""
    async with AmplifierSession(make_plan(session={"hook_timeout": 0.01})) as session:
        session.coordinator.hooks.register("session:start", hangs, name="late")
        assert await session.execute("hi") == "echo: hi"
    assert reports.texts == ["Hook handler error for event 'session:start' (handler 'late'): timeout after 0.01 s"]


@pytest.mark.parametrize("value", ["30", [1], 0, -1.5, True, float("nan")])
def test_wrong_deadlines_are_refused(value: Any) -> None:
    """A plan whose deadline means nothing is refused when the session is made, and the text says why."""
    plan = {"session": {"orchestrator": "o", "context": "c", "hook_timeout": value}}
    with pytest.raises(ValueError) as caught:
        AmplifierSession(plan)
    message = f"Configuration session.hook_timeout must be a positive number of seconds, got {value!r}"
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [None, 5, 0.5, float("inf")])
def test_deadlines(value: Any) -> None:
    """None is no limit; a number of seconds is one; endless is as good as none."""

    session = SimpleNamespace(session_id="s", parent_id=None, config={"session": {"hook_timeout": value}})
    assert ModuleCoordinator(session).hooks._timeout == value


async def test_endless_deadline(hooks: HookRegistry) -> None:
    """An endless deadline can be waited under."""
    hooks._timeout = float("inf")
    hooks.register("x:y", lambda event, data: asyncio.sleep(0.001, {"action": "deny"}))
    assert (await hooks.emit("x:y", {})).action == "deny"
