"""Observers hear every event, with who emitted it and what the handlers made of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from amplifier_core import HookRegistry, HookResult
from amplifier_core.hooks import Outcome

Heard = list[tuple[str, Any, Outcome]]


@pytest.fixture
def registry() -> HookRegistry:
    """Give a registry without a session."""
    return HookRegistry()


@pytest.fixture
def heard(registry: HookRegistry) -> Heard:
    """Give what one observer hears."""
    calls: Heard = []
    registry.observe(lambda event, data, outcome: calls.append((event, data, outcome)))
    return calls


async def test_a_denied_event(registry: HookRegistry, heard: Heard) -> None:
    """The deny stops the handlers behind it, and the observer hears who denied and why."""
    late: list[str] = []
    registry.register("tool:pre", lambda event, data: HookResult(action="deny", reason="no"), name="gate")
    registry.register("tool:pre", lambda event, data: late.append(event), priority=1)
    result = await registry.emit("tool:pre", {"tool_input": {"command": "ls"}})
    [(_, data, outcome)] = heard
    assert late == []
    assert data["tool_input"] == {"command": "ls"}
    assert (outcome.action, outcome.decided_by, outcome.reason) == ("deny", "gate", "no")
    assert registry.denied_by(result) == "gate"
    assert registry.denied_by(HookResult(action="deny")) is None


async def test_modified_data(registry: HookRegistry, heard: Heard) -> None:
    """An observer sees the data as the handlers left it."""
    registry.register("tool:pre", lambda event, data: HookResult(action="modify", data={"tool_name": "ls"}))
    await registry.emit("tool:pre", {"tool_name": "bash"})
    assert heard[0][1] == {"tool_name": "ls"}


async def test_a_cancelled_emit(registry: HookRegistry, heard: Heard) -> None:
    """An event whose handler never returned is observed when the emit is cancelled."""
    reached = asyncio.Event()

    async def hang(event: str, data: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    registry.register("tool:post", hang)
    task = asyncio.create_task(registry.emit("tool:post", {}))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(event, outcome.action) for event, _, outcome in heard] == [("tool:post", "cancelled")]


async def test_a_failing_observer(registry: HookRegistry, heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged by name; the others and the emitter do not notice."""

    def fail(event: str, data: Any, outcome: Outcome) -> None:
        raise RuntimeError("broken")

    async def wait(event: str, data: Any, outcome: Outcome) -> None:
        """Never awaited."""

    registry.observe(fail, name="broken-log")
    registry.observe(wait, name="async-log")
    with caplog.at_level(logging.ERROR):
        result = await registry.emit("tool:pre", {})
    assert result.action == "continue"
    assert len(heard) == 1
    assert "broken-log" in caplog.text
    assert "async-log" in caplog.text


async def test_removal(registry: HookRegistry) -> None:
    """The function that `observe` returns removes the observer, once."""
    calls: list[str] = []
    remove = registry.observe(lambda event, data, outcome: calls.append(event))
    remove()
    remove()
    await registry.emit("tool:pre", {})
    assert calls == []


def test_what_cannot_be_called(registry: HookRegistry) -> None:
    """It is refused when it is given, not when something happens."""
    with pytest.raises(TypeError, match="observe: the observer must be callable, got str"):
        registry.observe("log")  # type: ignore[arg-type]


async def test_an_observer_that_raises_a_cancellation_is_isolated(registry: HookRegistry, heard: Heard) -> None:
    """Nothing is awaited in an observer: a CancelledError there is its own failure, and the next one is called."""

    def read_cancelled_task(event: str, data: Any, outcome: Outcome) -> None:
        raise asyncio.CancelledError

    observers = list(registry._observers)
    registry._observers = ()
    registry.observe(read_cancelled_task)
    registry._observers = (*registry._observers, *observers)
    assert (await registry.emit("x:y", {})).action == "continue"
    assert [event for event, _, _ in heard] == ["x:y"]
