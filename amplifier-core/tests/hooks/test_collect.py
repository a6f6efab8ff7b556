"""Collecting answers from every handler of an event."""

from __future__ import annotations

import asyncio
import logging
from decimal import Decimal
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator, bounded_call
from amplifier_core.coordinator import get_context
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult
from amplifier_core.trace import open_module


async def test_answers_in_order(hooks: HookRegistry) -> None:
    """The data of every answer comes back in calling order; answers without data are left out; a deny stops nobody."""
    answers: list[Any] = [
        HookResult(action="continue", data={"a": 1}),
        None,
        {"data": {"b": (2,)}},
        HookResult(action="deny", reason="no", data={"c": 3}),
        HookResult(action="deny"),
        {},
        HookResult(action="modify", data={}),
        {"action": "inject_context", "context_injection": "t", "data": {"d": Decimal("4.5")}},
    ]
    for answer in answers:
        hooks.register("x:y", lambda event, data, answer=answer: answer)
    hooks.register("x:y", lambda event, data: {"data": {"first": True}}, priority=-1)
    collected = await hooks.emit_and_collect("x:y", {})
    assert collected == [{"first": True}, {"a": 1}, {"b": [2]}, {"c": 3}, {}, {"d": "4.5"}]


@pytest.mark.parametrize("data", [{"a": (1,), 2: Decimal("1.5")}, [1, (2,)], None, "text"])
async def test_handlers_get_the_plain_data(hooks: HookRegistry, data: Any) -> None:
    """Handlers see the data alone, cleaned: no defaults, no timestamp; each its own, and nobody another's changes."""
    hooks.set_default_fields(session_id="s")
    seen: list[Any] = []

    def vandal(event: str, received: Any) -> HookResult:
        seen.append(repr(received))
        if isinstance(received, (dict, list)):
            received.clear()
        return HookResult(action="modify", data={"changed": True})

    hooks.register("x:y", vandal)
    hooks.register("x:y", vandal)
    await hooks.emit_and_collect("x:y", data)
    expected = {"a": [1], "2": "1.5"} if isinstance(data, dict) else [1, [2]] if isinstance(data, list) else data
    assert seen == [repr(expected)] * 2


async def test_a_registry_without_a_session_keeps_the_current_one(hooks: HookRegistry) -> None:
    """A handler of a standalone registry that is used inside a session still finds that session."""
    hooks.register("x:y", lambda event, data: {"data": {"fragments": dict(get_context().fragments)}})
    with open_module(ModuleCoordinator(), None):
        assert await hooks.emit_and_collect("x:y", {}) == [{"fragments": {}}]


async def test_failures_are_skipped(hooks: HookRegistry, reports: Any) -> None:
    """A handler that raises or talks nonsense is reported as an error and skipped."""

    def broken(event: str, data: Any) -> None:
        raise asyncio.CancelledError

    hooks.register("x:y", broken, name="broken")
    hooks.register("x:y", lambda event, data: "nonsense", name="talker")
    invalid = HookResult.model_construct(action="continue", data="text")  # type: ignore[arg-type]  # not validated
    hooks.register("x:y", lambda event, data: invalid, name="liar")
    hooks.register("x:y", lambda event, data: {"data": {"ok": 1}})
    assert await hooks.emit_and_collect("x:y", {}) == [{"ok": 1}]
    errors = reports.of(logging.ERROR)
    assert len(errors) == 3
    for name, error in zip(("broken", "talker", "liar"), errors, strict=True):
        assert error.startswith(f"Hook handler error for event 'x:y' (handler '{name}'): ")


async def test_late_handlers_are_skipped(hooks: HookRegistry, reports: Any) -> None:
    """A handler past the timeout is cancelled and skipped, with a warning; the others are not affected."""
    fate: list[str] = []

    async def slow(event: str, data: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            fate.append("cancelled")
            raise

    hooks.register("x:y", slow, name="slow")
    hooks.register("x:y", lambda event, data: {"data": {"ok": 1}})
    assert await hooks.emit_and_collect("x:y", {}, timeout=0.01) == [{"ok": 1}]
    assert fate == ["cancelled"]
    assert reports.of(logging.WARNING) == ["Hook handler timeout for event 'x:y' (handler 'slow')"]
    assert reports.of(logging.ERROR) == []


async def test_own_timeouts_are_errors(hooks: HookRegistry, reports: Any) -> None:
    """A TimeoutError of the handler's own making is its failure, not ours to call a timeout."""

    async def networker(event: str, data: Any) -> None:
        async with asyncio.timeout(0.001):
            await asyncio.Event().wait()

    hooks.register("x:y", networker, name="net")
    assert await hooks.emit_and_collect("x:y", {}, timeout=30) == []
    assert reports.of(logging.ERROR) == ["Hook handler error for event 'x:y' (handler 'net'): TimeoutError"]
    assert reports.of(logging.WARNING) == []


async def test_stubborn_handlers_are_abandoned(
    hooks: HookRegistry, reports: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that ignores its cancellation is left behind after a grace."""
    monkeypatch.setattr(bounded_call, "GRACE", 0.01)

    async def stubborn(event: str, data: Any) -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    hooks.register("x:y", stubborn, name="stubborn")
    hooks.register("x:y", lambda event, data: {"data": {"ok": 1}})
    assert await hooks.emit_and_collect("x:y", {}, 0.01) == [{"ok": 1}]
    assert "timeout" in reports.texts[0]


@pytest.mark.parametrize("timeout", [None, "1", [1]])
async def test_timeout_must_be_a_number(hooks: HookRegistry, timeout: Any) -> None:
    """Only a number of seconds is a timeout; none is no way to wait for ever."""
    with pytest.raises(TypeError, match="timeout must be a number of seconds, got "):
        await hooks.emit_and_collect("x:y", {}, timeout=timeout)
    with pytest.raises(ValueError, match="timeout must be a number of seconds, got nan"):
        await hooks.emit_and_collect("x:y", {}, timeout=float("nan"))


@pytest.mark.parametrize("timeout", [0, -1.0])
async def test_no_time_at_all(hooks: HookRegistry, timeout: float) -> None:
    """Without any time only those who need not wait are heard."""

    async def quick(event: str, data: Any) -> HookResult:
        return HookResult(data={"quick": True})

    async def slow(event: str, data: Any) -> HookResult:
        await asyncio.sleep(10)
        return HookResult(data={"slow": True})

    hooks.register("x:y", slow)
    hooks.register("x:y", quick)
    assert await hooks.emit_and_collect("x:y", {}, timeout) == [{"quick": True}]


async def test_cancellation_goes_through(hooks: HookRegistry) -> None:
    """Cancelling the collecting task cancels the running handler and ends the collection."""
    started = asyncio.Event()
    fate: list[str] = []

    async def waiting(event: str, data: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            fate.append("ended")

    hooks.register("x:y", waiting)
    hooks.register("x:y", lambda event, data: fate.append("next"))
    task = asyncio.create_task(hooks.emit_and_collect("x:y", {}, timeout=60))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert fate == ["ended"]


async def test_answers_are_nobody_elses(hooks: HookRegistry) -> None:
    """What comes back shares nothing with the handlers."""
    kept = HookResult(data={"list": [1]})
    hooks.register("x:y", lambda event, data: kept)
    [answer] = await hooks.emit_and_collect("x:y", {})
    answer["list"].append(2)
    assert kept.data == {"list": [1]}
