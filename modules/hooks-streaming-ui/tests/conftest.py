"""Real sessions whose model streams a script, and the stream that they are shown on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ToolCall, ToolResult, Usage
from amplifier_kit.engine.loop.model_call import ModelCaller
from amplifier_kit.engine.loop.turn import Turn, TurnLoop
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_testing.loop.fakes import PlainTool

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


class ReportingModelCaller(ModelCaller):
    reports_plain_blocks = True


class ReportingTurn(Turn):
    name: ClassVar[str] = "loop-reporting"
    model_caller_type: ClassVar[type[ModelCaller]] = ReportingModelCaller


class ReportingLoop(TurnLoop):
    turn_type: ClassVar[type[Turn]] = ReportingTurn


async def play(reply: Reply, ids: Iterator[int], coordinator: Any) -> ChatResponse:
    """Stream a reply `{thinking, text, calls: [(name, input)], streams}` word by word."""
    emitter = StreamEmitter(coordinator.hooks, enabled=reply.get("streams", True))
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
    calls = [ToolCall(id=f"call-{next(ids)}", name=name, arguments=given) for name, given in reply.get("calls", [])]
    content += [{"type": "tool_call", "id": call.id, "name": call.name, "input": call.arguments} for call in calls]
    usage = Usage(input_tokens=1200, output_tokens=34, total_tokens=1234)
    return ChatResponse.model_validate({"content": content, "tool_calls": calls or None, "usage": usage})


def say(input: dict[str, Any]) -> ToolResult:
    """Answer with what the input says the answer is."""
    if "crash" in input:
        raise RuntimeError(input["crash"])
    if "fail" in input:
        return ToolResult(success=False, error={"message": input["fail"]})
    return ToolResult(output=input.get("output"))


@pytest.fixture
def make_session(scripted_session: MakeSession) -> MakeSession:
    """Give `make_session(replies, hooks, stream=None, **options)`: a session with the tool `say`, shown on `stream`."""

    def make(
        replies: Sequence[Reply], hooks: list[dict[str, Any]], stream: Any = None, **options: Any
    ) -> AmplifierSession:
        made: AmplifierSession
        ids = count(1)
        answers = [lambda _, reply=reply: play(reply, ids, made.coordinator) for reply in replies]
        made = scripted_session(*answers, hooks=hooks, mounted=[PlainTool("say", say)], loop=ReportingLoop, **options)
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
