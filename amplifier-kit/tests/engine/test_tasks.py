"""Waiting for code of others ends in bounded time, and what must be finished is finished."""

import asyncio
import gc
import sys
from typing import Any

import pytest

from amplifier_core.bounded_call import DeadlineExceeded, ForeignCancelled
from amplifier_core.testing import wait_for
from amplifier_kit.engine import tasks
from amplifier_kit.engine.tasks import Crashed, Stopped, TimedOut, cancel_and_wait, run_bounded, run_to_end, start


async def value() -> str:
    await asyncio.sleep(0)
    return "value"


async def for_ever() -> None:
    await asyncio.Event().wait()


async def stubborn(until: asyncio.Event) -> None:
    """Ignore every cancellation until `until` is set."""
    while not until.is_set():
        try:
            await until.wait()
        except asyncio.CancelledError:
            continue


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give cancelled work next to no time."""
    monkeypatch.setattr(tasks, "GRACE", 0.01)
    monkeypatch.setattr(tasks, "_FINISH_SECONDS", 0.01)


@pytest.fixture
def long_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work that must be finished have all the time that a busy machine needs for it."""
    monkeypatch.setattr(tasks, "_FINISH_SECONDS", 60)


async def test_a_result_comes_through() -> None:
    """Work that is done in time returns what it returns."""
    assert await run_bounded(value, timeout=60) == "value"


async def test_an_exception_comes_through() -> None:
    """Work that fails raises what it raises."""

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await run_bounded(fail)


class Panic(BaseException):
    """What native code raises that has lost its way: no Exception, and no wish to end the process."""


@pytest.mark.parametrize("kind", [Panic, SystemExit])
@pytest.mark.parametrize("way", [run_bounded, run_to_end])
async def test_an_exception_that_few_catch_becomes_one_that_all_do(kind: type[BaseException], way: Any) -> None:
    """Work that panics has failed: its caller gets Crashed, with the panic as its cause."""

    async def fail() -> None:
        raise kind("lost its way")

    with pytest.raises(Crashed, match=f"{kind.__name__}: lost its way") as caught:
        await way(fail)
    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize("way", [run_bounded, run_to_end])
async def test_a_wish_to_end_the_program_ends_the_work_alone(way: Any) -> None:
    """Other tasks of the event loop continue when a tool calls sys.exit, at once or when it is cancelled."""
    others = asyncio.ensure_future(asyncio.sleep(0.05, "done"))

    async def leave() -> None:
        await asyncio.sleep(0)
        sys.exit(2)

    with pytest.raises(Crashed, match="SystemExit: 2"):
        await way(leave)
    assert await others == "done"


async def test_a_wish_to_end_the_program_while_it_is_dropped() -> None:
    """Work that answers its cancellation with sys.exit is dropped as any other."""

    async def stubborn() -> None:
        try:
            await for_ever()
        finally:
            sys.exit(2)

    with pytest.raises(DeadlineExceeded):
        await run_bounded(stubborn, timeout=0.01)


async def test_work_that_is_dropped_before_its_first_step_is_no_loose_end() -> None:
    """A caller that is cancelled at once leaves no unawaited coroutine (warnings are errors)."""
    caller = asyncio.ensure_future(run_bounded(for_ever))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    task = start(for_ever)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gc.collect()


async def test_a_deadline_ends_the_wait() -> None:
    """Work past its deadline is cancelled and reported as a timeout."""
    with pytest.raises(TimedOut, match=r"timeout after 0\.01 s"):
        await run_bounded(for_ever, timeout=0.01)


async def test_a_deadline_inside_the_work_is_not_the_callers() -> None:
    """Work that ran into its own timeout raises DeadlineExceeded; only the timeout of the caller is TimedOut."""

    async def work() -> None:
        await run_bounded(for_ever, timeout=0.01)

    with pytest.raises(DeadlineExceeded) as caught:
        await run_bounded(work, timeout=60)
    assert not isinstance(caught.value, TimedOut)


async def test_a_stop_ends_the_wait() -> None:
    """Work is cancelled when a stop is requested."""
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(stop.set_result, None)
    with pytest.raises(Stopped):
        await run_bounded(for_ever, stop=stop)


@pytest.mark.usefixtures("short_grace")
async def test_work_that_ignores_its_cancellation_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    """A deadline holds even for code that swallows CancelledError; the log says so, and names the code."""
    end = asyncio.Event()
    with pytest.raises(DeadlineExceeded):
        await run_bounded(stubborn, end, timeout=0.01)
    end.set()
    assert caplog.messages == ["stubborn ignores its cancellation and is left running"]
    assert await wait_for(lambda: not tasks._running, timeout=60)


async def test_cancelling_the_caller_cancels_the_work() -> None:
    """The cancellation of the outer task reaches the work and carries on."""
    begun, heard = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await for_ever()
        finally:
            heard.set()

    task = asyncio.create_task(run_bounded(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard.is_set()


async def test_a_cancellation_of_its_own_making_is_a_failure() -> None:
    """Work that raises CancelledError by itself does not cancel the one who waits."""

    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ForeignCancelled):
        await run_bounded(work)


async def test_nobody_complains_about_dropped_work() -> None:
    """An exception of work that was dropped, or finished just then, is not reported as never retrieved."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    async def fail() -> None:
        raise OSError("too late")

    task = start(fail)
    await asyncio.sleep(0)
    await cancel_and_wait(task)
    del task
    gc.collect()
    assert complaints == []


@pytest.mark.usefixtures("long_time_to_finish")
async def test_work_is_finished_although_the_caller_is_cancelled() -> None:
    """What must not be lost runs to its end, and then the cancellation is raised."""
    finished = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        finished.append(True)

    task = asyncio.create_task(run_to_end(work))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert finished == [True]


@pytest.mark.usefixtures("short_grace")
async def test_the_last_chance_is_not_endless() -> None:
    """Work that must be finished cannot hold a cancelled caller for ever."""
    task = asyncio.create_task(run_to_end(for_ever))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("long_time_to_finish")
async def test_a_failure_does_not_hide_the_cancellation(caplog: pytest.LogCaptureFixture) -> None:
    """When both happen, the cancellation is raised and the failure is logged."""

    async def work() -> None:
        await asyncio.sleep(0.01)
        raise OSError("disk full")

    task = asyncio.create_task(run_to_end(work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "disk full" in caplog.text


async def test_what_finished_work_returns() -> None:
    """Without a cancellation it is as if the work had been awaited."""
    assert await run_to_end(value) == "value"


async def test_dropped_work_has_its_grace_although_the_caller_is_cancelled_too() -> None:
    """Who stops everything at once cancels the one that waits for the end as well: it waits all the same."""
    cleaned = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    work = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    dropping = asyncio.create_task(cancel_and_wait(work, grace=60))
    await asyncio.sleep(0)
    dropping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dropping
    assert cleaned == [True]
