"""Handlers that take too long."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
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


async def test_plan_sets_the_deadline(make_plan: MakePlan, reports: Any) -> None:
    """`session.hook_timeout` holds for the session's handlers, from the first event on."""
    async with AmplifierSession(make_plan(session={"hook_timeout": 0.01})) as session:
        session.coordinator.hooks.register("session:start", hangs, name="late")
        assert await session.execute("hi") == "echo: hi"
    assert reports.texts == ["Hook handler error for event 'session:start' (handler 'late'): timeout after 0.01 s"]


async def test_a_handler_with_its_own_deadline(hurried: HookRegistry) -> None:
    """`timeout` of a registration replaces the session's deadline: longer, shorter, or none."""

    async def patient(event: str, data: Any) -> HookResult:
        await asyncio.sleep(0.1)
        return HookResult(action="deny", reason="done waiting")

    for timeout in (60, None):
        stop = hurried.register("x:y", patient, name="patient", timeout=timeout)
        assert (await hurried.emit("x:y", {})).reason == "done waiting"
        stop()
    hurried.register("x:y", patient, name="patient", on_error="deny", timeout=0.01)
    assert (await hurried.emit("x:y", {})).reason == "Gate 'patient' failed: timeout after 0.01 s"


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan")])
def test_an_invalid_deadline(timeout: Any) -> None:
    """A timeout that is neither a positive number, None nor 'session' is refused when the handler is registered."""
    with pytest.raises(ValueError, match="timeout must be a positive number"):
        HookRegistry().register("x:y", lambda event, data: None, timeout=timeout)
