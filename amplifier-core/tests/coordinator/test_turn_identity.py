"""The ids of turns, in real sessions: one turn, many turns, turns inside turns."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleCoordinator
from amplifier_core.session import fork_session, get_session

Work = Callable[[ModuleCoordinator], Awaitable[Any]]
IDS = ("trace_id", "turn_id", "span_id", "parent_span_id")


class Turn:
    """An orchestrator that does whatever the test wants a turn to do."""

    def __init__(self, work: Work) -> None:
        self.work = work

    async def execute(self, *, coordinator: ModuleCoordinator, **_: Any) -> Any:
        return await self.work(coordinator)


def listen(coordinator: ModuleCoordinator) -> list[tuple[str, dict[str, str]]]:
    """Return a list that fills with every event of a session and its ids."""
    heard: list[tuple[str, dict[str, str]]] = []
    coordinator.hooks.register(
        "*", lambda event, data: heard.append((event, {key: data[key] for key in IDS if key in data}))
    )
    return heard


async def ids(coordinator: ModuleCoordinator) -> dict[str, str]:
    """Return the ids that an event of a session would carry now."""
    heard = listen(coordinator)
    await coordinator.hooks.emit("probe", {})
    return heard[-1][1]


@pytest.fixture
def start(make_plan: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[AmplifierSession]]:
    """Give `await start(work, **options)`: a live session whose turns do `work`."""

    async def start(work: Work, **options: Any) -> AmplifierSession:
        session = AmplifierSession(make_plan(), **options)
        await session.initialize()
        session.coordinator.mount_points["orchestrator"] = Turn(work)
        return session

    return start


async def test_a_turn_has_ids(start: Callable[..., Awaitable[AmplifierSession]]) -> None:
    """Inside execute() the turn is a new trace with one open span; outside the fields are absent."""
    session = await start(ids)
    coordinator = session.coordinator
    heard = listen(coordinator)
    turn = await session.execute("hi")

    assert turn["turn_id"] == turn["trace_id"]
    assert re.fullmatch("[0-9a-f]{32}", turn["turn_id"])
    assert re.fullmatch("[0-9a-f]{16}", turn["span_id"])
    assert "parent_span_id" not in turn
    assert heard[0] == ("session:start", turn)
    assert (coordinator.turn_id, coordinator.span_id) == (None, None)
    await session.cleanup()
    assert heard[-1] == ("session:end", {})


async def test_every_turn_is_a_new_one(start: Callable[..., Awaitable[AmplifierSession]]) -> None:
    """Turns of a session share no id."""
    session = await start(ids)
    first, second = await session.execute("a"), await session.execute("b")

    assert not set(first.values()) & set(second.values())


async def test_a_childs_turn_keeps_the_trace(start: Callable[..., Awaitable[AmplifierSession]]) -> None:
    """A child that runs inside a tool call has its own turn, in the parent's trace, under the tool's span."""
    seen: dict[str, dict[str, str]] = {}

    async def work(coordinator: ModuleCoordinator) -> None:
        seen["turn"] = await ids(coordinator)
        async with coordinator.span("delegate"):
            seen["tool"] = await ids(coordinator)
            child = await start(ids, parent_id=coordinator.session_id)
            seen["child"] = await child.execute("go")
            assert await ids(coordinator) == seen["tool"]
        assert await ids(coordinator) == seen["turn"]

    parent = await start(work)
    await parent.execute("hi")

    assert seen["child"]["trace_id"] == seen["turn"]["trace_id"]
    assert seen["child"]["parent_span_id"] == seen["tool"]["span_id"]
    assert seen["child"]["turn_id"] not in (seen["turn"]["turn_id"], seen["turn"]["trace_id"])


async def test_a_fork_keeps_the_trace_of_the_turn_that_spawned_it(
    start: Callable[..., Awaitable[AmplifierSession]],
) -> None:
    """Also when it runs after that turn: a tree of sessions is one trace."""

    async def work(coordinator: ModuleCoordinator) -> tuple[str, dict[str, str]]:
        return await fork_session(coordinator.session_id), await ids(coordinator)

    parent = await start(work)
    child_id, turn = await parent.execute("hi")
    child = get_session(child_id)
    child.coordinator.mount_points["orchestrator"] = Turn(ids)
    first, second = await child.execute("later"), await child.execute("again")

    for later in (first, second):
        assert later["trace_id"] == turn["trace_id"]
        assert later["turn_id"] not in (turn["turn_id"], turn["trace_id"])
    assert first["turn_id"] != second["turn_id"]
