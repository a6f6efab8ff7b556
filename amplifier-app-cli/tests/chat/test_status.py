"""The status line: what is waited for is said at once, with the reason."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_app_cli.chat.commands.mcp import mcp
from amplifier_app_cli.chat.status import TurnStatus, connecting_servers, joined
from amplifier_app_cli.ui.colour import Ink
from amplifier_core.testing import MockCoordinator


class _Screen:
    width = 80
    ink = Ink(False)

    def __init__(self, *, has_live_part: bool = True) -> None:
        self.has_live_part = has_live_part
        self.shown: list[str] = []
        self.drawn = 0

    def show(self, text: str) -> None:
        self.shown.append(text)

    def refresh(self) -> None:
        self.drawn += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which passes only when a test says so."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def _status(screen: _Screen) -> tuple[TurnStatus, Any]:
    coordinator = MockCoordinator()
    status = TurnStatus(screen, lambda value: value, coordinator)  # type: ignore[arg-type]
    status.connect()
    return status, coordinator


_RETRY = {
    "attempt": 2,
    "max_retries": 5,
    "delay": 8.0,
    "error_type": "RateLimitError",
    "error_message": "429: {} slow\ndown",
}


async def test_retry_says_when_and_why(clock: list[float]) -> None:
    """A retry is shown when it is decided, counts down, and is gone with the answer."""
    screen = _Screen()
    status, coordinator = _status(screen)
    await coordinator.hooks.emit("provider:retry", dict(_RETRY))
    assert screen.drawn == 1
    assert status.text == "retry 2 of 5 in 8 s: RateLimitError: 429: { } slow down"
    clock[0] += 5
    assert status.text.startswith("retry 2 of 5 in 3 s")
    clock[0] += 5
    assert status.text.startswith("retry 2 of 5 now")
    await coordinator.hooks.emit("llm:response", {})
    assert status.text == ""


async def test_terminal_without_a_live_part_gets_a_line(clock: list[float]) -> None:
    """Where nothing can be drawn again, a retry is a line of its own; waiting for an answer is none."""
    screen = _Screen(has_live_part=False)
    _, coordinator = _status(screen)
    await coordinator.hooks.emit("provider:request", {})
    await coordinator.hooks.emit("provider:retry", dict(_RETRY))
    assert screen.shown == ["retry 2 of 5 in 8 s: RateLimitError: 429: { } slow down"]


@pytest.mark.parametrize(
    ("event", "data", "text"),
    [
        ("provider:request", {}, "waiting for the model"),
        (
            "provider:throttle",
            {"remaining": 1, "limit": 50, "dimension": "requests", "delay": 2},
            "the rate limit is nearly used up (1 of 50 requests left): asking the model in 2 s",
        ),
        ("provider:concurrency", {"active_requests": 4}, "waiting for 4 other requests to this provider"),
        ("orchestrator:rate_limit_delay", {"delay_ms": 3000}, "pause between requests: asking the model in 3 s"),
        ("context:pre_compact", {}, "making the context smaller"),
    ],
)
async def test_every_wait_has_its_reason(clock: list[float], event: str, data: dict[str, Any], text: str) -> None:
    """Whatever keeps the model from answering is named."""
    status, coordinator = _status(_Screen())
    await coordinator.hooks.emit(event, data)
    assert status.text == text
    status.clear()
    assert status.text == ""


async def test_servers_that_hold_a_request_back() -> None:
    """While hooks hold a request back and servers are being connected, the servers are named."""
    status, coordinator = _status(_Screen())
    states = {"git": "connecting", "time": "ready", "files": "waiting"}
    connections = {name: SimpleNamespace(state=state) for name, state in states.items()}
    coordinator.register_capability("mcp.servers", SimpleNamespace(connections=connections))
    seen: list[str] = []
    coordinator.hooks.register("provider:request", lambda event, data: seen.append(status.text), name="gate")
    await coordinator.hooks.emit("provider:request", {})
    assert seen == ["waiting for MCP servers: git, files"]
    assert status.text == "waiting for the model"
    assert connecting_servers(MockCoordinator()) == []


@pytest.mark.parametrize("words", ["", "git"])
async def test_a_failed_server_says_what_to_do(words: str) -> None:
    """`/mcp` shows why a server failed and how to repair it."""
    status = SimpleNamespace(name="git", state="failed", reason="it is not installed", advice="Install it")
    servers = SimpleNamespace(connections={"git": status}, statuses=lambda: [status])
    coordinator = MockCoordinator()
    coordinator.register_capability("mcp.servers", servers)
    screen = _Screen()
    chat: Any = SimpleNamespace(coordinator=coordinator, screen=screen, width=80, scrub=str)
    await mcp(chat, words)
    assert "it is not installed. Install it" in "\n".join(screen.shown)


def test_parts_that_do_not_fit_are_left_out() -> None:
    """A narrow terminal shows the first and the last parts, and never half of one line in the next."""
    parts = ["permissions: ask", "sandbox on", "project not trusted", "/help", "Ctrl-D leaves."]
    assert joined(parts, 80) == " · ".join(parts)
    assert joined(parts, 50) == "permissions: ask · /help · Ctrl-D leaves."
    assert joined(parts, 20) == "Ctrl-D leaves."
    assert joined(parts, 5) == "Ctrl…"
