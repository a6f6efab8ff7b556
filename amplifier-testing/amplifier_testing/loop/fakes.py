"""Stand-ins around a loop under test: a scripted model, plain tools, a context that is a list, and a log of events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, ToolCallBlock, Usage
from amplifier_core.models import HookResult, ModelInfo, ProviderInfo, ToolResult
from amplifier_core.testing import MockCoordinator
from amplifier_kit.awaitable import maybe_await

__all__ = ["ListContext", "LoopRig", "PlainTool", "ScriptedProvider", "call", "say"]

Answer = ChatResponse | BaseException | Callable[[ChatRequest], Any]


def say(text: str, **fields: Any) -> ChatResponse:
    """Return an answer that is text."""
    return ChatResponse(content=[TextBlock(text=text)], **fields)


def call(*calls: tuple[str, str, dict[str, Any]], text: str = "") -> ChatResponse:
    """Return an answer that calls tools, each given as id, name and arguments."""
    content: list[Any] = [TextBlock(text=text)] if text else []
    content += [ToolCallBlock(id=call_id, name=name, input=arguments) for call_id, name, arguments in calls]
    made = [ToolCall(id=call_id, name=name, arguments=arguments) for call_id, name, arguments in calls]
    usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
    return ChatResponse(content=content, tool_calls=made, usage=usage)


class ScriptedProvider:
    """Give the scripted answers one after the other, then the last one for ever; keep the requests.

    An exception is raised; a function is called with the request, and what it returns is awaited where it can be.
    """

    def __init__(self, *answers: Answer, name: str = "scripted", priority: int = 100) -> None:
        self.name = name
        self.priority = priority
        self.requests: list[ChatRequest] = []
        self.options: list[dict[str, Any]] = []
        self.answers = list(answers) or [say("done")]

    def get_info(self) -> ProviderInfo:
        """Describe the provider."""
        return ProviderInfo(id=self.name, display_name=self.name)

    async def list_models(self) -> list[ModelInfo]:
        """Return no models."""
        return []

    async def complete(self, request: ChatRequest, **options: Any) -> Any:
        """Give the next answer."""
        self.requests.append(request)
        self.options.append(options)
        await asyncio.sleep(0)
        answer: Any = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            answer = await maybe_await(answer(request))
        return answer

    def parse_tool_calls(self, response: Any) -> list[ToolCall]:
        """Return the calls of an answer."""
        return list(response.tool_calls or [])


class PlainTool:
    """Be a tool that calls a function; attributes such as `action`, `polling` and `deadline` are given by name."""

    def __init__(
        self, name: str, function: Callable[[dict[str, Any]], Any] | None = None, /, **attributes: Any
    ) -> None:
        self.name = name
        self.description = f"Does {name}."
        self.input_schema: dict[str, Any] = {"type": "object", "properties": {}}
        self.inputs: list[dict[str, Any]] = []
        self._function = function or (lambda _: f"{name} done")
        for key, value in attributes.items():
            setattr(self, key, value)

    async def execute(self, input: dict[str, Any]) -> Any:
        """Return what the function returns, as a result."""
        self.inputs.append(input)
        await asyncio.sleep(0)
        output = await maybe_await(self._function(input))
        return output if isinstance(output, ToolResult) else ToolResult(output=output)


class ListContext:
    """Keep messages in the list `messages`; each write takes a step of the event loop before and after."""

    def __init__(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        self.messages = list(messages)

    async def add_message(self, message: dict[str, Any]) -> None:
        """Append a message."""
        await asyncio.sleep(0)
        self.messages.append(message)
        await asyncio.sleep(0)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return everything."""
        return list(self.messages)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any = None
    ) -> list[dict[str, Any]]:
        """Return everything."""
        await asyncio.sleep(0)
        return list(self.messages)

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        """Replace everything."""
        self.messages = list(messages)

    async def clear(self) -> None:
        """Forget everything."""
        self.messages = []


class LoopRig:
    """Hold a session's parts around a loop, with a policy that allows everything by default."""

    def __init__(
        self, *answers: Answer, tools: Iterable[PlainTool] = (), policy: Any = "allow", context: Any = None
    ) -> None:
        self.coordinator: Any = MockCoordinator()
        self.provider = ScriptedProvider(*answers)
        self.providers: dict[str, Any] = {"scripted": self.provider}
        self.tools: dict[str, Any] = {tool.name: tool for tool in tools}
        self.context: Any = context if context is not None else ListContext()
        self.coordinator.mount_points["context"] = self.context
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.coordinator.hooks.register("*", self._record, priority=-1000)
        if policy is not None:
            self.coordinator.register_policy("rig", policy if callable(policy) else lambda *_: policy)

    async def mount(self, mount: Callable[..., Awaitable[Any]], config: dict[str, Any] | None = None) -> None:
        """Mount the loop."""
        await mount(self.coordinator, config if config is not None else {})

    async def run(self, prompt: str = "hello") -> Any:
        """Run a turn."""
        return await self.coordinator.get("orchestrator").execute(
            prompt=prompt,
            context=self.context,
            providers=self.providers,
            tools=self.tools,
            hooks=self.coordinator.hooks,
            coordinator=self.coordinator,
        )

    def on(self, event: str, action: str = "continue", **fields: Any) -> None:
        """Let a hook answer an event with a verdict."""
        verdict = HookResult.model_validate({"action": action, **fields})
        self.coordinator.hooks.register(event, lambda *_: verdict)

    def names(self, *wanted: str) -> list[str]:
        """Return the names of the events so far, all or only some."""
        return [event for event, _ in self.events if not wanted or event in wanted]

    def data(self, event: str) -> list[dict[str, Any]]:
        """Return what the events of one name said."""
        return [data for name, data in self.events if name == event]

    def results(self) -> list[Any]:
        """Return the contents of the tool results in the context, in order."""
        return [message["content"] for message in self.context.messages if message["role"] == "tool"]

    async def _record(self, event: str, data: dict[str, Any]) -> None:
        self.events.append((event, data))
        await asyncio.sleep(0)
