"""Cleanup runs everything once, the newest first, whatever happens on the way."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator

FATAL = {"interrupts": KeyboardInterrupt, "exits": SystemExit, "cancels": asyncio.CancelledError}
BEHAVIOURS = ("returns", "raises", "unprintable", *FATAL)


class Silent(Exception):
    """Be false, and fail to say what is wrong."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        raise ValueError("no text")


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
