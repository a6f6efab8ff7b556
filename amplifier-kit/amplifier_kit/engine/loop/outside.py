"""Run calls outside of a turn: those that waited for somebody who could allow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplifier_kit.engine.loop.calls import CallRunner, Finished
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.loop.reply import Call
from amplifier_kit.engine.loop.watch import Watch


async def run_calls(coordinator: Any, calls: Sequence[Call]) -> list[Finished]:
    """Run calls through hooks and policies, as a turn does, and return one result for each, in order.

    Nothing is stored in the conversation. What hooks want injected is carried out at the end.
    """
    host = Host(coordinator.get("context"), coordinator.hooks, coordinator)
    watch = Watch(host, interval=None, on_cancel=_nobody, on_beat=_nobody)
    runner = CallRunner(host, LoopConfig(), watch, dict(coordinator.get("tools") or {}))
    watch.start()
    try:
        finished = await runner.run(calls)
        await runner.settle()
    finally:
        await watch.stop()
    return finished


async def _nobody(*_: Any) -> None:
    """Tell nobody: the turn that follows does."""
