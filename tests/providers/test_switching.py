"""A session goes on with another provider: the next service takes the history, and no call loses its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_testing.llm import Said


def _turn(number: int) -> tuple[Said, Said]:
    """Return what a model says in one turn: thinking, text and two calls at once, and then an answer."""
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (f"call_{number}_a", "read_file", {"file_path": "a.txt"}),
        (f"call_{number}_b", "glob", {"pattern": "*.txt"}),
    )
    return Said(("I look.",), ("Let me", " see."), calls=calls), Said((f"Answer {number}.",), ("So.",))


@pytest.mark.parametrize("is_every", [False, pytest.param(True, marks=pytest.mark.system)], ids=["half", "every"])
async def test_to_every_other_and_back(
    lab: Any, strict: Any, services: tuple[Any, ...], serve: Callable[[Any], Any], is_every: bool
) -> None:
    """One session changes from a provider to each other one and back: every request holds all pairs of before.

    The half of the others that follow suffices for each to change to each, in one of the sessions.
    """
    at = services.index(strict.service)
    others = (*services[at + 1 :], *services[:at])[: None if is_every else len(services) // 2]
    servers = {strict.service.name: strict} | {other.name: serve(other) for other in others}
    route = [strict.service.name]
    for other in others:
        route += [other.name, strict.service.name]
    async with lab.session(*servers.values()) as runtime:
        mounted = runtime.session.coordinator.get("providers")
        assert set(mounted) == set(servers)
        for number, name in enumerate(route):
            for each in mounted:
                mounted[each].priority = 1 if each == name else 100
            servers[name].says(*_turn(number))
            assert await runtime.execute(f"Turn {number}?") == f"Answer {number}."
            assert servers[name].refused == []
            assert servers[name].pairs[-2:] == [2 * number, 2 * number + 2]
    told = [data["provider"] for event, data in lab.heard if event == "provider:response"]
    assert told == [name for name in route for _ in range(2)]
    _whole(lab.transcript(), len(route))


async def test_round_by_resuming(lab: Any, services: tuple[Any, ...], serve: Callable[[Any], Any]) -> None:
    """One session is resumed with one provider after the other, each in a runtime of its own."""
    route = (*services, services[0])
    servers = {service.name: serve(service) for service in services}
    for number, service in enumerate(route):
        server = servers[service.name]
        server.says(*_turn(number))
        async with lab.session(server, resumed=number > 0) as runtime:
            assert await runtime.execute(f"Turn {number}?") == f"Answer {number}."
        assert server.refused == []
        assert server.pairs[-2:] == [2 * number, 2 * number + 2]
    _whole(lab.transcript(), len(route))


async def test_after_a_cancelled_turn(
    lab: Any, strict: Any, services: tuple[Any, ...], serve: Callable[[Any], Any]
) -> None:
    """A turn that was cancelled with one provider does not keep the next one from going on."""
    wire = strict.service.wire
    after = serve(services[(services.index(strict.service) + 1) % len(services)])
    strict.says(*_turn(0))
    async with lab.session(strict) as runtime:
        await runtime.execute("Turn 0?")
        strict.replies(wire.reply(Said(("Well", ", no"))).stalled(wire.first_text))
        await lab.cancelled(runtime, "Turn 1?")
    after.says(*_turn(2))
    async with lab.session(after, resumed=True) as runtime:
        assert await runtime.execute("Turn 2?") == "Answer 2."
    assert after.refused == []
    assert after.pairs == [2, 4]


def _whole(transcript: list[dict[str, Any]], turns: int) -> None:
    """Check that every call has one result right after it, and that every turn has the same form."""
    assert [message["role"] for message in transcript] == ["user", "assistant", "tool", "tool", "assistant"] * turns
    for at in range(1, len(transcript), 5):
        calls = [call["id"] for call in transcript[at]["tool_calls"]]
        assert [message["tool_call_id"] for message in transcript[at + 1 : at + 3]] == calls
