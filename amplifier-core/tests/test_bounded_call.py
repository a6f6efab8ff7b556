"""Calling code the kernel does not own."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from amplifier_core import bounded_call
from amplifier_core.bounded_call import DeadlineExceeded, ForeignCancelled, call, running_task, unhurried
from amplifier_core.data import INTERRUPTS

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


async def called(function: Any, *arguments: Any, deadline: float | None = None) -> Any:
    return await call(running_task(), deadline, function, *arguments)


async def test_values_come_back() -> None:
    """What a function returns, at once or after waiting, comes back; arguments are passed by position."""

    async def later(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    assert await called(lambda value: value, 1) == 1
    assert await called(later, 1) == 2
    assert await called(later, 1, deadline=30) == 2
    assert await called(lambda value: asyncio.ensure_future(later(value)), 1) == 2
    assert await called(lambda: None) is None


async def test_errors_keep_their_identity() -> None:
    """What a function raises comes out as it is."""
    error = KeyError("mine")

    def raises() -> None:
        raise error

    async def raises_later() -> None:
        await asyncio.sleep(0)
        raise error

    for function in (raises, raises_later):
        for deadline in (None, 30):
            with pytest.raises(KeyError) as caught:
                await called(function, deadline=deadline)
            assert caught.value is error


async def test_own_cancellation_becomes_a_failure() -> None:
    """A CancelledError of the function's own making comes out as an ordinary exception that says so."""

    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ForeignCancelled) as caught:
        await called(cancels)
    assert str(caught.value) == "it raised CancelledError although its task was not cancelled"
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert not issubclass(ForeignCancelled, asyncio.CancelledError)


async def test_deadline_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missed deadline is a TimeoutError that names the deadline, distinct from one that the function raised."""
    monkeypatch.setattr(bounded_call, "GRACE", 0.01)

    async def waits() -> None:
        await asyncio.Event().wait()

    async def times_out() -> None:
        raise TimeoutError("mine")

    with pytest.raises(DeadlineExceeded, match=r"^timeout after 0\.01 s$"):
        await called(waits, deadline=0.01)
    with pytest.raises(TimeoutError, match="mine") as caught:
        await called(times_out, deadline=30)
    assert not isinstance(caught.value, DeadlineExceeded)


async def test_context_is_a_copy() -> None:
    """A function sees the caller's contextvars and cannot change them."""

    def sets() -> str:
        before = colour.get()
        colour.set("changed")
        return before

    token = colour.set("caller")
    assert await called(sets) == "caller"
    assert colour.get() == "caller"
    colour.reset(token)


@pytest.mark.parametrize("error", INTERRUPTS)
def test_interrupts_come_out(error: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit come out, also of a function that is late."""

    async def late() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None

    with pytest.raises(error):
        asyncio.run(called(late, deadline=0.01))


def test_without_a_loop() -> None:
    """Without an event loop there is no task, and a function that need not wait can be called all the same."""
    assert running_task() is None
    with pytest.raises(StopIteration) as stop:
        called(lambda: "value").send(None)
    assert stop.value.value == "value"


async def test_nothing_is_left_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was in time leaves no running timer behind."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def noting(delay: float, callback: Any, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(call_later(delay, callback, *arguments, **options))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", noting)
    await called(lambda: asyncio.sleep(0), deadline=60)
    assert len(timers) == 1
    assert timers[0].cancelled()


async def test_person_is_not_hurried() -> None:
    """While a person is asked no deadline passes; from their answer on, the whole time is there again."""
    outer = running_task()

    async def asks() -> str:
        with unhurried(outer):
            await asyncio.sleep(0.3)
        await asyncio.sleep(0)
        return "answered"

    assert await called(asks, deadline=0.05) == "answered"

    async def never_ends() -> None:
        await asks()
        await asyncio.Event().wait()

    with pytest.raises(DeadlineExceeded):
        await called(never_ends, deadline=0.05)


async def test_only_what_waits_for_the_person_has_time() -> None:
    """A deadline that began after the question, or in another task, passes as ever."""

    async def hangs() -> None:
        await asyncio.Event().wait()

    with unhurried(running_task()):
        pass
    await asyncio.sleep(0.01)
    with pytest.raises(DeadlineExceeded):
        await called(hangs, deadline=0.05)
    with unhurried(running_task()), pytest.raises(DeadlineExceeded):
        await asyncio.ensure_future(called(hangs, deadline=0.05))
