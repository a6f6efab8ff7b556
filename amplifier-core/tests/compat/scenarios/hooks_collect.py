"""emit_and_collect(): every handler's data."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import HookRegistry, HookResult

from .base import Stage, outcome, scenario


async def collected(*answers: Any, data: Any = None, stage: Stage | None = None, **options: Any) -> Any:
    """Ask handlers that give these answers; an exception as an answer is raised."""
    registry = HookRegistry()
    registry.set_default_fields(session_id="s")
    for index, answer in enumerate(answers):

        async def handler(event: str, data: Any, answer: Any = answer) -> Any:
            if stage is not None:
                stage.notes.append(data)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, float):
                await asyncio.sleep(answer)
                return HookResult(data={"slept": True})
            return answer

        registry.register("x:y", handler, priority=index, name=f"h{index}")
    return await outcome(lambda: registry.emit_and_collect("x:y", {"k": (1,)} if data is None else data, **options))


@scenario
async def data_of_all(stage: Stage) -> Any:
    """The data of each answer, in order; those without data are left out."""
    answers = [
        HookResult(data={"a": 1}),
        None,
        HookResult(),
        HookResult(action="modify", data={"b": (1, 2)}),
        {"data": {"c": 3}},
    ]
    return await collected(*answers)


@scenario
async def nobody(stage: Stage) -> Any:
    """No handler at all."""
    return await collected()


@scenario
async def denial_does_not_stop(stage: Stage) -> Any:
    """A denial's data counts and the rest is asked."""
    return await collected(HookResult(action="deny", reason="n", data={"d": 1}), HookResult(data={"e": 2}))


@scenario
async def raw_data(stage: Stage) -> Any:
    """Handlers see the data cleaned, without defaults, timestamp or request id."""
    await collected(None, None, stage=stage)
    return stage.notes


@scenario
async def errors_are_skipped(stage: Stage) -> Any:
    """A handler that raises is left out."""
    return [
        await collected(ValueError("x"), HookResult(data={"a": 1})),
        [line.split(" ")[0] for line in stage.warnings()],
    ]


@scenario
async def slow_handlers_are_skipped(stage: Stage) -> Any:
    """A handler past its time is left out with a warning."""
    got = await collected(5.0, HookResult(data={"a": 1}), timeout=0.05)
    return [got, [line.split(" ")[0] for line in stage.warnings()]]


@scenario
async def no_timeout(stage: Stage) -> Any:
    """None is no timeout."""
    return str(await collected(HookResult(data={"a": 1}), timeout=None)).split(":")[0]


@scenario
async def unreadable_answer(stage: Stage) -> Any:
    """An answer that is no result."""
    return await collected("nonsense", HookResult(data={"a": 1}))


@scenario
async def no_correlation(stage: Stage) -> Any:
    """Asking about a request opens no request."""
    from amplifier_core.correlation import current_request_id

    registry = HookRegistry()
    registry.register("llm:request", lambda event, data: stage.notes.append(data))
    await registry.emit_and_collect("llm:request", {})
    return [stage.notes, current_request_id()]
