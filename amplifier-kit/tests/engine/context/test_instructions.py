"""The system part is assembled for every request, and never left out."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig

HOOK = {"role": "system", "content": "from a hook", "metadata": {"source": "hook"}}
STORED = {"role": "system", "content": "stored"}


@pytest.fixture
def context(coordinator: MockCoordinator) -> BaseContext:
    """A context with a stored system message, one a hook injected, and a prompt."""
    return BaseContext(ContextConfig(), coordinator)


async def fill(context: BaseContext) -> None:
    for message in (STORED, {"role": "user", "content": "hello"}, HOOK):
        await context.add_message(message)


async def system_texts(context: BaseContext) -> list[str]:
    view = await context.get_messages_for_request()
    return [message["content"] for message in view if message["role"] == "system"]


async def test_stored_system_messages_are_sent(context: BaseContext) -> None:
    """Without a factory every system message is sent."""
    await fill(context)
    assert await system_texts(context) == ["stored", "from a hook"]


async def test_a_factory_replaces_stored_system_messages(context: BaseContext) -> None:
    """Its text is the first message; of the stored ones only those of hooks are sent, and all stay in the ledger."""
    await fill(context)

    async def factory() -> str:
        return "derived"

    await context.set_system_prompt_factory(factory)  # published callers await it, others do not
    view = await context.get_messages_for_request()
    assert view[0] == {"role": "system", "content": "derived"}
    assert await system_texts(context) == ["derived", "from a hook"]
    assert [message["content"] for message in await context.get_messages()] == ["stored", "hello", "from a hook"]


async def test_the_factory_is_asked_every_time(context: BaseContext) -> None:
    """What changed since the last request is in the next one; None goes back to what is stored."""
    texts = iter(["one", "two", ""])

    async def factory() -> str:
        return next(texts)

    context.set_system_prompt_factory(factory)
    assert await system_texts(context) == ["one"]
    assert await system_texts(context) == ["two"]
    assert await system_texts(context) == []
    context.set_system_prompt_factory(None)
    await fill(context)
    assert await system_texts(context) == ["stored", "from a hook"]


async def test_a_factory_need_not_be_a_coroutine_function(context: BaseContext) -> None:
    """One that blocks runs in a thread, with the caller's contextvars; one that gives an awaitable is awaited."""
    who: ContextVar[str] = ContextVar("who")
    who.set("the caller")

    def blocking() -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"for {who.get()}"

    async def waiting() -> str:
        return "awaited"

    context.set_system_prompt_factory(blocking)  # type: ignore[arg-type]
    assert await system_texts(context) == ["for the caller"]
    context.set_system_prompt_factory(lambda: waiting())
    assert await system_texts(context) == ["awaited"]
    context.close()


async def test_a_failing_factory_fails_the_request(context: BaseContext) -> None:
    """A request without its instructions is never built: what the factory raises is raised."""

    async def factory() -> str:
        raise FileNotFoundError("AGENTS.md")

    context.set_system_prompt_factory(factory)
    with pytest.raises(FileNotFoundError, match=r"AGENTS\.md"):
        await context.get_messages_for_request()


async def test_a_slow_factory_is_not_waited_for(coordinator: MockCoordinator) -> None:
    """After the deadline the request fails with words that say what to do, for coroutines and for threads."""
    context = BaseContext(ContextConfig(instruction_callback_timeout_s=0.05), coordinator)

    async def slow() -> str:
        await asyncio.sleep(60)
        return "late"

    release = threading.Event()
    for factory in (slow, lambda: release.wait(60)):
        context.set_system_prompt_factory(factory)  # type: ignore[arg-type]
        with pytest.raises(TimeoutError, match=r"did not answer within 0.05 s.*raise instruction_callback_timeout_s"):
            await context.get_messages_for_request()
    release.set()
    context.close()


async def test_a_timeout_of_the_factorys_own_is_its_own(context: BaseContext) -> None:
    """A TimeoutError that the factory raises is not taken for the deadline."""

    async def factory() -> str:
        raise TimeoutError("the database")

    context.set_system_prompt_factory(factory)
    with pytest.raises(TimeoutError, match=r"^the database$"):
        await context.get_messages_for_request()


async def test_a_factory_gives_text(context: BaseContext) -> None:
    """Anything but a text is refused; None is no text at all."""

    async def nothing() -> Any:
        return None

    async def number() -> Any:
        return 7

    context.set_system_prompt_factory(nothing)
    assert await system_texts(context) == []
    context.set_system_prompt_factory(number)
    with pytest.raises(TypeError, match="The system prompt factory must return a text, got int"):
        await context.get_messages_for_request()


async def test_filters_change_the_instructions(coordinator: MockCoordinator) -> None:
    """Capabilities named in the config see the text in order, sync or async."""

    async def loud(text: str) -> str:
        return text.upper()

    coordinator.register_capability("test.loud", loud)
    coordinator.register_capability("test.twice", lambda text: f"{text} {text}")
    context = BaseContext(ContextConfig(instruction_filters=("test.loud", "test.twice")), coordinator)

    async def factory() -> str:
        return "be kind"

    context.set_system_prompt_factory(factory)
    assert await system_texts(context) == ["BE KIND BE KIND"]
    context.close()


async def test_a_missing_filter_fails_the_request(coordinator: MockCoordinator) -> None:
    """Instructions that should have been filtered are not sent unfiltered."""
    context = BaseContext(ContextConfig(instruction_filters=("policy.strip",)), coordinator)

    async def factory() -> str:
        return "secret"

    context.set_system_prompt_factory(factory)
    with pytest.raises(LookupError, match=r"'policy.strip' is offered by no module"):
        await context.get_messages_for_request()


async def test_fragments_are_folded_in_by_key(coordinator: MockCoordinator, context: BaseContext) -> None:
    """Fragments stand behind the instructions in the order of their keys, text as it is and the rest as JSON."""
    fragments = coordinator._fragments
    fragments.set("rules", "Answer in English.")
    fragments.set("date", {"year": 2026, "day": 1})
    fragments.set('odd "key"', "é")
    folded = (
        '<context-fragment key="date">\n{"day": 1, "year": 2026}\n</context-fragment>\n\n'
        '<context-fragment key="odd &quot;key&quot;">\né\n</context-fragment>\n\n'
        '<context-fragment key="rules">\nAnswer in English.\n</context-fragment>'
    )
    assert await system_texts(context) == [folded]

    async def factory() -> str:
        return "derived"

    context.set_system_prompt_factory(factory)
    assert await system_texts(context) == [f"derived\n\n{folded}"]
    fragments.set("rules", None)
    fragments.set("date", None)
    fragments.set('odd "key"', None)
    assert await system_texts(context) == ["derived"]
    await asyncio.gather(*(give() for give in fragments.announcements()))


async def test_the_system_part_can_be_looked_at(context: BaseContext) -> None:
    """instruction_assembly gives what a request would carry now, as one text."""
    await fill(context)
    assert await context.instruction_assembly() == "stored"

    async def factory() -> str:
        return "derived"

    context.set_system_prompt_factory(factory)
    assert await context.instruction_assembly() == "derived"
