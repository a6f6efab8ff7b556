"""Real sessions whose model streams a script, and the stream that they are shown on."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, ToolCall, ToolResult, Usage
from amplifier_core.testing import MockContextManager
from amplifier_kit.loop import Asker, LoopMemory, LoopSettings, Turn
from amplifier_kit.stream import StreamEmitter

Reply = dict[str, Any]
MakeSession = Callable[..., AmplifierSession]


class Written(io.StringIO):
    """A stream that remembers what each write brought."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self.writes: list[str] = []
        self._is_terminal = is_terminal

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def lines(self) -> list[str]:
        """Return the lines so far."""
        return self.getvalue().splitlines()


class ReportingAsker(Asker):
    reports_plain_blocks = True


class ScriptedTurn(Turn):
    name: ClassVar[str] = "loop-script"
    asker_type: ClassVar[type[Asker]] = ReportingAsker


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
    """Play replies `{thinking, text, calls: [(name, input)], streams}` one after the other, word by word."""

    name = "script"

    def __init__(self, coordinator: Any, replies: Sequence[Reply]) -> None:
        self._coordinator = coordinator
        self._replies: Iterator[Reply] = iter(replies)
        self._ids = count(1)

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        reply = next(self._replies)
        emitter = StreamEmitter(self._coordinator.hooks, enabled=reply.get("streams", True))
        content: list[dict[str, Any]] = []
        for kind, key in (("thinking", "thinking"), ("text", "text")):
            text = reply.get(kind, "")
            if text:
                await emitter.block_start(len(content), kind)  # type: ignore[arg-type]
                for word in text.split(" "):
                    await emitter.block_delta(len(content), f"{word} ")
                    await asyncio.sleep(0)
                await emitter.block_end(len(content))
                content.append({"type": kind, key: text})
        calls = [
            ToolCall(id=f"call-{next(self._ids)}", name=name, arguments=given) for name, given in reply.get("calls", [])
        ]
        content += [{"type": "tool_call", "id": call.id, "name": call.name, "input": call.arguments} for call in calls]
        usage = Usage(input_tokens=1200, output_tokens=34, total_tokens=1234)
        return ChatResponse.model_validate({"content": content, "tool_calls": calls or None, "usage": usage})

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class Say:
    """Answer with what the input says the answer is."""

    name = "say"
    description = "Say something."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        if "crash" in input:
            raise RuntimeError(input["crash"])
        if "fail" in input:
            return ToolResult(success=False, error={"message": input["fail"]})
        return ToolResult(output=input.get("output"))


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch) -> MakeSession:
    """Give `make_session(replies, hooks, stream=None, **options)`: a session with the tool `say`, shown on `stream`."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    async def mount_loop(coordinator: Any, config: Any) -> None:
        await coordinator.mount("orchestrator", ScriptedLoop())

    async def mount_context(coordinator: Any, config: Any) -> None:
        await coordinator.mount("context", Context())

    async def mount_provider(coordinator: Any, config: Any) -> None:
        await coordinator.mount("providers", ScriptedProvider(coordinator, config["replies"]), name="script")

    async def mount_tool(coordinator: Any, config: Any) -> None:
        await coordinator.mount("tools", Say(), name="say")

    module("loop-script", mount_loop)
    module("context-script", mount_context)
    module("provider-script", mount_provider)
    module("tool-say", mount_tool)

    def make(
        replies: Sequence[Reply], hooks: list[dict[str, Any]], stream: Any = None, **options: Any
    ) -> AmplifierSession:
        plan = {
            "session": {"orchestrator": "loop-script", "context": "context-script"},
            "providers": [{"module": "provider-script", "config": {"replies": list(replies)}}],
            "tools": [{"module": "tool-say"}],
            "hooks": hooks,
        }
        made = AmplifierSession(plan, **options)
        made.coordinator.register_policy("test", lambda action, details: "allow")
        if stream is not None:
            made.coordinator.register_capability("ui.stream", stream)
        return made

    return make


@pytest.fixture
def make_stream(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Written]:
    """Give `make_stream(is_terminal=False)`, in an environment that says nothing about colours."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Written
