"""The system prompt that a bundle defines is in every request of its turns, whatever context and loop it runs on."""

import sys
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.message_models import ChatRequest, Message
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.prompt.delivery import SystemPromptMissingError
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_testing.loop.fakes import ListContext, ScriptedProvider, call, say

INSTRUCTION = "You are the reviewer."

Add = Callable[[str, Any], str]


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Add:
    """Return a function that makes a module known to this process, for one part, and returns its id."""

    def known(point: str, part: Any) -> str:
        kind = {"providers": "provider"}.get(point, point)
        name = f"{kind}-x{uuid.uuid4().hex[:8]}"
        module = types.ModuleType(f"amplifier_module_{name.replace('-', '_')}")

        async def mount(coordinator: Any, config: Any = None) -> None:
            await coordinator.mount(point, part() if isinstance(part, type) else part)

        mount.__module__ = module.__name__
        module.mount = mount  # type: ignore[attr-defined]
        module.__amplifier_module_type__ = kind  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return name

    return known


class SyncSetter(ListContext):
    """Ask a factory at every request, as ours do."""

    factory: Any = None

    def set_system_prompt_factory(self, factory: Any) -> None:
        """Take the factory."""
        self.factory = factory

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> list[dict[str, Any]]:
        """Put the instructions before the conversation."""
        text = await self.factory() if self.factory is not None else ""
        return [*([{"role": "system", "content": text}] if text else []), *self.messages]


class AsyncSetter(SyncSetter):
    """Take the factory when the call is awaited, as published contexts do."""

    async def set_system_prompt_factory(self, factory: Any) -> None:  # type: ignore[override]
        """Take the factory."""
        self.factory = factory


class Caching(SyncSetter):
    """Ask the factory once, and keep the text in blocks."""

    text = ""

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> list[dict[str, Any]]:
        """Put the same instructions before the conversation each time."""
        self.text = self.text or await self.factory()
        half = len(self.text) // 2
        blocks = [{"type": "text", "text": part} for part in (self.text[:half], self.text[half:])]
        return [{"role": "developer", "content": blocks}, *self.messages]


class Swallowing(ListContext):
    """Take a factory and never ask it."""

    def set_system_prompt_factory(self, factory: Any) -> None:
        """Do nothing."""


class Dropping(ListContext):
    """Leave the system message out when the conversation gets long."""

    async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> list[dict[str, Any]]:
        """Return the last messages only."""
        return self.messages[-3:]


def runtime_of(
    tmp_path: Path,
    context: str,
    provider: str,
    *,
    loop: str = "loop-basic",
    instruction: str = INSTRUCTION,
    config: dict[str, Any] | None = None,
    **more: Any,
) -> SessionRuntime:
    """Return a session of these modules."""
    plan = {
        "session": {"orchestrator": {"module": loop}, "context": {"module": context, "config": config or {}}},
        "providers": [{"module": provider}],
        "agents": {"explorer": {"description": "Explores.", "instruction": "You explore."}},
    }
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b", instruction=instruction)
    return SessionRuntime(prepared, environ={}, **more, spawner=Spawner())


def systems(provider: ScriptedProvider) -> list[str]:
    """Return the instructions of each request."""
    found = []
    for request in provider.requests:
        parts = [message.content for message in request.messages if message.role in ("system", "developer")]
        blocks = [[part] if isinstance(part, str) else [getattr(one, "text", "") for one in part] for part in parts]
        found.append("".join(text for texts in blocks for text in texts))
    return found


