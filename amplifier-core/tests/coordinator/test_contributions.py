"""What modules offer each other: capabilities, one to one, and contributions, many to one."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator


class Unprintable(Exception):
    """Fail to say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "boom"),
        (asyncio.CancelledError("own"), "CancelledError"),
        (Unprintable(), "Unprintable"),
        (BaseExceptionGroup("group", [ValueError("inner")]), "group"),
    ],
)
async def test_a_failing_contributor_is_skipped(
    kernel: ModuleCoordinator, caplog: pytest.LogCaptureFixture, error: BaseException, text: str
) -> None:
    """Its fault is logged with its name, and the others contribute; so is a CancelledError of its own."""

    async def fail() -> None:
        raise error

    kernel.register_contributor("c", "first", lambda: 1)
    kernel.register_contributor("c", "bad", fail)
    kernel.register_contributor("c", "last", lambda: 2)

    with caplog.at_level(logging.WARNING):
        assert await kernel.collect_contributions("c") == [1, 2]
    assert "Contributor 'bad' on channel 'c' failed: " in caplog.text
    assert text in caplog.text


async def test_a_contributor_that_raises_cancelled_error_at_once_is_skipped(kernel: ModuleCoordinator) -> None:
    """A CancelledError that a plain function raises is its failure, not a cancellation of the caller."""

    def cancel() -> None:
        raise asyncio.CancelledError

    kernel.register_contributor("c", "bad", cancel)
    kernel.register_contributor("c", "last", lambda: 2)
    assert await kernel.collect_contributions("c") == [2]


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
async def test_interrupts_of_a_contributor_propagate(kernel: ModuleCoordinator, fatal: type[BaseException]) -> None:
    """Nothing holds back a KeyboardInterrupt or SystemExit."""

    def interrupt() -> None:
        raise fatal

    kernel.register_contributor("c", "bad", interrupt)

    with pytest.raises(fatal):
        await kernel.collect_contributions("c")


@pytest.mark.parametrize("swallow", [False, True])
async def test_cancelling_the_collector_propagates(kernel: ModuleCoordinator, swallow: bool) -> None:
    """The caller's cancellation ends the collecting, even when a contributor keeps it to itself."""
    started, reached = asyncio.Event(), []

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallow:
                raise

    kernel.register_contributor("c", "waiting", wait)
    kernel.register_contributor("c", "after", lambda: reached.append(1))
    collecting = asyncio.create_task(kernel.collect_contributions("c"))
    await started.wait()
    collecting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await collecting
    assert reached == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.sampled_from(["sync", "async", "waits", "none", "raises", "cancels"]),
        ),
        max_size=12,
    )
)
def test_contribution_order_is_registration_order(contributors: list[tuple[str, str]]) -> None:
    """Whatever the contributors do, each channel's answers come in the order of registration."""

    def callback(number: int, behaviour: str) -> Any:
        if behaviour == "sync":
            return lambda: number

        async def contribute() -> int | None:
            if behaviour == "waits":
                await asyncio.sleep(0)
            if behaviour == "raises":
                raise ValueError
            if behaviour == "cancels":
                raise asyncio.CancelledError
            return None if behaviour == "none" else number

        return contribute

    async def collect() -> dict[str, list[Any]]:
        kernel = ModuleCoordinator()
        for number, (channel, behaviour) in enumerate(contributors):
            kernel.register_contributor(channel, f"m{number}", callback(number, behaviour))
        return {channel: await kernel.collect_contributions(channel) for channel in ("one", "two", "three")}

    answering = [
        (number, channel)
        for number, (channel, behaviour) in enumerate(contributors)
        if behaviour in ("sync", "async", "waits")
    ]
    assert asyncio.run(collect()) == {
        channel: [number for number, theirs in answering if theirs == channel] for channel in ("one", "two", "three")
    }
