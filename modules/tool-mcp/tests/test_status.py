"""An app sees what is known of each server, connects one by name, and waits for those whose tools are not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for

Session = Any
Odd = Callable[..., dict[str, Any]]


def _servers(session: Session) -> Any:
    return session.coordinator.get_capability("mcp.servers")


async def test_before_anything_is_started(session: Session, odd: Odd) -> None:
    """With `autostart: false` no server is started, and each is described as it is configured."""
    issues = {
        "url": "https://mcp.example.com/${TEAM}",
        "headers": {"Authorization": "Bearer abcdefgh"},
        "required": True,
    }
    await session.open({"odd": odd(), "issues": issues}, autostart=False)
    one, other = _servers(session).statuses()
    assert (one.name, one.state, one.transport, one.sandbox, one.offers) == ("odd", "new", "stdio", "unknown", ())
    assert (other.command, other.transport, other.required) == ("https://mcp.example.com/${TEAM}", "http", True)
    assert "abcdefgh" not in json.dumps([each.as_data() for each in (one, other)])
    await session.coordinator.hooks.emit("prompt:submit", {"prompt": "Hello."})
    assert session.connection().attempts == 0


async def test_connecting_one(session: Session, odd: Odd) -> None:
    """A server that connects is ready, with its tools; the others are not started."""
    await session.open({"odd": odd(), "other": odd()}, autostart=False)
    status = await _servers(session).connect("odd")
    assert (status.state, status.code, status.is_cached) == ("ready", None, False)
    echo = {"kind": "tool", "name": "echo", "tool": "mcp_odd_echo", "description": "echo it"}
    assert echo in status.offers
    assert status.duration_ms > 0
    assert session.connection("other").state == "new"
    with pytest.raises(KeyError):
        await _servers(session).connect("nothing")


async def test_connecting_one_that_fails(session: Session, odd: Odd) -> None:
    """A server that ends at once is described by exit code and last message, after one attempt."""
    await session.open({"odd": odd("exit", "no luck")}, autostart=False)
    status = await _servers(session).connect("odd")
    assert (status.state, status.code) == ("waiting", "crashed")
    assert status.reason == "it ended with exit code 1: cannot start: no luck"
    assert status.log == str(session.home / "logs" / "mcp-servers" / "odd.log")
    assert status.log is not None
    assert Path(status.log).read_text() == "cannot start: no luck\n"


async def test_waiting(make_session: Callable[[], Session], odd: Odd) -> None:
    """Servers are waited for until each has connected or failed; those whose tools are known are not."""
    servers = {"odd": odd(), "broken": odd("exit", "no luck"), "gone": {"command": "no-such-program-anywhere"}}
    session = await make_session().open(servers, autostart=False)
    assert _servers(session).unlisted() == ["odd", "broken", "gone"]
    states = {one.name: one.state for one in await _servers(session).wait(60)}
    assert states == {"odd": "ready", "broken": "waiting", "gone": "failed"}
    assert _servers(session).unlisted() == ["broken"]
    assert await wait_for(lambda: any(session.home.glob("cache/mcp/*.json")), timeout=60)
    await session.close()
    later = await make_session().open({"odd": odd()}, autostart=False)
    [status] = await _servers(later).wait(60)
    assert (status.state, status.is_cached, bool(status.offers)) == ("new", True, True)


async def test_waiting_has_an_end(session: Session, odd: Odd) -> None:
    """A server that does not answer is waited for as long as was said, and goes on connecting."""
    await session.open({"odd": odd("silent")}, autostart=False)
    [status] = await _servers(session).wait(0.1)
    assert status.state == "connecting"


async def test_a_failure_is_logged_once(session: Session, odd: Odd, caplog: pytest.LogCaptureFixture) -> None:
    """Of several attempts that fail alike the first is logged, with the reason; each is an event."""
    await session.open({"odd": odd("exit", "no luck")}, retry={"attempts": 3, "initial_delay": 0.01})
    await session.told("failed", 3)
    warnings = [record.getMessage() for record in caplog.records if "odd" in record.getMessage()]
    assert warnings == ["the MCP server odd is not available: it ended with exit code 1: cannot start: no luck"]


async def test_the_required_servers_that_are_missing(session: Session, odd: Odd, project: Path) -> None:
    """The servers that a request was denied for are known until it goes out."""
    await session.open({"odd": odd("slow", "gate", required=True, connect_timeout=0.3)}, retry={"attempts": 1})
    assert (await session.coordinator.hooks.emit("provider:request", {})).action == "deny"
    assert _servers(session).missing == ("odd",)
    await session.told("failed")
    session.connection().connect_timeout = 60.0
    (project / "gate").touch()
    assert (await session.coordinator.hooks.emit("provider:request", {})).action != "deny"
    assert _servers(session).missing == ()
