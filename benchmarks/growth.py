"""Measure how the cost of one thing grows with how many there are: a hundredth of the size, a tenth, and all."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compaction import add_all
from compaction import history as messages_of
from harness import Row, Setting, lower_quartile, microseconds
from policy import usual_rules
from workloads import PAYLOAD, make_emit, make_handlers, time_in_turn, write_session_modules


def grow(setting: Setting, what: str, cost: Callable[[int, int], float]) -> list[Row]:
    """Return a row for each size; `cost` takes a size and the rounds and returns the microseconds of one thing.

    The floor is the cost at the smallest size.
    """
    sizes = sorted({max(1, setting.size // 100), max(1, setting.size // 10), setting.size})
    taken = [cost(size, setting.rounds) for size in sizes]
    return [
        Row(what.format(f"{size:,}"), value, "µs", floor=taken[0]) for size, value in zip(sizes, taken, strict=True)
    ]


def quickest(rounds: int, work: Callable[[], Any], things: int = 1) -> float:
    """Return the lower quartile of the rounds, in microseconds for each thing."""
    return lower_quartile([microseconds(work, things) for _ in range(rounds)])


def handlers(setting: Setting) -> list[Row]:
    """Emit to many handlers: the cost of each."""

    def cost(size: int, rounds: int) -> float:
        emit = make_emit(make_handlers(size), PAYLOAD)
        [taken] = asyncio.run(time_in_turn([emit], None, rounds))
        return taken / size

    return grow(setting, "emit to {} handlers, each", cost)


def history(setting: Setting) -> list[Row]:
    """Ask for the next request of a long history that is compacted: the cost of each message."""
    from amplifier_kit.engine.context.base import BaseContext
    from amplifier_kit.engine.context.token_budget import ContextConfig

    def cost(size: int, rounds: int) -> float:
        context = BaseContext(ContextConfig())
        asyncio.run(add_all(context, messages_of(size)))
        ask = context.get_messages_for_request
        budgets = iter(range(20_000, 20_000 + rounds))  # each asked for the first time
        return quickest(rounds, lambda: asyncio.run(ask(token_budget=next(budgets))), size)

    return grow(setting, "compact a history of {} messages, each", cost)


def log(setting: Setting) -> list[Row]:
    """Reopen a log that is long already, and add a line."""
    from amplifier_kit.log.writer import SessionLog

    def cost(size: int, rounds: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            with SessionLog(Path(folder)) as first:
                for _ in range(size):
                    first.write({"event": "tool:pre", "lvl": "INFO", "data": PAYLOAD})

            def add() -> None:
                with SessionLog(Path(folder)) as again:
                    again.write({"event": "tool:pre", "lvl": "INFO", "data": PAYLOAD})

            return quickest(rounds, add)

    return grow(setting, "reopen a log of {} lines and add one", cost)


def rules(setting: Setting) -> list[Row]:
    """Judge a command."""
    from amplifier_kit.guard.policy.facts import facts
    from amplifier_kit.guard.policy.rules import RuleSet

    def cost(size: int, rounds: int) -> float:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            rule_set = RuleSet(usual_rules(size + 8), folder)  # eight of them are fixed
            details = {"command": "tool7 status --short | wc -l"}

            def judge() -> None:
                for _ in range(100):
                    rule_set.decide(facts("process.exec", details, folder))

            judge()
            return quickest(rounds, judge, 100)

    return grow(setting, "judge a command by {} rules", cost)


@contextmanager
def _plan(tools: int) -> Iterator[dict[str, Any]]:
    """Give the plan of a session whose modules are on disk."""
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        try:
            yield write_session_modules(Path(folder), tools=tools)
        finally:
            sys.path.remove(folder)


async def _start(plan: dict[str, Any], rounds: int, live: int = 0) -> float:
    """Return the microseconds of starting and cleaning up a session, beside `live` others; the first one imports."""
    from amplifier_core import AmplifierSession

    held = [AmplifierSession(plan) for _ in range(live)]
    for session in held:
        await session.initialize()
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        session = AmplifierSession(plan)
        await session.initialize()
        await session.cleanup()
        taken.append((time.perf_counter() - start) * 1e6)
    for session in held:
        await session.cleanup()
    return lower_quartile(taken[1:])


def modules(setting: Setting) -> list[Row]:
    """Start and clean up a session of many tools: the cost of each."""
    with _plan(setting.size) as plan:

        def cost(size: int, rounds: int) -> float:
            return asyncio.run(_start({**plan, "tools": plan["tools"][:size]}, rounds)) / size

        return grow(setting, "start a session of {} tools, each", cost)


def sessions(setting: Setting) -> list[Row]:
    """Start and clean up a session of ten tools, while others live in the process."""
    with _plan(10) as plan:
        return grow(
            setting, "start a session beside {} live ones", lambda size, rounds: asyncio.run(_start(plan, rounds, size))
        )
