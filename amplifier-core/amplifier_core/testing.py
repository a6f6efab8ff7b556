"""Stand-ins for the parts of a session, for tests of modules and apps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.message_models import ChatResponse, TextBlock
from amplifier_core.models import HookResult, ProviderInfo, ToolResult

__all__ = [
    "EventRecorder",
    "MockContextManager",
    "MockCoordinator",
    "MockTool",
    "ScriptedOrchestrator",
    "create_test_coordinator",
    "wait_for",
]

_POLL_SECONDS = 0.01


class MockCoordinator(ModuleCoordinator):
    """A real coordinator without a session, which records mounts and unmounts."""

    mount_history: list[dict[str, Any]]
    unmount_history: list[dict[str, Any]]

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Set everything up; arguments are for subclasses."""
        display = AsyncMock()
        display.show_message = Mock()  # displays are called without being awaited
        self: MockCoordinator = super().__new__(
            cls,
            session=SimpleNamespace(
                session_id="test-session",
                parent_id=None,
                config={"session": {"orchestrator": "test-orchestrator", "context": "test-context"}},
            ),
            approval_system=AsyncMock(),
            display_system=display,
        )
        self.mount_history = []
        self.unmount_history = []
        return self

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Remember the call, then mount for real."""
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return super().mount(mount_point, module, name)

    def unmount(self, mount_point: str, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Remember the call, then unmount for real."""
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return super().unmount(mount_point, name)


class MockTool:
    """Be a tool that always succeeds with the same output; `execute` is an AsyncMock."""

    def __init__(self, name: str = "mock_tool", output: Any = "Success") -> None:
        self.name = name
        self.description = f"Mock tool: {name}"
        self.input_schema: dict[str, Any] = {"type": "object", "properties": {}}
        self.output = output
        self.call_count = 0
        self.execute = AsyncMock(side_effect=self._execute)

    async def _execute(self, input: dict[str, Any]) -> ToolResult:
        self.call_count += 1
        return ToolResult(success=True, output=self.output)


class MockContextManager:
    """Keep messages in the list `messages`; the methods are AsyncMocks, and nothing is ever compacted."""

    def __init__(self, messages: list[dict[str, Any]] | None = None) -> None:
        self.messages = messages if messages is not None else []
        self.add_message = AsyncMock(side_effect=self._add_message)
        self.get_messages = AsyncMock(side_effect=self._get_messages)
        self.get_messages_for_request = AsyncMock(side_effect=self._get_messages_for_request)
        self.clear = AsyncMock(side_effect=self._clear)
        self._should_compact = AsyncMock(return_value=False)
        self._compact_internal = AsyncMock(return_value=None)

    async def _add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def _get_messages(self) -> list[dict[str, Any]]:
        return self.messages

    async def _get_messages_for_request(self, token_budget: int | None = None, provider: Any = None) -> list[Any]:
        return self.messages

    async def _clear(self) -> None:
        self.messages.clear()


class EventRecorder:
    """Remember events; usable as a hook registry (`emit`) and as a handler (`record`)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def record(self, event: str, data: dict[str, Any]) -> HookResult:
        """Keep a copy of the event and let it continue."""
        self.events.append((event, dict(data or {})))
        return HookResult(action="continue")

    async def emit(self, event: str, data: dict[str, Any]) -> HookResult:
        """Do the same; this is the name emitters know."""
        return await self.record(event, data)

    def clear(self) -> None:
        """Forget everything."""
        self.events.clear()

    def get_events(self, event_type: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Return all events, or those of one type."""
        return [entry for entry in self.events if event_type is None or entry[0] == event_type]


class ScriptedOrchestrator:
    """Answer with the given responses one after the other, then with `DONE`."""

    def __init__(self, responses: list[str]) -> None:
        self.responses = responses
        self.call_count = 0

    async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any) -> str:
        """Play one turn: session:start, the two messages, session:end."""
        response = self.responses[self.call_count] if self.call_count < len(self.responses) else "DONE"
        self.call_count += 1
        await hooks.emit("session:start", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit("session:end", {"response": response})
        return response


def create_test_coordinator() -> MockCoordinator:
    """Return a MockCoordinator with the tools `echo` and `fail` and a context."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.mount_points["tools"]["echo"] = MockTool("echo", output="Echo response")
    coordinator.mount_points["tools"]["fail"] = MockTool("fail", output=None)
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Wait until `condition()` holds and return True, or False when it does not within `timeout` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


class _MockProvider:
    """Answer every request with the text `Mock response`; the pytest plugin hands it to orchestrators."""

    name = "mock"

    def __init__(self) -> None:
        self.call_count = 0

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="mock", display_name="Mock Provider")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.call_count += 1
        return ChatResponse(content=[TextBlock(text="Mock response")])

    def parse_tool_calls(self, response: Any) -> list[Any]:
        return []
