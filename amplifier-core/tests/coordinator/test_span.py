"""Spans of a coordinator: which ids are at hand, and which ids an event carries."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from amplifier_core.trace import current_scope

IDS = ("trace_id", "turn_id", "span_id", "parent_span_id")


class Observed(ModuleCoordinator):
    """A coordinator that can say which ids an event emitted now would carry."""

    async def ids(self) -> dict[str, str]:
        heard: list[dict[str, Any]] = []
        remove = self.hooks.register("probe", lambda event, data: heard.append(data))
        await self.hooks.emit("probe", {})
        remove()
        return {key: heard[0][key] for key in IDS if key in heard[0]}


@pytest.fixture
def kernel() -> Observed:
    """Give a coordinator without a session."""
    return Observed()


async def test_outside_there_are_no_ids(kernel: Observed) -> None:
    """Without a turn or span the coordinator has no ids and events have no such fields."""
    assert (kernel.turn_id, kernel.span_id) == (None, None)
    assert await kernel.ids() == {}


async def test_a_span_has_w3c_ids(kernel: Observed) -> None:
    """A trace is 16 bytes of lower-case hex, a span 8; a span outside any turn starts a trace and has no turn."""
    with kernel.span("tool") as span:
        ids = await kernel.ids()
        assert kernel.span_id == ids["span_id"] == span.span_id
        assert kernel.turn_id is None

    assert set(ids) == {"trace_id", "span_id"}
    assert re.fullmatch("[0-9a-f]{32}", ids["trace_id"])
    assert re.fullmatch("[0-9a-f]{16}", ids["span_id"])
    assert span.name == "tool"


async def test_a_span_inside_a_span_is_its_child(kernel: Observed) -> None:
    """The inner span keeps the trace and names the outer one as its parent; afterwards the outer one is back."""
    with kernel.span("outer"):
        outer = await kernel.ids()
        with kernel.span("inner"):
            inner = await kernel.ids()
        assert await kernel.ids() == outer

    assert inner["trace_id"] == outer["trace_id"]
    assert inner["parent_span_id"] == outer["span_id"]
    assert inner["span_id"] != outer["span_id"]
    assert await kernel.ids() == {}


async def test_a_span_works_with_async_with(kernel: Observed) -> None:
    """A span opens and closes the same way in async code."""
    async with kernel.span("outer") as outer, kernel.span("inner") as inner:
        assert kernel.span_id == inner.span_id
        assert (await kernel.ids())["parent_span_id"] == outer.span_id

    assert kernel.span_id is None


async def test_ids_set_by_the_emitter_win(kernel: Observed) -> None:
    """Ids that the caller put into an event are kept."""
    heard: list[dict[str, Any]] = []
    kernel.hooks.register("e", lambda event, data: heard.append(data))
    with kernel.span("x") as span:
        await kernel.hooks.emit("e", {"span_id": "mine", "turn_id": None})

    assert (heard[0]["span_id"], heard[0]["turn_id"]) == ("mine", None)
    assert heard[0]["trace_id"] == span.trace_id


async def test_spans_that_start_the_next_one_do_not_pile_up(kernel: Observed) -> None:
    """A chain of tasks, each started inside the span of the one before, keeps only the last span alive."""

    async def step(left: int) -> int:
        with kernel.span("step"):
            if left:
                return await asyncio.create_task(step(left - 1))
            depth, scope = 0, current_scope()
            while scope is not None:
                depth, scope = depth + 1, scope.outer
            return depth

    assert await step(50) == 1


async def test_collected_events_carry_no_ids(kernel: Observed) -> None:
    """emit_and_collect gives handlers the data as it is."""
    heard: list[Any] = []
    kernel.hooks.register("e", lambda event, data: heard.append(data))
    with kernel.span("x"):
        await kernel.hooks.emit_and_collect("e", {"a": 1})

    assert heard == [{"a": 1}]


async def test_a_generator_closed_late_does_not_disturb_later_spans(kernel: Observed) -> None:
    """A generator that holds a span open and is closed in another block leaves nothing behind."""

    def items() -> Generator[int, None, None]:
        with kernel.span("items"):
            yield 1

    generator = items()
    next(generator)
    with kernel.span("other"):
        generator.close()

    assert kernel.span_id is None