@pytest.mark.parametrize("context", [SyncSetter, AsyncSetter, Caching, ListContext])
async def test_every_kind_of_context_gets_the_system_prompt(tmp_path: Path, add: Add, context: type) -> None:
    """A setter may be sync or async, and a context without one gets a system message; a resumed session too."""
    provider = ScriptedProvider(name="p")
    modules = add("context", context), add("providers", provider)
    async with runtime_of(tmp_path, *modules) as runtime:
        await runtime.execute("hello")
        await runtime.execute("and now?")
    async with runtime_of(tmp_path, *modules, saved=load_session(runtime.folder)) as again:
        await again.execute("once more")
        await again.replace_messages([])
        await again.execute("from the start")
        assert "hello" not in str(provider.requests[-1].messages)
    assert systems(provider) == [INSTRUCTION] * 4


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
async def test_a_context_that_loses_the_system_prompt_fails_the_turn(tmp_path: Path, add: Add, loop: str) -> None:
    """A request without the bundle's system prompt is never sent, and the error says what, where and what next."""
    provider = ScriptedProvider(name="p")
    module = add("context", Swallowing)
    async with runtime_of(tmp_path, module, add("providers", provider), loop=loop) as runtime:
        with pytest.raises(SystemPromptMissingError) as raised:
            await runtime.execute("hello")
    assert provider.requests == []
    assert raised.value.code == "system_prompt_missing"
    assert all(part in str(raised.value) for part in (module, "system prompt", "session.context"))


async def test_a_system_prompt_that_is_lost_on_the_way_is_an_error_at_that_request(tmp_path: Path, add: Add) -> None:
    """A context that drops its instructions when it compacts fails then, and not before."""
    provider = ScriptedProvider(name="p")
    async with runtime_of(tmp_path, add("context", Dropping), add("providers", provider)) as runtime:
        await runtime.execute("one")
        with pytest.raises(SystemPromptMissingError):
            await runtime.execute("two")
        assert len(provider.requests) == 1


async def test_a_session_without_instructions_needs_none(tmp_path: Path, add: Add) -> None:
    """A bundle that defines no system prompt runs on any context."""
    provider = ScriptedProvider(name="p")
    modules = add("context", Swallowing), add("providers", provider)
    async with runtime_of(tmp_path, *modules, instruction="") as runtime:
        assert await runtime.execute("hello") == "done"
    assert systems(provider) == [""]


async def test_requests_beside_the_conversation_have_instructions_of_their_own(tmp_path: Path, add: Add) -> None:
    """A hook that asks the model something, or a context that has it summarise, sends what it likes."""

    class Summarising(SyncSetter):
        coordinator: Any = None

        async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
            summary = [*self.messages, {"role": "user", "content": "Summarise."}]
            await provider.complete(ChatRequest(messages=[Message(**message) for message in summary]))
            return await super().get_messages_for_request(token_budget, provider)

    provider = ScriptedProvider(name="p")
    async with runtime_of(tmp_path, add("context", Summarising), add("providers", provider)) as runtime:

        async def name_it(event: str, data: dict[str, Any]) -> None:
            request = ChatRequest(messages=[Message(role="user", content="Name this session.")])
            await runtime.session.coordinator.get("providers")["p"].complete(request)

        runtime.session.coordinator.hooks.register("prompt:submit", name_it)
        assert await runtime.execute("hello") == "done"
    assert systems(provider) == ["", "", INSTRUCTION]


async def test_filters_may_rewrite_the_system_prompt(tmp_path: Path, add: Add) -> None:
    """What a configured instruction filter makes of the system prompt counts as the system prompt."""
    provider = ScriptedProvider(name="p")
    config = {"instruction_filters": ["shout"]}
    async with runtime_of(tmp_path, "context-simple", add("providers", provider), config=config) as runtime:
        runtime.session.coordinator.register_capability("shout", lambda text: text.upper())
        assert await runtime.execute("hello") == "done"
    assert systems(provider) == [INSTRUCTION.upper()]


async def test_a_child_without_its_system_prompt_fails(tmp_path: Path, add: Add) -> None:
    """An agent's instruction is in the requests of its session, or the child fails with the same error."""

    class ForRootOnly(SyncSetter):
        async def get_messages_for_request(self, token_budget: Any = None, provider: Any = None) -> Any:
            view = await super().get_messages_for_request(token_budget, provider)
            return [message for message in view if message["content"] != "You explore."]

    provider = ScriptedProvider(call(("1", "look", {})), say("done"), name="p")
    async with runtime_of(tmp_path, add("context", ForRootOnly), add("providers", provider)) as runtime:
        assert await runtime.execute("hello") == "done"
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        with pytest.raises(Exception, match="system prompt"):
            await spawn("explorer", "Go.")
