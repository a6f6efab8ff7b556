"""Sessions with a loader of the app's own, from plain classes to the mocks that module authors use."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from amplifier_core import AmplifierSession, ModuleLoader
from amplifier_core._session_init import initialize_session

PLAN: dict[str, Any] = {
    "session": {"orchestrator": "loop-x", "context": "context-x"},
    "providers": [{"module": "provider-x"}],
    "tools": [{"module": "tool-x", "config": {"n": 1}, "source": "somewhere"}],
}


class Loop:
    """Answer everything."""

    async def execute(self, **arguments: Any) -> str:
        """Answer."""
        return "out"


class PlainLoader:
    """Nothing but load()."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def load(self, module_id: str, config: Any = None, source_hint: Any = None, coordinator: Any = None) -> Any:
        """Return a function that mounts something made up."""
        self.calls.append((module_id, config, source_hint, coordinator))

        async def mount(given: Any) -> Any:
            assert given is coordinator
            if module_id == "loop-x":
                await given.mount("orchestrator", Loop())
            elif module_id == "context-x":
                await given.mount("context", object())
            elif module_id == "provider-x":
                await given.mount("providers", SimpleNamespace(name="x"))
            elif module_id == "tool-x":
                return lambda: given.register_capability("cleaned", True)
            return None

        return mount


async def test_plain_class() -> None:
    """A class with an async load() is loader enough: nothing is checked, cleanups and turns work."""
    loader = PlainLoader()
    session = AmplifierSession(PLAN, loader)

    async with session:
        assert await session.execute("hi") == "out"

    c = session.coordinator
    assert loader.calls == [
        ("loop-x", {}, None, c),
        ("context-x", {}, None, c),
        ("provider-x", {}, None, c),
        ("tool-x", {"n": 1}, "somewhere", c),
    ]
    assert c.get_capability("cleaned") is True


async def test_plain_class_with_callbacks() -> None:
    """on_session_ready of what such a loader gives runs too, in mount order, after all mounts."""
    order: list[str] = []

    class Ready(PlainLoader):
        async def load(self, module_id: str, *arguments: Any, **keywords: Any) -> Any:
            mount = await super().load(module_id, *arguments, **keywords)
            order.append(f"load {module_id}")

            async def ready(coordinator: Any) -> None:
                order.append(f"ready {module_id}")

            mount.__on_session_ready__ = (module_id, ready)
            return mount

    await AmplifierSession(PLAN, Ready()).initialize()

    modules = ["loop-x", "context-x", "provider-x", "tool-x"]
    assert order == [f"load {module}" for module in modules] + [f"ready {module}" for module in modules]


async def test_queue_of_its_own() -> None:
    """A loader that keeps the ready queue itself is asked once and told to clear it, also when the start fails."""
    calls: list[Any] = []

    class Queueing(PlainLoader):
        failing = False

        async def load(self, module_id: str, *arguments: Any, **keywords: Any) -> Any:
            if self.failing and module_id == "context-x":
                raise LookupError("no context today")
            return await super().load(module_id, *arguments, **keywords)

        def get_on_session_ready_queue(self) -> Any:
            calls.append("get")

            async def ready(coordinator: Any) -> None:
                calls.append("ready")

            return (("m", ready),)

        def enqueue_on_session_ready(self, module_id: str, function: Any) -> None:
            calls.append(("enqueue", module_id))

        def clear_on_session_ready_queue(self) -> None:
            calls.append("clear")

    loader = Queueing()
    await AmplifierSession(PLAN, loader).initialize()
    assert calls == ["get", "ready", "clear"]

    calls.clear()
    loader.failing = True
    with pytest.raises(RuntimeError, match="no context today"):
        await AmplifierSession(PLAN, loader).initialize()
    assert calls == ["clear"]


async def test_magic_mock() -> None:
    """A MagicMock with an async load() initialises; as nothing is mounted, a turn says so."""
    loader = MagicMock()
    loader.load = AsyncMock(return_value=AsyncMock(return_value=None))
    session = AmplifierSession({"session": PLAN["session"]}, loader)

    await session.initialize()

    assert session.initialized
    loader.load.assert_any_await("loop-x", {}, source_hint=None, coordinator=session.coordinator)
    with pytest.raises(RuntimeError, match="No orchestrator module mounted"):
        await session.execute("x")
    await session.cleanup()
    loader.cleanup.assert_not_called()


