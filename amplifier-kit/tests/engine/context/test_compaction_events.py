"""Every compaction is announced, can be denied, and is reported as it was."""

import re
from typing import Any

import pytest

from amplifier_core import HookResult
from amplifier_core.llm_errors import ContextLengthError
from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all

Events = list[tuple[str, dict[str, Any]]]

PUBLISHED = {
    *("before_tokens", "after_tokens", "before_messages", "after_messages", "messages_removed", "messages_truncated"),
    *("user_messages_stubbed", "system_messages_preserved", "strategy_level", "budget", "target_tokens"),
    *("protected_recent", "protected_tool_results"),
}
STAMPED = {"timestamp"}
PRE, DONE, POST, SKIPPED = (
    "context:pre_compact",
    "context:compaction",
    "context:post_compact",
    "context:compact_skipped",
)


class Context(BaseContext):
    """A context manager as a module makes one."""

    name = "context-test"


@pytest.fixture
def events(coordinator: MockCoordinator) -> Events:
    """Collect every event about the context, in order."""
    seen: Events = []
    for name in (PRE, DONE, POST, SKIPPED):
        coordinator.hooks.register(name, lambda event, data: seen.append((event, data)), priority=-1)
    return seen


@pytest.fixture
def context(coordinator: MockCoordinator) -> Context:
    """A context on a real coordinator."""
    return Context(ContextConfig(), coordinator)


async def fill(context: BaseContext, count: int = 60, size: int = 400) -> None:
    await context.add_message({"role": "system", "content": "Be exact."})
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        await context.add_message({"role": role, "content": f"{number:03d}" + "x" * size})


def names(events: Events) -> list[str]:
    return [event for event, _ in events]


async def test_a_compaction_is_announced_and_reported(context: Context, events: Events) -> None:
    """Before, what will happen; then the published report; after, the same and the names of who and where."""
    await fill(context)
    view = await context.get_messages_for_request(token_budget=6000)
    assert names(events) == [PRE, DONE, POST]
    (_, asked), (_, done), (_, post) = events
    assert set(done) == PUBLISHED | STAMPED
    assert set(post) == PUBLISHED | STAMPED | {"message_count", "system_tokens", "module"}
    assert asked["message_count"] == asked["before_messages"] == done["before_messages"] == 61
    assert asked["before_tokens"] == done["before_tokens"] == estimate_all(await context.get_messages())
    assert asked["budget"] == done["budget"] == 6000
    assert asked["threshold_tokens"] == int(5200 * 0.92)
    assert asked["target_tokens"] == done["target_tokens"] == 2600
    assert asked["module"] == post["module"] == "context-test"
    without_notice = [view[0], *view[2:]]
    assert done["after_messages"] == len(without_notice) == 61 - done["messages_removed"]
    assert done["after_tokens"] == estimate_all(without_notice)
    assert done["user_messages_stubbed"] == sum("_stubbed" in message for message in view)
    assert done["system_messages_preserved"] == 1
    assert done["strategy_level"] == 5
    assert (done["protected_recent"], done["protected_tool_results"]) == (0.3, 5)
    assert view[1]["metadata"] == {"source": "context-compaction", "ephemeral": True}


