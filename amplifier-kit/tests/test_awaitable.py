"""What foreign code returns is used, whichever way it is written."""

import asyncio
from typing import Any

import pytest

from amplifier_kit.awaitable import DONE, await_soon, maybe_await, plain_result


async def _later(value: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(value, Exception):
        raise value
    return value


async def test_values_and_awaitables_are_the_same() -> None:
    """A value is returned as it is; what can be awaited is awaited."""
    assert [await maybe_await(1), await maybe_await(_later(2)), await maybe_await(None)] == [1, 2, None]
    assert await maybe_await(DONE) is None


def test_where_nothing_can_be_awaited_a_coroutine_is_refused() -> None:
    """A coroutine is true in every condition, so it is never taken for an answer."""
    assert plain_result(False) is False
    for awaitable in (_later(True), DONE):
        with pytest.raises(TypeError, match="plain function"):
            plain_result(awaitable)


async def test_what_needs_no_answer_is_awaited_soon() -> None:
    """Code that cannot wait hands an awaitable over, and hears of its failure alone."""
    errors: list[Exception] = []
    await_soon("a value", errors.append)
    await_soon(_later(1), errors.append)
    await_soon(_later(ValueError("no")), errors.append)
    assert errors == []
    for _ in range(5):
        await asyncio.sleep(0)
    assert [str(error) for error in errors] == ["no"]


def test_without_a_loop_nothing_is_left_unawaited() -> None:
    """Where no event loop runs, an awaitable is refused aloud."""
    with pytest.raises(RuntimeError, match="no event loop"):
        await_soon(_later(1), lambda error: None)
