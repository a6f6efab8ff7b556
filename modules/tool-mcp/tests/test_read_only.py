"""In a session that may only read, no program of a server runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_module_tool_mcp import servers

Session = Any
Odd = Callable[..., dict[str, Any]]
LONG = 60.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_MODE_SETTLES", 0.0)


async def _change(session: Session, *, is_read_only: bool) -> None:
    session.coordinator.register_capability("session.is_read_only", lambda: is_read_only)
    await session.coordinator.hooks.emit("policy:mode_changed", {})


@pytest.mark.parametrize("required", [False, True])
async def test_not_started(session: Session, odd: Odd, project: Path, required: bool) -> None:
    """The reason is reported, a session that requires the server sends no request, and another mode starts it."""
    (project / "gate").touch()
    session.coordinator.register_capability("session.is_read_only", lambda: True)
    await session.open({"odd": odd("slow", "gate", required=required)})
    failed = await session.told("failed")
    assert (failed["code"], failed["retry_in"]) == ("read_only", None)
    asked = await session.coordinator.hooks.emit("provider:request", {"provider": "x"})
    assert (asked.action == "deny") is required
    assert session.tools == {}
    for _ in range(9):  # as often as it is tried, it is no failure of the server
        session.connection().start()
        await session.connection().settled()
        assert session.connection().fault.code == "read_only"
    await _change(session, is_read_only=False)
    await session.told("connected")
    assert "mcp_odd_echo" in session.tools


async def test_ended(session: Session, odd: Odd, project: Path) -> None:
    """A program that runs is ended when the session may only read from now on, also one that still starts."""
    await session.open({"odd": odd("slow", "gate")})
    assert await wait_for(lambda: session.connection().state == "connecting", timeout=LONG)
    await _change(session, is_read_only=True)
    assert await wait_for(lambda: session.connection().state == "failed", timeout=LONG)
    assert session.connection().fault.code == "read_only"
    (project / "gate").touch()
    await _change(session, is_read_only=False)
    await session.told("connected")
    await session.connection().ready()
    await _change(session, is_read_only=True)
    assert (await session.told("disconnected"))["code"] == "read_only"
    assert session.connection().state == "failed"


async def test_on_the_way_to_another_mode(
    session: Session, odd: Odd, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that runs is left alone when the session is read-only for a moment only."""
    monkeypatch.setattr(servers, "_MODE_SETTLES", LONG)
    (project / "gate").touch()
    await session.open({"odd": odd("slow", "gate")})
    await session.told("connected")
    await _change(session, is_read_only=True)
    await _change(session, is_read_only=False)
    assert session.connection().state == "ready"
    assert session.events("disconnected") == []
