"""Budgets in sessions with a real loop, a real provider and a model service: who is counted, and who is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import HookResult, ToolResult
from amplifier_core.llm_errors import StreamError
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.engine.usage import BudgetExhaustedError
from amplifier_kit.log.reader import read_log
from amplifier_testing.llm import ChatWire, Reply, Said
from amplifier_testing.llm.rig import ask
from amplifier_testing.llm.server import ModelServer

OpenSession = Callable[..., SessionRuntime]
WIRE = ChatWire()
SAID = Said(("Fine.",), prompt_tokens=1000, output_tokens=100, model="deepseek-chat")
USES_TOOL = Said((), calls=(("c1", "think", {}),), prompt_tokens=1000, output_tokens=100, model="deepseek-chat")


class ThinkingTool:
    """A tool that asks the model itself."""

    name = "think"
    description = "Think about it"
    input_schema: dict[str, Any] = {"type": "object", "properties": {}}  # noqa: RUF012
    action = "test.free"

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output=(await _asked(self._coordinator)).text)


async def _asked(coordinator: Any) -> Any:
    [provider] = coordinator.get("providers").values()
    return await provider.complete(ask("what do you think?"))


def _events(runtime: SessionRuntime, name: str) -> list[dict[str, Any]]:
    return [line.data for line in read_log(runtime.folder) if line.event == name]


async def test_a_model_call_is_laid_to_whoever_made_it(open_session: OpenSession, service: ModelServer) -> None:
    """The loop, a tool that asks the model, and a hook that does, named or not, each have a row of their own."""
    service.answers(*map(WIRE.either, (SAID, SAID, USES_TOOL, SAID, SAID, SAID)))
    runtime = open_session({"turns": 50})
    async with runtime:
        coordinator = runtime.session.coordinator

        async def judge(event: str, data: dict[str, Any]) -> HookResult:
            await _asked(coordinator)
            return HookResult(action="continue")

        coordinator.hooks.register("prompt:submit", judge, name="judge")
        coordinator.hooks.register("prompt:submit", judge)
        coordinator.hooks.register("tool:post", judge, name="critic")
        await coordinator.mount("tools", ThinkingTool(coordinator))
        await runtime.execute("go")
    rows = {row["source"]: row for row in runtime.budget.spent()}
    assert {source: row["calls"] for source, row in rows.items()} == {
        "hook:judge": 1,
        "hook:prompt:submit": 1,
        "loop": 2,
        "tool:think": 1,
        "hook:critic": 1,
    }
    assert all((row["session"], row["agent"]) == (runtime.session_id, None) for row in rows.values())
    assert all(row["tokens"] == 1100 * row["calls"] and Decimal(row["usd"]) > 0 for row in rows.values())
    assert runtime.budget.used()["turns"] == len(service.requests) == 6
    assert runtime.budget.used()["tool_calls"] == 1


async def test_a_task_that_a_hook_starts_counts_for_the_hook(open_session: OpenSession, service: ModelServer) -> None:
    """A call that a hook makes in a separate task is attributed to the hook."""
    service.answers(*map(WIRE.either, (SAID, SAID)))
    runtime = open_session({})
    async with runtime:
        coordinator = runtime.session.coordinator

        async def name_it(event: str, data: dict[str, Any]) -> None:
            await asyncio.create_task(_asked(coordinator))

        coordinator.hooks.register("prompt:complete", name_it, name="naming")
        await runtime.execute("go")
    assert [(row["source"], row["calls"]) for row in runtime.budget.spent()] == [("loop", 1), ("hook:naming", 1)]


async def test_a_task_with_a_span_is_known_by_it(open_session: OpenSession, service: ModelServer) -> None:
    """A call in a task that no handler started is attributed to the span of the task."""
    service.answers(*map(WIRE.either, (SAID, SAID)))
    runtime = open_session({})
    async with runtime:
        coordinator = runtime.session.coordinator

        async def name_it() -> None:
            with coordinator.span("hook:naming"):
                await _asked(coordinator)

        await asyncio.create_task(name_it())
        await runtime.execute("go")
    assert [(row["source"], row["calls"]) for row in runtime.budget.spent()] == [("hook:naming", 1), ("loop", 1)]


async def test_a_hook_cannot_ask_past_the_limit(open_session: OpenSession, service: ModelServer) -> None:
    """A hook's own question is one of the session's, is refused like one, and ends the session like one."""
    service.answers(WIRE.either(SAID))
    runtime = open_session({"turns": 1})
    refused: list[BaseException] = []
    async with runtime:
        coordinator = runtime.session.coordinator

        async def judge(event: str, data: dict[str, Any]) -> HookResult:
            try:
                await _asked(coordinator)
            except BudgetExhaustedError as error:
                refused.append(error)
            return HookResult(action="continue")

        coordinator.hooks.register("prompt:complete", judge, name="judge")
        assert await runtime.execute("go") == "Fine."
        assert "the budget of 1 turns is used up" in await runtime.execute("more")
    assert len(service.requests) == 1
    assert [error.code for error in refused[:1]] == ["budget_exhausted"]  # type: ignore[attr-defined]
    [told] = _events(runtime, "budget:exhausted")
    assert (told["limit"], told["amount"], told["limit_of"]) == ("turns", "1", runtime.session_id)
    assert told["used"]["turns"] == "1"
    assert (told["spent"][0]["source"], told["spent"][0]["calls"]) == ("loop", 1)


async def test_a_limit_that_is_reached_between_attempts_ends_the_retries(
    open_session: OpenSession, service: ModelServer
) -> None:
    """Before every attempt the budget is asked: what others have used meanwhile counts, and nothing is sent."""
    runtime = open_session({"tokens": 500})
    service.answers(Reply.error(503, {"error": {"message": "down"}}))
    async with runtime:
        hooks = runtime.session.coordinator.hooks
        hooks.register("provider:retry", lambda event, data: runtime.budget.child().add_usage({"output_tokens": 500}))
        with pytest.raises(BudgetExhaustedError, match="the budget of 500 tokens is used up"):
            await runtime.execute("go")
    assert len(service.requests) == 1
    assert runtime.budget.exhausted is not None
    assert len(_events(runtime, "budget:exhausted")) == 1
    [ended] = [line for line in read_log(runtime.folder) if line.event == "llm:response"]
    assert (ended.error or {}).get("type") == "BudgetExhaustedError"


async def test_an_answer_that_is_no_good_is_paid_for(open_session: OpenSession, service: ModelServer) -> None:
    """An answer with a call that cannot be read is asked for again, and both are counted, in tokens and money."""
    unreadable = replace(USES_TOOL, calls=(("c1", "think", {"where": "zebra"}),))
    pieces = [piece for piece in WIRE.reply(unreadable).pieces if b"zebra" not in piece]
    service.answers(Reply.stream(pieces), WIRE.either(SAID))
    runtime = open_session({"usd": 100})
    async with runtime:
        assert await runtime.execute("go") == "Fine."
    assert len(service.requests) == 2
    [told] = _events(runtime, "llm:response")
    assert (told["attempts"], told["usage"]["total_tokens"]) == (2, 2200)
    [row] = runtime.budget.spent()
    assert (row["tokens"], row["unpriced"], row["usd"]) == (2200, 0, str(told["usage"]["cost_usd"]))


async def test_an_attempt_that_broke_off_is_estimated(open_session: OpenSession, service: ModelServer) -> None:
    """What a broken answer cost nobody knows: it counts as the one that came instead, and the session goes on."""
    service.answers(WIRE.reply(SAID).cut(WIRE.first_text + 1), WIRE.either(SAID), WIRE.either(SAID))
    runtime = open_session({"usd": 100})
    async with runtime:
        assert await runtime.execute("go") == "Fine."
        [told] = _events(runtime, "llm:response")
        assert told["unpriced_attempts"] == 1
        [row] = runtime.budget.spent()
        assert row["estimated_usd"] == str(told["usage"]["cost_usd"])
        assert Decimal(row["usd"]) == 2 * Decimal(row["estimated_usd"]) > 0
        assert await runtime.execute("more") == "Fine."


@pytest.mark.parametrize(("limits", "goes_on"), [({"usd": 100}, False), ({"tokens": 100_000}, True)])
async def test_nothing_to_estimate_by(
    open_session: OpenSession, service: ModelServer, limits: dict[str, Any], goes_on: bool
) -> None:
    """Before any answer had a price, a broken one may have cost anything: with a limit of dollars, no more is asked."""
    service.answers(WIRE.reply(SAID).cut(WIRE.first_text + 1), WIRE.either(SAID))
    runtime = open_session(limits, max_retries=0)
    async with runtime:
        with pytest.raises(StreamError):
            await runtime.execute("go")
        assert (await runtime.execute("more") == "Fine.") is goes_on


async def test_a_refused_question_costs_nothing(open_session: OpenSession, service: ModelServer) -> None:
    """A service that refuses has used nothing: a limit of dollars still holds, and the session goes on."""
    service.answers(Reply.error(400, {"error": {"message": "no"}}), WIRE.either(SAID))
    runtime = open_session({"usd": 100})
    async with runtime:
        with pytest.raises(Exception, match="no"):
            await runtime.execute("go")
        assert await runtime.execute("again") == "Fine."
    assert [row["unpriced"] for row in runtime.budget.spent()] == [0]


async def test_what_is_free_has_a_price(open_session: OpenSession, service: ModelServer) -> None:
    """A model of one's own costs nothing, which is not the same as an unknown price."""
    service.answers(*map(WIRE.either, (SAID, SAID)))
    runtime = open_session({"usd": 1}, free=True, price_list=None)
    async with runtime:
        for _ in range(2):
            assert await runtime.execute("go") == "Fine."
    unknown = open_session({"usd": 1}, price_list=None)
    service.answers(*map(WIRE.either, (SAID, SAID)))
    async with unknown:
        assert await unknown.execute("go") == "Fine."
        assert "the price of 1 answer is unknown" in await unknown.execute("more")
