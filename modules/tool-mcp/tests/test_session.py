"""In a real session the rules come first, tools come while a turn runs, and the model reads what servers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ChatResponse
from amplifier_core.testing import wait_for
from amplifier_testing.loop.fakes import PlainTool, call

Odd = Callable[..., dict[str, Any]]
MakeLive = Callable[..., AmplifierSession]


@pytest.fixture
def make_live(scripted_session: MakeLive, project: Path, home: Path) -> MakeLive:
    """Give `make_live(servers, *answers, verdict="allow", **session)`: a session with these servers and a tool."""

    def make(servers: dict[str, Any], *answers: Any, verdict: str = "allow", **session: Any) -> AmplifierSession:
        tools = [{"module": "tool-mcp", "config": {"servers": servers}}]
        made = scripted_session(*answers, "done", tools=tools, mounted=[PlainTool("other")], session=session)
        made.coordinator.register_capability("session.working_dir", str(project))
        made.coordinator.register_capability("amplifier.home", home)
        made.coordinator.register_policy("test", lambda action, details: verdict if action == "mcp.call" else "deny")
        return made

    return make


def _requests(session: AmplifierSession) -> list[Any]:
    requests: list[Any] = session.coordinator.get("providers")["scripted"].requests
    return requests


def _connection(session: AmplifierSession) -> Any:
    return session.coordinator.get_capability("mcp.servers").connections["odd"]


async def test_tools_come_while_a_turn_runs(make_live: MakeLive, odd: Odd, project: Path) -> None:
    """The first request goes out without the tools of a server that is slow; the second of the same turn has them."""
    session: AmplifierSession

    async def connect(_: Any) -> ChatResponse:
        (project / "gate").touch()
        await _connection(session).ready()
        return call(("call-1", "mcp_odd_echo", {"word": "hello"}))

    session = make_live({"odd": odd("slow", "gate")}, connect)
    async with session:
        assert await session.execute("go") == "done"
        first, second = _requests(session)
        assert [tool.name for tool in first.tools] == ["other"]
        assert "mcp_odd_echo" in [tool.name for tool in second.tools]
        assert '\\"word\\": \\"hello\\"' in str(second.messages[-2].content) + str(second.messages[-1].content)


async def test_rules_come_first(make_live: MakeLive, odd: Odd) -> None:
    """A call is judged as `mcp.call` with the tool's name, and one that is denied never reaches the server."""
    session = make_live({"odd": odd(required=True)}, [("mcp_odd_crash", {"word": "hello"})], verdict="deny")
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


async def test_a_required_server_may_take_longer_than_other_handlers(
    make_live: MakeLive, odd: Odd, project: Path
) -> None:
    """A request waits for a required server until that server's deadline, past `session.hook_timeout`."""
    session = make_live({"odd": odd("slow", "gate", required=True, connect_timeout=600)}, hook_timeout=0.05)
    async with session:
        running = asyncio.create_task(session.execute("go"))
        assert not (await asyncio.wait([running], timeout=0.5))[0]
        requests = _requests(session)
        assert requests == []
        (project / "gate").touch()
        assert await running == "done"
        assert "mcp_odd_echo" in [tool.name for tool in requests[0].tools]


async def test_no_request_without_a_required_server(make_live: MakeLive, odd: Odd) -> None:
    """A required server that never connects denies the request, however short the session's deadline for handlers."""
    session = make_live({"odd": odd("silent", required=True, connect_timeout=0.3)}, hook_timeout=0.05)
    async with session:
        said = await _said(session)
        assert _requests(session) == []
        assert "a required MCP server is not available: odd: it is not connected after 0.3 s" in said


async def test_a_short_session_leaves_nothing(
    make_live: MakeLive, odd: Odd, token: str, naps: Callable[[], list[int]]
) -> None:
    """A session that ends while its servers start leaves no process and no task."""
    before = asyncio.all_tasks()
    async with make_live({"odd": odd("stays", token), "other": odd("silent", token)}) as session:
        assert await session.execute("go") == "done"
    assert naps() == []
    assert await wait_for(lambda: asyncio.all_tasks() == before, timeout=60)
