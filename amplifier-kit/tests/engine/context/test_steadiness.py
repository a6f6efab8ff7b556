"""Between two compactions a view only grows at its end, so that what a provider has cached stays good."""

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig, TokenBudget

Message = dict[str, Any]


def turn(number: int) -> list[Message]:
    """One turn with two rounds of parallel calls."""
    messages: list[Message] = [{"role": "user", "content": f"wish {number}: " + "please " * 30}]
    for step in range(2):
        ids = [f"{number}-{step}-{index}" for index in range(3)]
        calls = [{"id": call, "tool": "bash", "arguments": {}} for call in ids]
        messages.append({"role": "assistant", "content": "Let me look.", "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call, "content": f"{call} " * 90} for call in ids]
    return [*messages, {"role": "assistant", "content": f"This is answer {number}. " * 8}]


@pytest.fixture
def compactions(coordinator: MockCoordinator) -> list[Any]:
    """Collect the payloads of context:compaction."""
    seen: list[Any] = []
    coordinator.hooks.register("context:compaction", lambda event, data: seen.append(data))
    return seen


async def test_a_view_grows_at_its_end(coordinator: MockCoordinator, compactions: list[Any]) -> None:
    """Over 120 turns the beginning of the request changes only when a compaction is announced, and rarely."""
    context = BaseContext(ContextConfig(), coordinator)
    before: list[Message] = []
    announced = requests = 0
    for number in range(120):
        for message in turn(number):
            if message["role"] == "assistant":
                view = await context.get_messages_for_request(token_budget=8000)
                requests += 1
                if len(compactions) == announced:
                    assert view[: len(before)] == before
                before, announced = view, len(compactions)
            await context.add_message(message)
    total = sum(len(str(message)) // 4 for message in context.messages)
    assert requests == 360
    assert 1 < announced <= total // 2500


async def test_a_compaction_is_announced_once(coordinator: MockCoordinator, compactions: list[Any]) -> None:
    """Asking again, and adding a little, repeats no event."""
    context = BaseContext(ContextConfig(), coordinator)
    for number in range(40):
        for message in turn(number):
            await context.add_message(message)
    first = await context.get_messages_for_request(token_budget=8000)
    again = await context.get_messages_for_request(token_budget=8000)
    assert first == again
    assert len(compactions) == 1


async def test_budgets_in_turn_do_not_disturb_each_other(coordinator: MockCoordinator, compactions: list[Any]) -> None:
    """Two models that alternate in one session each get a stable view, announced once."""
    context = BaseContext(ContextConfig(), coordinator)
    for number in range(40):
        for message in turn(number):
            await context.add_message(message)
    views = [[await context.get_messages_for_request(token_budget=budget) for budget in (6000, 12000)] for _ in "ab"]
    assert views[0] == views[1]
    assert len(views[0][0]) < len(views[0][1])
    assert [data["budget"] for data in compactions] == [6000, 12000]


async def test_a_late_result_makes_the_view_anew() -> None:
    """A result that comes after its call was removed brings the call back: what was remembered is no longer true."""
    calls: list[dict[str, Any]] = [{"id": call, "tool": "bash", "arguments": {}} for call in ("a", "b")]
    messages: list[Message] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": calls},
    ]
    messages.append({"role": "tool", "tool_call_id": "a", "content": "done"})
    messages += [{"role": "assistant", "content": f"{number} " * 200} for number in range(40)]
    context = BaseContext(ContextConfig())
    await context.set_messages(messages)
    before = await context.get_messages_for_request(token_budget=3000)
    assert all("tool_calls" not in message for message in before)
    late = {"role": "tool", "tool_call_id": "b", "content": "late", "metadata": {"timestamp": "now"}}
    await context.add_message(late)
    fresh = BaseContext(ContextConfig())
    await fresh.set_messages([*messages, late])
    view = await context.get_messages_for_request(token_budget=3000)
    assert view == await fresh.get_messages_for_request(token_budget=3000)
    assert sum("tool_calls" in message for message in view) == 1


def test_the_room_is_divided_as_configured() -> None:
    """The notice's reserve goes off the budget first; threshold and target are shares of the rest."""
    room = TokenBudget.divide(100_000, 1_000, ContextConfig())
    assert room == TokenBudget(100_000, 99_200, 1_000, int(99_200 * 0.92) - 1_000, 49_600 - 1_000)
    assert room.limit == 99_000
    bare = TokenBudget.divide(100_000, 0, ContextConfig(compaction_notice_enabled=False))
    assert (bare.usable, bare.threshold, bare.target) == (100_000, 92_000, 50_000)


def test_a_small_budget_is_not_all_reserve() -> None:
    """The reserve takes at most half of a budget."""
    assert TokenBudget.divide(1_000, 0, ContextConfig()).usable == 500


def test_long_instructions_leave_the_conversation_a_third() -> None:
    """When the system part takes most of the budget, compaction aims at a third of what is left, not at nothing."""
    room = TokenBudget.divide(100_800, 60_000, ContextConfig())
    assert (room.threshold, room.target) == (32_000, 10_666)
    none = TokenBudget.divide(100_800, 200_000, ContextConfig())
    assert (none.threshold, none.target, none.limit) == (0, 0, -99_200)
