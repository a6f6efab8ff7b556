"""Real sessions whose model follows a script: the loop engine of the kit, a context, a provider and any tools."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock, ToolResult
from amplifier_core.testing import MockContextManager
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn

Calls = list[tuple[str, dict[str, Any]]]
MakeSession = Callable[..., AmplifierSession]


class ScriptedTurn(Turn):
    name: ClassVar[str] = "loop-script"


class ScriptedLoop:
    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> str:
        session = {"context": context, "providers": providers, "tools": tools, "hooks": hooks}
        return await ScriptedTurn(LoopSettings(), LoopMemory(), coordinator=coordinator, **session).run(prompt)


class Context(MockContextManager):
    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages[:] = messages


class ScriptedProvider:
    """Play the replies one after the other, a text or a list of tool calls each, and keep what was asked."""

    name = "script"

    def __init__(self, replies: Sequence[str | Calls]) -> None:
        self._replies: Iterator[str | Calls] = iter(replies)
        self._ids = count(1)
        self.requests: list[list[dict[str, Any]]] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.requests.append([message.model_dump(exclude_none=True) for message in request.messages])
        reply = next(self._replies)
        if isinstance(reply, str):
            return ChatResponse(content=[TextBlock(text=reply)])
        calls = [ToolCall(id=f"call-{next(self._ids)}", name=name, arguments=given) for name, given in reply]
        blocks = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        return ChatResponse(content=blocks, tool_calls=calls)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class Todo:
    """The todo tool as far as this module meets it: it keeps its list on the coordinator."""

    name = "todo"
    description = "Keep a todo list."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if "todos" not in input:
            return ToolResult(success=False, error={"message": "'todos' is missing"})
        self._coordinator.todo_state = input["todos"]
        return ToolResult(output={"status": "created", "count": len(input["todos"])})


class Look:
    name = "look"
    description = "Look at something."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(output="seen")


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch) -> MakeSession:
    """Give `make_session(replies, hooks, has_todo=True, **session)`: a session with `look`, and `todo` if wanted."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(
        replies: Sequence[str | Calls], hooks: list[dict[str, Any]], *, has_todo: bool = True, **session: Any
    ) -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            await coordinator.mount("providers", ScriptedProvider(replies), name="script")

        async def mount_tools(coordinator: Any, config: Any) -> None:
            await coordinator.mount("tools", Look(), name="look")
            if has_todo:
                await coordinator.mount("tools", Todo(coordinator), name="todo")

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("provider-script", mount_provider)
        module("tool-script", mount_tools)
        plan = {
            "session": {"orchestrator": "loop-script", "context": "context-script", **session},
            "providers": [{"module": "provider-script"}],
            "tools": [{"module": "tool-script"}],
            "hooks": hooks,
        }
        made = AmplifierSession(plan)
        made.coordinator.register_policy("test", lambda action, details: "allow")
        return made

    return make


def requests_of(session: AmplifierSession) -> list[list[dict[str, Any]]]:
    """Return the messages of every request that the model of a session got."""
    requests: list[list[dict[str, Any]]] = session.coordinator.get("providers")["script"].requests
    return requests


@pytest.fixture(name="requests_of")
def _requests_of() -> Callable[[AmplifierSession], list[list[dict[str, Any]]]]:
    """Give `requests_of(session)`."""
    return requests_of
