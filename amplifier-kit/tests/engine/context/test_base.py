"""A context manager keeps what it is given and offers what it promises."""

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.compaction import COMPACT_SKIPPED
from amplifier_kit.engine.context.token_budget import ContextConfig


class Context(BaseContext):
    """A context manager as a module makes one."""

    name = "context-test"


@pytest.fixture
def context(coordinator: MockCoordinator) -> Context:
    """An empty context on a real coordinator."""
    return Context(ContextConfig(), coordinator)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def test_messages_are_kept_in_order_and_stamped(context: Context) -> None:
    """What goes in comes out, with the time it came in."""
    for text in ("one", "two"):
        await context.add_message(user(text))
    messages = await context.get_messages()
    assert [message["content"] for message in messages] == ["one", "two"]
    assert all(message["metadata"]["timestamp"].endswith("+00:00") for message in messages)
    assert await context.get_messages_for_request() == messages
    assert context.messages == messages
    assert context.message_count == 2


async def test_nothing_given_out_is_the_ledger(context: Context) -> None:
    """Changing what was returned, or what was handed in, changes nothing inside."""
    message = user("one")
    await context.add_message(message)
    message["content"] = "changed"
    for given in (await context.get_messages(), await context.get_messages_for_request(), context.messages):
        given[0]["content"] = "changed"
        given.clear()
    assert [message["content"] for message in await context.get_messages()] == ["one"]


async def test_set_messages_replaces(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    """A history is taken as it is, unstamped; what is no message is left out with a warning, so that resume works."""
    await context.add_message(user("old"))
    history = [user("one"), {"content": "no role"}, {"role": "assistant", "content": "two"}]
    await context.set_messages(history)
    assert await context.get_messages() == [history[0], history[2]]
    assert "Message 2 of the history is left out" in caplog.text


async def test_clear_forgets(context: Context) -> None:
    """After clear nothing is left of what was said; the factory stays."""

    async def factory() -> str:
        return "instructions"

    context.set_system_prompt_factory(factory)
    await context.add_message(user("one"))
    await context.clear()
    assert await context.get_messages() == []
    assert await context.get_messages_for_request() == [{"role": "system", "content": "instructions"}]


async def test_only_what_is_new_can_be_asked_for(context: Context) -> None:
    """A store that appends needs the messages since its last look, not all of them."""
    for number in range(5):
        await context.add_message(user(str(number)))
    assert [message["content"] for message in context.messages_since(3)] == ["3", "4"]
    assert context.messages_since(9) == []


async def test_compaction_needs_no_call(context: Context) -> None:
    """The calls of old orchestrators are there, say no and do nothing."""
    await context.add_message(user("one"))
    assert await context.should_compact() is False
    await context.compact()
    assert len(await context.get_messages()) == 1


async def test_tool_results_are_clipped_on_entry(coordinator: MockCoordinator) -> None:
    """A result beyond the limit is cut for good, with its original size in the text."""
    context = Context(ContextConfig(max_tool_result_bytes=1000), coordinator)
    result = {"role": "tool", "tool_call_id": "1", "content": "é" * 5000}
    await context.add_message(result)
    await context.set_messages([*await context.get_messages(), result])
    for message in await context.get_messages():
        assert len(message["content"].encode()) <= 1000
        assert "the whole result has 10000 bytes" in message["content"]


async def test_without_a_coordinator_there_are_no_events() -> None:
    """A context works alone, with default settings."""
    context = BaseContext()
    for _ in range(50):
        await context.add_message(user("x" * 400))
    assert len(await context.get_messages_for_request(token_budget=2000)) < 50


async def test_attached_it_offers_its_capabilities(coordinator: MockCoordinator, context: Context) -> None:
    """The event of our own is announced, the meter listens, and the capabilities tell of the latest request."""
    detach = context.attach()
    assert await coordinator.collect_contributions("observability.events") == [[COMPACT_SKIPPED]]
    assert coordinator.hooks.list_handlers("llm:response") == {"llm:response": ["context-test-meter"]}
    retention = coordinator.get_capability("context.request_retention")
    usage = coordinator.get_capability("context.foreground_usage")
    assembly = coordinator.get_capability("context.instruction_assembly")
    assert (retention(), usage(), await assembly()) == (None, None, "")
    assert coordinator.get_capability("context.measured_request_view") is None

    await context.add_message(user("x" * 400))
    await context.get_messages_for_request(token_budget=9000)
    assert retention() == {
        "ledger_messages": 1,
        "request_messages": 1,
        "system_messages": 0,
        "messages_removed": 0,
        "messages_truncated": 0,
        "user_messages_stubbed": 0,
        "strategy_level": 0,
        "request_tokens": 122,
        "budget": 9000,
    }
    await coordinator.hooks.emit("llm:response", {"usage": {"input_tokens": 150, "cache_write_tokens": 10}})
    assert usage()["measured_tokens"] == 160
    detach()
    assert coordinator.hooks.list_handlers("llm:response") == {"llm:response": []}


async def test_the_actual_meter_corrects_the_budget(coordinator: MockCoordinator) -> None:
    """When requests take twice what was estimated, compaction starts at half the estimate."""
    provider = SimpleNamespace(name="p", get_model_info=lambda: {"context_window": 20_000, "max_output_tokens": 0})
    views = {}
    for mode in ("estimate", "actual"):
        context = Context(ContextConfig(token_meter=mode), MockCoordinator())
        context.attach()
        for _ in range(90):
            await context.add_message({"role": "assistant", "content": "x" * 400})
        await context.get_messages_for_request(provider=provider)
        estimated = context.request_retention()["request_tokens"]  # type: ignore[index]
        hooks = context._coordinator.hooks
        await hooks.emit("llm:response", {"usage": {"input_tokens": estimated * 2}})
        views[mode] = await context.get_messages_for_request(provider=provider)
    assert len(views["estimate"]) == 90
    assert len(views["actual"]) < 90


async def test_the_measured_view_is_offered_in_actual_mode(coordinator: MockCoordinator) -> None:
    """It holds the messages of the latest answered request and what they took."""
    context = Context(ContextConfig(token_meter="actual"), coordinator)
    context.attach()
    await context.add_message(user("x" * 400))
    view = await context.get_messages_for_request()
    measured = coordinator.get_capability("context.measured_request_view")
    assert measured() is None
    await coordinator.hooks.emit("llm:response", {"usage": {"input_tokens": 100}})
    assert measured()["messages"] == view
    assert measured()["measured_tokens"] == 100
