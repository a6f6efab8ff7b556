"""Servers are started when nobody needs the processor more than they do, and never later than they have to be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_tool_mcp import servers

Session = Any
Odd = Callable[..., dict[str, Any]]


async def test_a_turn_goes_first(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a turn makes its first request ready no server is started; once the model is asked, they are."""
    monkeypatch.setattr(servers, "_HEAD_START", 0.01)
    monkeypatch.setattr(servers, "_LONGEST_HEAD_START", 1000.0)
    await session.open({"odd": odd(), "other": odd()})
    await session.coordinator.hooks.emit("prompt:submit", {"prompt": "Hello."})
    await asyncio.sleep(0.3)
    assert {session.connection(name).state for name in ("odd", "other")} == {"new"}
    await session.coordinator.hooks.emit("provider:request", {"provider": "x"})
    await session.told("connected", 2)
    assert session.connection().state == "ready"


async def test_without_a_turn(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that waits for its first prompt has its servers meanwhile."""
    monkeypatch.setattr(servers, "_HEAD_START", 0.1)
    monkeypatch.setattr(servers, "_LISTENER_WAIT", 0.1)
    await session.open({"odd": odd()})
    assert (await session.told("connected"))["server"] == "odd"


async def test_requests_do_not_put_it_off_for_ever(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns and requests that follow each other quickly keep servers waiting for a while, not for good."""
    monkeypatch.setattr(servers, "_HEAD_START", 100.0)
    monkeypatch.setattr(servers, "_LONGEST_HEAD_START", 0.1)
    await session.open({"odd": odd()})
    for event in ("prompt:submit", "provider:request", "prompt:submit"):
        await session.coordinator.hooks.emit(event, {"prompt": "Hello."})
    assert (await session.told("connected"))["server"] == "odd"


async def test_a_call_does_not_wait_for_it(
    make_session: Callable[[], Session], odd: Odd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool that is known from last time and called at once has its server started at once."""
    first = await make_session().open({"odd": odd()})
    await first.told("connected")
    assert await wait_for(lambda: any(first.home.glob("cache/mcp/*.json")), timeout=60)
    await first.close()
    monkeypatch.setattr(servers, "_HEAD_START", 1000.0)
    monkeypatch.setattr(servers, "_LONGEST_HEAD_START", 1000.0)
    session = await make_session().open({"odd": odd(), "other": odd()})
    assert (await session.call("odd_echo", a=1)).output["content"] == '{"a": 1}'
    assert session.connection("other").state == "new"


async def test_a_session_that_is_over_at_once(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts no server, and its log says nevertheless what they would have run in, before `session:end`."""
    monkeypatch.setattr(servers, "_HEAD_START", 1000.0)
    monkeypatch.setattr(servers, "_LONGEST_HEAD_START", 1000.0)
    await session.open({"odd": odd()})
    await session.coordinator.hooks.emit("session:end", {})
    assert [event for event, _ in session._recorder.events] == ["sandbox:status"]
    await session.close()
    assert [data["tool"] for event, data in session._recorder.events if event == "sandbox:status"] == ["tool-mcp"]
    assert session.connection().attempts == 0
