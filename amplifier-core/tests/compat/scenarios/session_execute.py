"""execute(): what the orchestrator gets, and how a turn ends."""

from __future__ import annotations

import asyncio
from typing import Any

from .base import Stage, describe, outcome, risky, scenario
from .parts import Loop, base_plan, started


class Odd(Exception):
    """An exception no kernel knows."""


@scenario
async def arguments(stage: Stage) -> Any:
    """The keyword arguments of an orchestrator."""
    session = await started(stage, base_plan(stage, tools=2))
    hub = session.coordinator
    seen: dict[str, Any] = {}

    async def body(**given: Any) -> str:
        seen.update(given)
        return "answer"

    await hub.mount("orchestrator", Loop(body))
    answer = await session.execute("ask")
    return {
        "answer": answer,
        "names": sorted(seen),
        "prompt": seen["prompt"],
        "context": seen["context"] is hub.get("context"),
        "live": [seen["providers"] is hub.mount_points["providers"], seen["tools"] is hub.mount_points["tools"]],
        "hooks": seen["hooks"] is hub.hooks,
        "coordinator": seen["coordinator"] is hub,
        "status": session.status.status,
    }


@scenario
async def no_tools(stage: Stage) -> Any:
    """Without tools the orchestrator gets an empty dict."""
    session = await started(stage)
    seen: list[Any] = []

    async def body(**given: Any) -> str:
        seen.append(given["tools"])
        return ""

    await session.coordinator.mount("orchestrator", Loop(body))
    return [await session.execute(""), seen]


@scenario
async def missing_parts(stage: Stage) -> Any:
    """What is said when the orchestrator, the context or the providers are gone."""
    plan = base_plan(stage)

    async def without(point: str, name: str | None = None) -> Any:
        session = await started(stage, plan)
        await session.coordinator.unmount(point, name)
        return [await outcome(lambda: session.execute("hi")), session.status.status]

    return [await without("orchestrator"), await without("context"), await without("providers", "bench")]


@scenario
async def orchestrator_raises(stage: Stage) -> Any:
    """An exception of the orchestrator's own class reaches the caller."""
    session = await started(stage)

    async def body(**given: Any) -> str:
        raise Odd("strange")

    await session.coordinator.mount("orchestrator", Loop(body))
    text = await outcome(lambda: session.execute("hi"))
    return [text, session.status.status, session.status.last_error]


@scenario
async def raises_then_recovers(stage: Stage) -> Any:
    """A turn after a failed one."""
    session = await started(stage)
    turns = iter([ValueError("first"), None])

    async def body(**given: Any) -> str:
        error = next(turns)
        if error:
            raise error
        return "fine"

    await session.coordinator.mount("orchestrator", Loop(body))
    first = await outcome(lambda: session.execute("hi"))
    second = await outcome(lambda: session.execute("hi"))
    return [first, second, session.status.status]


@risky
async def exit_passes_through(stage: Stage) -> Any:
    """SystemExit raised by an orchestrator."""
    session = await started(stage)

    async def body(**given: Any) -> str:
        raise SystemExit(3)

    await session.coordinator.mount("orchestrator", Loop(body))
    try:
        await session.execute("hi")
    except BaseException as error:
        return [describe(error), session.status.status]
    return "returned"


@scenario
async def cancelled_and_returns(stage: Stage) -> Any:
    """A turn that returns after cancellation was requested."""
    session = await started(stage)

    async def body(**given: Any) -> str:
        await given["coordinator"].request_cancel()
        return "half"

    await session.coordinator.mount("orchestrator", Loop(body))
    answer = await session.execute("hi")
    return [answer, session.status.status, [note for note in stage.notes if note[0].startswith("cancel")]]


@scenario
async def cancelled_and_raises(stage: Stage) -> Any:
    """A turn that raises after immediate cancellation was requested."""
    session = await started(stage)

    async def body(**given: Any) -> str:
        await given["coordinator"].request_cancel(immediate=True)
        raise Odd("stopped")

    await session.coordinator.mount("orchestrator", Loop(body))
    text = await outcome(lambda: session.execute("hi"))
    return [text, session.status.status, [note for note in stage.notes if note[0].startswith("cancel")]]


@scenario
async def outer_task_cancelled(stage: Stage) -> Any:
    """Cancelling the task that awaits a turn."""
    session = await started(stage)
    inside = asyncio.Event()

    async def body(**given: Any) -> str:
        inside.set()
        await asyncio.sleep(30)
        return "never"

    await session.coordinator.mount("orchestrator", Loop(body))
    task = asyncio.create_task(session.execute("hi"))
    await inside.wait()
    task.cancel()
    return [(await outcome(task)).split(":")[0], session.status.status]


@scenario
async def unprintable_error(stage: Stage) -> Any:
    """An error whose text cannot be made."""

    class Unprintable(Exception):
        def __str__(self) -> str:
            return b"\xff".decode("utf-8")

        def __repr__(self) -> str:
            return "Unprintable()"

    session = await started(stage)

    async def body(**given: Any) -> str:
        raise Unprintable

    await session.coordinator.mount("orchestrator", Loop(body))
    try:
        await session.execute("hi")
    except Exception as error:
        return [type(error).__name__, session.status.status, session.status.last_error]
    return "returned"


@scenario
async def turn_counters_reset(stage: Stage) -> Any:
    """The injection counter starts at nought in every turn."""
    session = await started(stage)
    seen = []

    async def body(**given: Any) -> str:
        seen.append(given["coordinator"]._current_turn_injections)
        given["coordinator"]._current_turn_injections = 50
        return ""

    await session.coordinator.mount("orchestrator", Loop(body))
    await session.execute("a")
    await session.execute("b")
    return [seen, session.coordinator._current_turn_injections]


@scenario
async def answer_that_is_no_text(stage: Stage) -> Any:
    """An orchestrator that returns something else than text."""
    session = await started(stage)
    answers: list[Any] = [None, 5, {"a": 1}]
    got = []
    for answer in answers:

        async def body(answer: Any = answer, **given: Any) -> Any:
            return answer

        await session.coordinator.mount("orchestrator", Loop(body))
        got.append(await outcome(lambda: session.execute("hi")))
    return got
