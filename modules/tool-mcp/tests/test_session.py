"""In a real session the rules come first, tools come while a turn runs, and the model reads what servers answer."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.testing import MockContextManager, MockTool, wait_for
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn
from amplifier_module_tool_mcp import _requirement

Odd = Callable[..., dict[str, Any]]
MakeLive = Callable[..., AmplifierSession]


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
    """Make the calls one after the other, then say that it is done; `before` is awaited at the first request."""

    name = "script"

    def __init__(self, calls: Sequence[str], before: Callable[[], Any] | None) -> None:
        self._calls = iter(calls)
        self._before = before
        self.requests: list[Any] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.requests.append(request)
        if self._before is not None and len(self.requests) == 1:
            await self._before()
        name = next(self._calls, None)
        if name is None:
            return ChatResponse(content=[TextBlock(text="done")])
        call = ToolCall(id=f"call-{len(self.requests)}", name=name, arguments={"word": "hello"})
        return ChatResponse(content=[ToolCallBlock(id=call.id, name=name, input=call.arguments)], tool_calls=[call])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


@pytest.fixture
def make_live(monkeypatch: pytest.MonkeyPatch, project: Path, home: Path) -> MakeLive:
    """Give `make_live(servers, *calls, verdict="allow", before=None, ...)`: a session whose model makes these calls."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(
        servers: dict[str, Any],
        *calls: str,
        verdict: str = "allow",
        before: Callable[[], Any] | None = None,
        hook_timeout: float | None = None,
    ) -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            await coordinator.mount("providers", ScriptedProvider(calls, before), name="script")
            await coordinator.mount("tools", MockTool("other"), name="other")

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("provider-script", mount_provider)
        made = AmplifierSession(
            {
                "session": {
                    "orchestrator": "loop-script",
                    "context": "context-script",
                    **({} if hook_timeout is None else {"hook_timeout": hook_timeout}),
                },
                "providers": [{"module": "provider-script"}],
                "tools": [{"module": "tool-mcp", "config": {"servers": servers}}],
            }
        )
        made.coordinator.register_capability("session.working_dir", str(project))
        made.coordinator.register_capability("amplifier.home", home)
        made.coordinator.register_policy("test", lambda action, details: verdict if action == "mcp.call" else "deny")
        return made

    return make


def _requests(session: AmplifierSession) -> list[Any]:
    requests: list[Any] = session.coordinator.get("providers")["script"].requests
    return requests


def _connection(session: AmplifierSession) -> Any:
    return session.coordinator.get_capability("mcp.servers").connections["odd"]


async def test_tools_come_while_a_turn_runs(make_live: MakeLive, odd: Odd, project: Path) -> None:
    """The first request goes out without the tools of a server that is slow; the second of the same turn has them."""
    session: AmplifierSession

    async def connect() -> None:
        (project / "gate").touch()
        await _connection(session).ready()

    session = make_live({"odd": odd("slow", "gate")}, "mcp_odd_echo", before=connect)
    async with session:
        assert await session.execute("go") == "done"
        first, second = _requests(session)
        assert [tool.name for tool in first.tools] == ["other"]
        assert "mcp_odd_echo" in [tool.name for tool in second.tools]
        assert '\\"word\\": \\"hello\\"' in str(second.messages[-2].content) + str(second.messages[-1].content)


async def test_rules_come_first(make_live: MakeLive, odd: Odd) -> None:
    """A call is judged as `mcp.call` with the tool's name, and one that is denied never reaches the server."""
    session = make_live({"odd": odd(required=True)}, "mcp_odd_crash", verdict="deny")
    async with session:
        await session.execute("go")
        assert "Denied" in str([message.content for message in _requests(session)[-1].messages])
        assert _connection(session).state == "ready"


async def _said(session: Any) -> str:
    """Return what a turn says, be it an answer or an error."""
    try:
        return str(await session.execute("go"))
    except Exception as error:
        return str(error)


async def test_a_required_server_ends_the_turn(make_live: MakeLive, odd: Odd) -> None:
    """Without a server that is required no request goes out."""
    session = make_live({"odd": odd("exit", "no", required=True, connect_timeout=0.3)})
    async with session:
        said = await _said(session)
        assert _requests(session) == []
        assert "required" in said


@pytest.fixture
def pass_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """Give `pass_seconds(count)`: let so many pass by the clock of the event loop, with all that is due in each.

    A handler keeps 75 of its 80 seconds in reserve, for machines that stand still for some seconds.
    """
    monkeypatch.setattr(_requirement, "_RESERVE_SHARE", 0.95)
    monkeypatch.setattr(_requirement, "_RESERVE_MOST", 75.0)
    passed: list[int] = []

    async def wait(count: int) -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: time.monotonic() + len(passed))
        for _ in range(count):
            passed.append(1)
            await asyncio.sleep(0.001)

    return wait


async def test_a_server_that_has_longer_than_a_handler(
    make_live: MakeLive, odd: Odd, project: Path, pass_seconds: Callable[[int], Any]
) -> None:
    """Where the session's deadline for handlers is shorter than a server's own, it is waited for all the same."""
    session = make_live({"odd": odd("slow", "gate", required=True, connect_timeout=600)}, hook_timeout=80)
    async with session:
        running = asyncio.create_task(session.execute("go"))
        await pass_seconds(90)
        assert not running.done()
        requests = _requests(session)
        assert requests == []
        (project / "gate").touch()
        assert await running == "done"
        assert "mcp_odd_echo" in [tool.name for tool in requests[0].tools]


async def test_a_deadline_for_handlers_lets_nothing_out(
    make_live: MakeLive, odd: Odd, pass_seconds: Callable[[int], Any]
) -> None:
    """A server that never comes is the reason that no request goes out, also when handlers have less time than it."""
    session = make_live({"odd": odd("silent", required=True, connect_timeout=90)}, hook_timeout=80)
    async with session:
        saying = asyncio.create_task(_said(session))
        while not saying.done():
            await pass_seconds(1)
        assert _requests(session) == []
        assert "an MCP server that is required is not there: odd: it is not connected after 90 s" in await saying


async def test_a_short_session_leaves_nothing(
    make_live: MakeLive, odd: Odd, token: str, alive: Callable[[str], list[int]]
) -> None:
    """A session that ends while its servers start leaves no process and no task."""
    before = asyncio.all_tasks()
    async with make_live({"odd": odd("stays", token), "other": odd("silent", token)}) as session:
        assert await session.execute("go") == "done"
    assert alive(token) == []
    assert await wait_for(lambda: asyncio.all_tasks() == before, timeout=60)
