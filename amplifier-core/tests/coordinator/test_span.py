"""Spans of a coordinator: which ids are at hand, and which ids an event carries."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
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


async def test_a_span_closes_when_its_block_fails(kernel: Observed) -> None:
    """An exception goes through a span, which closes all the same."""
    with pytest.raises(ValueError, match="inside"), kernel.span("x"):
        raise ValueError("inside")

    assert await kernel.ids() == {}


async def test_ids_set_by_the_emitter_win(kernel: Observed) -> None:
    """Whoever emits an event with ids of its own keeps them."""
    heard: list[dict[str, Any]] = []
    kernel.hooks.register("e", lambda event, data: heard.append(data))
    with kernel.span("x") as span:
        await kernel.hooks.emit("e", {"span_id": "mine", "turn_id": None})

    assert (heard[0]["span_id"], heard[0]["turn_id"]) == ("mine", None)
    assert heard[0]["trace_id"] == span.trace_id


async def test_handlers_run_inside_the_span_of_the_event(kernel: Observed) -> None:
    """A handler sees the ids of the event, and what it emits carries them."""
    seen: list[Any] = []

    async def handler(event: str, data: dict[str, Any]) -> None:
        seen.append((kernel.span_id, (await kernel.ids())["span_id"], data["span_id"]))

    kernel.hooks.register("e", handler)
    with kernel.span("x") as span:
        await kernel.hooks.emit("e", {})

    assert seen == [(span.span_id,) * 3]


async def test_a_span_of_a_handler_stays_inside_it(kernel: Observed) -> None:
    """A handler that leaves a span open cannot leak it to the emitter or the next handler."""
    seen: list[Any] = []
    kernel.hooks.register("e", lambda event, data: kernel.span("forgotten").__enter__() and None)
    kernel.hooks.register("e", lambda event, data: seen.append(kernel.span_id))
    await kernel.hooks.emit("e", {})

    assert seen == [None]
    assert kernel.span_id is None


async def test_parallel_tool_calls_have_spans_of_their_own(kernel: Observed) -> None:
    """Each of many concurrent calls sees its own span, all children of the same one."""

    async def call_tool() -> dict[str, str]:
        async with kernel.span("tool"):
            await asyncio.sleep(0)
            first = await kernel.ids()
            await asyncio.sleep(0)
            assert await kernel.ids() == first
            return first

    with kernel.span("turn") as turn:
        calls = await asyncio.gather(*(call_tool() for _ in range(20)))
        assert kernel.span_id == turn.span_id

    assert len({call["span_id"] for call in calls}) == 20
    assert {call["parent_span_id"] for call in calls} == {turn.span_id}
    assert {call["trace_id"] for call in calls} == {turn.trace_id}


async def test_a_span_begins_when_its_block_does(kernel: Observed) -> None:
    """A span that was made earlier, elsewhere, is a child of what is open when it is entered."""
    made_early = kernel.span("late")
    with kernel.span("outer") as outer, made_early as late:
        assert (late.trace_id, late.parent_span_id) == (outer.trace_id, outer.span_id)


async def test_a_span_used_again_has_new_ids(kernel: Observed) -> None:
    """Entering the same span twice, also inside itself, gives two spans and leaves nothing open."""
    span = kernel.span("again")
    with span as first, span as second:
        assert first.span_id != second.span_id
        assert second.parent_span_id == first.span_id
        assert kernel.span_id == second.span_id

    assert kernel.span_id is None


async def test_tasks_may_share_a_span_object(kernel: Observed) -> None:
    """Two tasks that enter the same object do not find each other's ids after it."""
    shared = kernel.span("shared")

    async def work(outer: str, wait: int) -> tuple[str | None, str | None]:
        with kernel.span(outer):
            before = kernel.span_id
            with shared:
                for _ in range(wait):
                    await asyncio.sleep(0)
            return before, kernel.span_id

    for before, after in await asyncio.gather(work("a", 3), work("b", 1), work("c", 2)):
        assert before == after


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


async def test_a_stream_that_is_abandoned_ends_with_the_block_around_it(kernel: Observed) -> None:
    """A span that an unfinished async generator keeps open is over when the enclosing block is."""

    async def stream() -> AsyncGenerator[int, None]:
        async with kernel.span("stream"):
            yield 1
            yield 2

    chunks = stream()
    with kernel.span("outer"):
        async for _ in chunks:
            break
    assert kernel.span_id is None

    await chunks.aclose()
    assert kernel.span_id is None


async def test_closing_a_generator_of_another_task_keeps_ones_own_ids(kernel: Observed) -> None:
    """A task that closes what another one opened does not take over that one's ids."""

    def items() -> Generator[int, None, None]:
        with kernel.span("items"):
            yield 1

    async def start() -> Generator[int, None, None]:
        with kernel.span("theirs"):
            generator = items()
            next(generator)
            return generator

    generator = await asyncio.create_task(start())
    with kernel.span("mine") as mine:
        generator.close()
        assert kernel.span_id == mine.span_id


async def test_a_task_keeps_the_ids_it_started_with(kernel: Observed) -> None:
    """A task started inside a span is part of that span's work, also when it outlives it."""
    go_on = asyncio.Event()

    async def linger() -> dict[str, str]:
        await go_on.wait()
        return await kernel.ids()

    with kernel.span("x") as span:
        lingering = asyncio.create_task(linger())
        await asyncio.sleep(0)
    go_on.set()

    assert (await lingering)["span_id"] == span.span_id
    assert await kernel.ids() == {}


async def test_each_coordinator_has_its_own_innermost_span(kernel: Observed) -> None:
    """Inside another coordinator's span an event still carries the ids of its own; its handlers see them too."""
    other = Observed()
    seen: list[Any] = []

    async def handler(event: str, data: dict[str, Any]) -> None:
        seen.append((kernel.span_id, await kernel.ids()))

    kernel.hooks.register("e", handler)
    with kernel.span("mine"):
        mine = await kernel.ids()
        with other.span("theirs") as theirs:
            assert await kernel.ids() == mine
            await kernel.hooks.emit("e", {})
            assert (await other.ids())["span_id"] == theirs.span_id

    assert seen == [(mine["span_id"], mine)]


async def test_a_span_inside_anothers_span_joins_its_trace(kernel: Observed) -> None:
    """The first span of a session that runs inside another one's belongs to that trace, without its turn."""
    other = Observed()
    with kernel.span("mine") as mine, other.span("theirs"):
        ids = await other.ids()

    assert (ids["trace_id"], ids["parent_span_id"]) == (mine.trace_id, mine.span_id)
    assert "turn_id" not in ids


async def test_a_span_is_a_child_of_its_own_coordinators_span(kernel: Observed) -> None:
    """With another coordinator's span in between, a span still hangs under the innermost one of its own."""
    other = Observed()
    with kernel.span("outer") as outer, other.span("between"), kernel.span("inner") as inner:
        assert inner.parent_span_id == outer.span_id


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