async def test_mocked_cleanups_are_awaited() -> None:
    """An AsyncMock returned by a mocked mount is registered and awaited at the end, once per mount."""
    cleanup = AsyncMock()
    loader = MagicMock()
    loader.load = AsyncMock(return_value=AsyncMock(return_value=cleanup))
    loader.get_on_session_ready_queue.return_value = []
    session = AmplifierSession({"session": PLAN["session"]}, loader)

    await session.initialize()
    await session.cleanup()

    assert cleanup.await_count == 2


async def test_async_queue_is_refused() -> None:
    """An AsyncMock as a loader answers get_on_session_ready_queue() with a coroutine: the text says it must be sync."""
    loader = AsyncMock()
    loader.load = AsyncMock(return_value=AsyncMock(return_value=None))

    with pytest.raises(TypeError) as caught:
        await AmplifierSession({"session": PLAN["session"]}, loader).initialize()

    assert str(caught.value) == "get_on_session_ready_queue() of AsyncMock must be sync, it is async"


async def test_mocked_coordinator() -> None:
    """initialize_session() works on a mocked coordinator, and reports what failed on it."""
    coordinator = MagicMock()
    coordinator.hooks.emit = AsyncMock()
    coordinator.get_capability.return_value = None
    coordinator.loader.load = AsyncMock(return_value=AsyncMock(return_value=None))
    coordinator.loader.get_on_session_ready_queue.return_value = []

    await initialize_session(PLAN, coordinator, "child", "parent")

    events = [call.args for call in coordinator.hooks.emit.await_args_list]
    assert [event for event, _ in events] == ["module:load_failed", "session:fork"]
    assert events[0][1]["error"] == "Provider mount did not install a new provider instance"
    coordinator.loader.clear_on_session_ready_queue.assert_called_once_with()


async def test_smallest_coordinator() -> None:
    """A coordinator needs a loader, hooks, register_cleanup() and get(), and nothing else."""
    loader = PlainLoader()
    emitted: list[str] = []

    async def emit(event: str, data: Any) -> None:
        emitted.append(event)

    async def mount(*arguments: Any, **keywords: Any) -> None: ...

    coordinator = SimpleNamespace(
        loader=loader,
        hooks=SimpleNamespace(emit=emit),
        register_cleanup=lambda function: None,
        get=lambda *arguments: {},
        mount=mount,
    )

    await initialize_session(PLAN, coordinator, "s", None)

    assert [call[0] for call in loader.calls] == ["loop-x", "context-x", "provider-x", "tool-x"]
    assert emitted == ["module:load_failed"]  # nothing was installed by a mount() that does nothing


async def test_loader_is_made_when_there_is_none(make_plan: Any) -> None:
    """Without a loader on the coordinator, initialize_session() makes one and leaves it there."""
    session = AmplifierSession(make_plan())
    session.coordinator.loader = None

    await initialize_session(session.config, session.coordinator, "s", None)

    assert isinstance(session.coordinator.loader, ModuleLoader)
    assert session.coordinator.get("orchestrator") is not None


async def test_empty_plan_means_the_defaults() -> None:
    """initialize_session() with no session section loads loop-basic and context-simple."""
    coordinator = MagicMock()
    coordinator.loader.load = AsyncMock(return_value=AsyncMock(return_value=None))
    coordinator.loader.get_on_session_ready_queue.return_value = []

    await initialize_session({}, coordinator, "s", None)

    loaded = [call.args for call in coordinator.loader.load.await_args_list]
    assert loaded == [("loop-basic", {}), ("context-simple", {})]


async def test_session_calls_through_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session calls _session_init.initialize_session with four positional arguments: tests replace it there."""
    fake = AsyncMock()
    monkeypatch.setattr("amplifier_core._session_init.initialize_session", fake)
    session = AmplifierSession(PLAN, session_id="s", parent_id="p")

    await session.initialize()

    fake.assert_awaited_once_with(PLAN, session.coordinator, "s", "p")
    assert session.initialized


@pytest.mark.parametrize("error", [KeyError("zz"), asyncio.CancelledError("of its own")])
async def test_raising_loader(error: BaseException) -> None:
    """Whatever a loader raises for the orchestrator is fatal and chained, its own CancelledError included."""

    class Raising(PlainLoader):
        async def load(self, *arguments: Any, **keywords: Any) -> Any:
            raise error

    with pytest.raises(RuntimeError, match="Cannot initialize without orchestrator") as caught:
        await AmplifierSession(PLAN, Raising()).initialize()

    cause = caught.value.__cause__
    assert cause is error or (cause is not None and cause.__cause__ is error)
