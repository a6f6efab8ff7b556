"""Cleanup runs everything once, the newest first, whatever happens on the way."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator
from amplifier_core.coordinator import emit

FATAL = {"interrupts": KeyboardInterrupt, "exits": SystemExit, "cancels": asyncio.CancelledError}
BEHAVIOURS = ("returns", "raises", "unprintable", *FATAL)


class Silent(Exception):
    """Be false, and fail to say what is wrong."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        raise ValueError("no text")


def test_the_list_of_functions_is_live(kernel: ModuleCoordinator) -> None:
    """The list shows what is registered, in order, and is always the same list."""
    live = kernel._cleanup_fns
    kernel.register_cleanup(print)
    kernel.register_cleanup(repr)

    assert live == [print, repr]
    assert live is kernel._cleanup_fns


async def test_functions_put_into_the_list_run_too(kernel: ModuleCoordinator) -> None:
    """What code for the published kernel writes into the list counts."""
    ran: list[int] = []
    kernel._cleanup_fns.append(lambda: ran.append(1))
    await kernel.cleanup()

    assert ran == [1]
    assert kernel._cleanup_fns == []


async def test_a_second_cleanup_runs_only_what_came_since(kernel: ModuleCoordinator) -> None:
    """Each function runs once and is forgotten; one registered by a cleanup waits for the next."""
    ran: list[str] = []

    def register_another() -> None:
        ran.append("first")
        kernel.register_cleanup(lambda: ran.append("second"))

    kernel.register_cleanup(register_another)
    await kernel.cleanup()
    assert ran == ["first"]

    await kernel.cleanup()
    await kernel.cleanup()
    assert ran == ["first", "second"]


async def test_the_same_function_registered_twice_runs_twice(kernel: ModuleCoordinator) -> None:
    """Every registration counts, also of one callable."""
    ran: list[int] = []

    def tear_down() -> None:
        ran.append(1)

    kernel.register_cleanup(tear_down)
    kernel.register_cleanup(tear_down)
    await kernel.cleanup()

    assert ran == [1, 1]


async def test_concurrent_cleanups_run_each_function_once(kernel: ModuleCoordinator) -> None:
    """Two cleanups at once do not run anything twice."""
    ran: list[int] = []

    async def slow(number: int) -> None:
        await asyncio.sleep(0)
        ran.append(number)

    for number in range(3):
        kernel.register_cleanup(lambda number=number: slow(number))
    await asyncio.gather(kernel.cleanup(), kernel.cleanup(), kernel.cleanup())

    assert sorted(ran) == [0, 1, 2]


async def test_faults_are_logged_and_skipped(kernel: ModuleCoordinator, caplog: pytest.LogCaptureFixture) -> None:
    """A function that fails does not keep the others from running."""
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("broken pipe")

    kernel.register_cleanup(lambda: ran.append("last"))
    kernel.register_cleanup(fail)
    with caplog.at_level(logging.ERROR):
        await kernel.cleanup()

    assert ran == ["last"]
    assert "Error during cleanup: broken pipe" in caplog.text


async def test_cancellation_from_outside_lets_everything_run(kernel: ModuleCoordinator) -> None:
    """A task cancelled while cleaning up runs the rest, and then is cancelled."""
    started, ran = asyncio.Event(), []

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    kernel.register_cleanup(lambda: ran.append("sync"))
    kernel.register_cleanup(lambda: asyncio.sleep(0))
    kernel.register_cleanup(wait)
    cleaning = asyncio.create_task(kernel.cleanup())
    await started.wait()
    cleaning.cancel()

    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert ran == ["sync"]


async def test_a_function_cannot_swallow_the_cancellation_of_its_caller(kernel: ModuleCoordinator) -> None:
    """A cancellation that a function keeps to itself still ends the task, after everything ran."""
    started, ran = asyncio.Event(), []

    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ran.append("swallowed")

    kernel.register_cleanup(lambda: ran.append("rest"))
    kernel.register_cleanup(stubborn)
    cleaning = asyncio.create_task(kernel.cleanup())
    await started.wait()
    cleaning.cancel()

    with pytest.raises(asyncio.CancelledError):
        await cleaning
    assert ran == ["swallowed", "rest"]


async def test_cleanups_act_for_their_session(kernel: ModuleCoordinator) -> None:
    """A cleanup function is a callback of the session: the system calls know which one."""
    heard: list[str] = []
    kernel.hooks.register("bye", lambda event, data: heard.append(event))
    kernel.register_cleanup(lambda: emit("bye"))
    await kernel.cleanup()

    assert heard == ["bye"]


@given(st.lists(st.tuples(st.sampled_from(BEHAVIOURS), st.sampled_from(["sync", "async", "coroutine"])), max_size=8))
def test_cleanup_always_runs_all(functions: list[tuple[str, str]]) -> None:
    """Every mix of functions runs whole, newest first, exactly once; the first fatal one is raised at the end."""
    ran: list[int] = []

    def act(number: int, behaviour: str) -> None:
        ran.append(number)
        if behaviour in FATAL:
            raise FATAL[behaviour](number)
        if behaviour != "returns":
            raise Silent if behaviour == "unprintable" else ValueError(number)

    def function(number: int, behaviour: str, kind: str) -> Any:
        async def later() -> None:
            await asyncio.sleep(0)
            act(number, behaviour)

        if kind == "sync":
            return lambda: act(number, behaviour)
        return later if kind == "async" else lambda: later()

    async def clean_up() -> BaseException | None:
        kernel = ModuleCoordinator()
        for number, (behaviour, kind) in enumerate(functions):
            kernel.register_cleanup(function(number, behaviour, kind))
        raised = None
        try:
            await kernel.cleanup()
        except BaseException as error:
            raised = error
        await kernel.cleanup()
        return raised

    raised = asyncio.run(clean_up())

    assert ran == list(reversed(range(len(functions))))
    fatal = [number for number in ran if functions[number][0] in FATAL]
    if not fatal:
        assert raised is None
    else:
        assert type(raised) is FATAL[functions[fatal[0]][0]]
        assert raised.args == (fatal[0],)
