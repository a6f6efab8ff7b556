"""Request ids that tie a provider's events together."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import HookRegistry, correlation

from .base import Stage, scenario


async def flow(*events: tuple[str, dict[str, Any]]) -> Any:
    """Emit these events one after another and tell which ids they carried, numbered as they first appear."""
    registry = HookRegistry()
    names: dict[str, str] = {}
    seen: list[Any] = []

    def name(value: Any) -> Any:
        return value if value is None or str(value).count("-") != 4 else names.setdefault(value, f"id{len(names)}")

    for event, data in events:
        result = await registry.emit(event, data)
        seen.append([event, name((result.data or {}).get("request_id")), name(correlation.current_request_id())])
    return seen


@scenario
async def constants(stage: Stage) -> Any:
    """The names of the fields and the events."""
    groups = (correlation.REQUEST_EVENTS, correlation.TERMINAL_EVENTS, correlation.INTERIM_EVENTS)
    return [correlation.REQUEST_ID_FIELD, *(sorted(group) for group in groups)]


@scenario
async def call_and_answer(stage: Stage) -> Any:
    """An answer carries the id of its request; afterwards none is open."""
    return await flow(("llm:request", {}), ("provider:retry", {}), ("llm:response", {}), ("llm:response", {}))


@scenario
async def explicit_ids(stage: Stage) -> Any:
    """An id in the data is adopted."""
    return await flow(
        ("llm:request", {"request_id": "mine"}),
        ("provider:throttle", {}),
        ("provider:error", {"request_id": "other"}),
        ("provider:retry", {"request_id": "third"}),
        ("llm:response", {}),
    )


@scenario
async def nothing_open(stage: Stage) -> Any:
    """Without an open request there is no field."""
    return await flow(("provider:retry", {}), ("provider:error", {}), ("llm:response", {}))


@scenario
async def other_events(stage: Stage) -> Any:
    """Other events are left alone."""
    return await flow(("llm:request", {}), ("tool:pre", {}), ("tool:pre", {"request_id": "x"}), ("llm:response", {}))


@scenario
async def nested_requests(stage: Stage) -> Any:
    """A second request before the first is answered."""
    return await flow(("llm:request", {}), ("llm:request", {}), ("llm:response", {}), ("llm:response", {}))


@scenario
async def seen_by_handlers(stage: Stage) -> Any:
    """Handlers see the id."""
    registry = HookRegistry()
    registry.register("llm:request", lambda event, data: stage.notes.append(data))
    result = await registry.emit("llm:request", {"model": "m"})
    return [stage.notes, stage.notes[0]["request_id"] == (result.data or {})["request_id"]]


@scenario
async def tasks_do_not_share(stage: Stage) -> Any:
    """Each task has its own open request."""

    async def one() -> Any:
        before = correlation.current_request_id()
        await HookRegistry().emit("llm:request", {})
        await asyncio.sleep(0)
        return [before, correlation.current_request_id()]

    correlation.reset_request_id()
    first, second = await asyncio.gather(asyncio.create_task(one()), asyncio.create_task(one()))
    return [first[0], second[0], first[1] != second[1], correlation.current_request_id()]


@scenario
async def by_hand(stage: Stage) -> Any:
    """The functions by themselves."""
    correlation.reset_request_id()
    resolve = correlation.resolve_request_id
    steps = [resolve("llm:request", "a"), resolve("provider:retry"), resolve("tool:pre"), resolve("tool:pre", "x")]
    steps += [correlation.current_request_id(), resolve("llm:response"), correlation.current_request_id()]
    return [steps, correlation.new_request_id()]


@scenario
async def odd_explicit_ids(stage: Stage) -> Any:
    """Ids that are empty or no text."""
    return [await flow(("llm:request", {"request_id": value}), ("llm:response", {})) for value in ("", None, 5)]
