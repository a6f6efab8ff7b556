"""Collecting answers from every handler of an event."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult


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
