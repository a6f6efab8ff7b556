"""Ids never leak between concurrent tasks, sessions, turns and spans."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator
from amplifier_core.trace import Scope, open_turn

OWNERS = 3


class Open(NamedTuple):
    """A scope that the model knows to be open, and whose it is."""

    owner: int
    ids: dict[str, str]


#: A program as a flat list: opening a block (span, async span, turn, task) nests what follows until it is closed.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["span", "aspan", "turn", "task"]), st.integers(0, OWNERS - 1)),
        st.tuples(st.just("emit"), st.integers(0, OWNERS - 1)),
        st.sampled_from([("wait", 0), ("close", 0)]),
    ),
    max_size=16,
)


def nested(steps: list[tuple[str, int]]) -> list[Any]:
    """Return the steps as a program: blocks are `(kind, owner, program)`."""
    stack: list[list[Any]] = [[]]
    for kind, owner in steps:
        if kind == "close":
            if len(stack) > 1:
                stack.pop()
        elif kind in ("emit", "wait"):
            stack[-1].append((kind, owner))
        else:
            inner: list[Any] = []
            stack[-1].append((kind, owner, inner))
            stack.append(inner)
    return stack[0]


class World:
    """Several coordinators, and what the ids of each must be at every moment."""

    def __init__(self) -> None:
        self.kernels = [ModuleCoordinator() for _ in range(OWNERS)]
        self.checked = 0
        self.seen_spans: set[str] = set()

    async def run(self, program: list[Any], stack: tuple[Open, ...]) -> None:
        tasks = []
        for step in program:
            kind, owner, *body = step
            if kind == "emit":
                await self.check(owner, stack)
            elif kind == "wait":
                await asyncio.sleep(0)
            elif kind == "task":
                tasks.append(asyncio.create_task(self.run(body[0], stack)))
            else:
                await self.block(kind, owner, body[0], stack)
            for other in range(OWNERS):
                self.check_properties(other, stack)
        await asyncio.gather(*tasks)
        for other in range(OWNERS):
            await self.check(other, stack)

    async def block(self, kind: str, owner: int, program: list[Any], stack: tuple[Open, ...]) -> None:
        if kind == "turn":
            with open_turn(self.kernels[owner], None) as scope:
                await self.run(program, (*stack, Open(owner, self.model_turn(scope, stack))))
        elif kind == "span":
            with self.kernels[owner].span("s") as scope:
                await self.run(program, (*stack, Open(owner, self.model_span(scope, owner, stack))))
        else:
            async with self.kernels[owner].span("s") as scope:
                await self.run(program, (*stack, Open(owner, self.model_span(scope, owner, stack))))

    def fresh(self, scope: Scope) -> str:
        assert scope.span_id is not None
        assert scope.span_id not in self.seen_spans
        self.seen_spans.add(scope.span_id)
        return scope.span_id

    def model_span(self, scope: Scope, owner: int, stack: tuple[Open, ...]) -> dict[str, str]:
        ids = {"span_id": self.fresh(scope)}
        own = innermost(owner, stack)
        around = own or (stack[-1].ids if stack else None)
        if around is None:
            assert scope.trace_id is not None
            return {**ids, "trace_id": scope.trace_id}
        ids |= {"trace_id": around["trace_id"], "parent_span_id": around["span_id"]}
        return {**ids, "turn_id": own["turn_id"]} if own and "turn_id" in own else ids

    def model_turn(self, scope: Scope, stack: tuple[Open, ...]) -> dict[str, str]:
        assert scope.turn_id is not None
        ids = {"span_id": self.fresh(scope), "turn_id": scope.turn_id}
        if not stack:
            return {**ids, "trace_id": scope.turn_id}
        return {**ids, "trace_id": stack[-1].ids["trace_id"], "parent_span_id": stack[-1].ids["span_id"]}

    async def check(self, owner: int, stack: tuple[Open, ...]) -> None:
        heard: list[dict[str, Any]] = []

        async def handler(event: str, data: dict[str, Any]) -> None:
            self.check_properties(owner, stack)
            await asyncio.sleep(0)
            heard.append(data)

        hooks = self.kernels[owner].hooks
        name = f"probe:{self.checked}"
        self.checked += 1
        hooks.register(name, handler)
        await hooks.emit(name, {})
        carried = {key: value for key, value in heard[0].items() if key.endswith("_id")}
        assert carried == (innermost(owner, stack) or {})

    def check_properties(self, owner: int, stack: tuple[Open, ...]) -> None:
        ids = innermost(owner, stack) or {}
        kernel = self.kernels[owner]
        assert (kernel.turn_id, kernel.span_id) == (ids.get("turn_id"), ids.get("span_id"))


def innermost(owner: int, stack: tuple[Open, ...]) -> dict[str, str] | None:
    """Return the ids that an event of `owner` must carry."""
    return next((scope.ids for scope in reversed(stack) if scope.owner == owner), None)


@given(st.lists(STEPS, min_size=1, max_size=4))
def test_ids_never_leak_between_concurrent_tasks(programs: list[list[tuple[str, int]]]) -> None:
    """In every tree of spans, turns and tasks over several coordinators, an event carries its innermost scope's ids."""

    async def run() -> None:
        world = World()
        await asyncio.gather(*(world.run(nested(steps), ()) for steps in programs))
        for kernel in world.kernels:
            assert (kernel.turn_id, kernel.span_id) == (None, None)

    asyncio.run(run())