async def test_a_request_that_fits_is_no_event(context: Context, events: Events) -> None:
    """Below the threshold nothing happens; one message above it does."""
    await fill(context, 2)
    taken = estimate_all(await context.get_messages())
    budget = next(budget for budget in range(5000) if int(max(budget - 800, budget // 2) * 0.92) >= taken)
    await context.get_messages_for_request(token_budget=budget)
    assert events == []
    await context.add_message({"role": "assistant", "content": "one more"})
    await context.get_messages_for_request(token_budget=budget)
    assert events != []


async def test_a_denial_skips_the_compaction(coordinator: MockCoordinator, context: Context, events: Events) -> None:
    """While the request could be sent as it is, a hook may forbid to compact it; it is asked again next time."""
    await fill(context)
    deny = HookResult(action="deny", reason="the user is reading")
    unregister = coordinator.hooks.register(PRE, lambda event, data: deny)
    whole = estimate_all(await context.get_messages())
    for _ in range(2):
        view = await context.get_messages_for_request(token_budget=whole + 10)
        assert len(view) == 61
    assert names(events) == [PRE, SKIPPED] * 2
    assert events[1][1]["reason"] == "denied"
    assert events[1][1]["detail"] == "the user is reading"
    assert events[1][1]["tokens"] == whole
    unregister()
    assert len(await context.get_messages_for_request(token_budget=whole + 10)) < 61


async def test_a_denial_keeps_the_compaction_before(coordinator: MockCoordinator, context: Context) -> None:
    """A hook that forbids the next compaction does not undo the last one."""
    await fill(context)
    before = await context.get_messages_for_request(token_budget=6000)
    coordinator.hooks.register(PRE, lambda event, data: HookResult(action="deny", reason="enough"))
    for number in range(20):
        await context.add_message({"role": "assistant", "content": f"{number}" + "y" * 400})
    after = await context.get_messages_for_request(token_budget=6000)
    assert after[: len(before)] == before
    assert len(after) == len(before) + 20


async def test_a_denial_cannot_make_a_request_impossible(
    coordinator: MockCoordinator, context: Context, events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    """When the request could not be sent otherwise, it is compacted all the same, with a warning."""
    await fill(context)
    coordinator.hooks.register(PRE, lambda event, data: HookResult(action="deny", reason="never"))
    view = await context.get_messages_for_request(token_budget=6000)
    assert estimate_all(view) <= 6000
    assert names(events) == [PRE, DONE, POST]
    assert "compaction was denied (never), but the request would not fit otherwise" in caplog.text


async def test_what_a_hook_adds_is_part_of_the_view(coordinator: MockCoordinator, context: Context) -> None:
    """A hook may save a thought before the compaction: by an injection or by adding a message."""
    await fill(context)

    async def remember(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(
            action="inject_context", context_injection="Remember the milk.", context_injection_role="user"
        )

    await coordinator.mount("context", context)
    unregister = coordinator.hooks.register(PRE, remember)
    view = await context.get_messages_for_request(token_budget=6000)
    assert view[-1]["content"] == "Remember the milk."
    assert estimate_all(view) <= 6000
    unregister()


async def test_a_hook_that_replaces_the_history_makes_the_compaction_unnecessary(
    coordinator: MockCoordinator, context: Context, events: Events
) -> None:
    """The announced compaction is closed by an event that says why it was not done."""
    await fill(context)

    async def replace(event: str, data: dict[str, Any]) -> None:
        await context.set_messages([{"role": "user", "content": "short"}])

    coordinator.hooks.register(PRE, replace)
    view = await context.get_messages_for_request(token_budget=6000)
    assert [message["content"] for message in view][-1] == "short"
    assert names(events) == [PRE, SKIPPED]
    assert events[-1][1]["reason"] == "no_longer_needed"


async def test_messages_added_while_reporting_wait(coordinator: MockCoordinator, context: Context) -> None:
    """What a handler of the report adds belongs to the next request: this one has been measured."""
    await fill(context)

    async def add(event: str, data: dict[str, Any]) -> None:
        await context.add_message({"role": "user", "content": "z" * 30_000})

    coordinator.hooks.register(POST, add)
    view = await context.get_messages_for_request(token_budget=6000)
    assert estimate_all(view) <= 6000


async def test_nothing_to_compact_is_said(context: Context, events: Events) -> None:
    """A request above the threshold of which nothing can go is sent whole, and the log knows why."""
    await context.add_message({"role": "user", "content": "x" * 3000})
    view = await context.get_messages_for_request(token_budget=800)
    assert [message["content"] for message in view] == ["x" * 3000]
    assert names(events) == [SKIPPED]
    assert events[0][1] == {
        "reason": "nothing_to_compact",
        "detail": "every message is protected or required",
        "tokens": 772,
        "budget": 800,
        "threshold_tokens": 368,
        "message_count": 1,
        "module": "context-test",
        "timestamp": events[0][1]["timestamp"],
    }


async def test_what_cannot_fit_is_an_error(context: Context, events: Events) -> None:
    """The error says how much the parts take that must be sent, what the budget is, and what to do."""
    await fill(context, 4)
    await context.add_message({"role": "user", "content": "w" * 8000})
    with pytest.raises(ContextLengthError) as raised:
        await context.get_messages_for_request(token_budget=1000, provider=_named("scripted"))
    said = re.sub(r"\d+", "N", str(raised.value))
    assert said == (
        "The request cannot fit into N tokens: the instructions take about N, the last user message N. Shorten the "
        "prompt or the instructions, lower max_tool_result_bytes, or choose a model with a larger context window"
    )
    assert raised.value.provider == "scripted"
    assert raised.value.retryable is False
    assert names(events) == [PRE, SKIPPED]
    assert events[-1][1]["reason"] == "required_messages_exceed_budget"
    assert len(await context.get_messages()) == 6


async def test_after_an_error_the_session_goes_on(context: Context) -> None:
    """A prompt that was too long does not stand in the way of the next one."""
    await context.add_message({"role": "user", "content": "w" * 8000})
    with pytest.raises(ContextLengthError):
        await context.get_messages_for_request(token_budget=1000)
    await context.add_message({"role": "user", "content": "shorter"})
    view = await context.get_messages_for_request(token_budget=1000)
    assert view[-1]["content"] == "shorter"


async def test_instructions_alone_may_be_too_long(context: Context, events: Events) -> None:
    """Also an empty session says what is wrong."""
    await context.add_message({"role": "system", "content": "i" * 9000})
    with pytest.raises(ContextLengthError, match="the instructions take about 2"):
        await context.get_messages_for_request(token_budget=1000)
    assert names(events) == [SKIPPED]


@pytest.mark.parametrize("change", ["clear", "set_messages"])
async def test_a_new_history_starts_anew(change: str, context: Context, events: Events) -> None:
    """After clear or set_messages nothing of the old views is left."""
    await fill(context)
    await context.get_messages_for_request(token_budget=6000)
    events.clear()
    history = [{"role": "user", "content": f"{number}" + "z" * 400} for number in range(60)]
    await (context.clear() if change == "clear" else context.set_messages(history))
    view = await context.get_messages_for_request(token_budget=6000)
    assert all("x" * 40 not in message["content"] for message in view)
    assert names(events) == ([] if change == "clear" else [PRE, DONE, POST])


def _named(name: str) -> Any:
    class Provider:
        pass

    provider = Provider()
    provider.name = name  # type: ignore[attr-defined]
    return provider
