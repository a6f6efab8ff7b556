"""Measure how long a context manager takes for a long history: adding, compacting, and asking again.

The history is that of an agent at work: prompts, rounds of parallel tool calls, answers. Compaction is measured cold:
every round asks for a budget that was never asked for before.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from harness import Row, Setting, lower_quartile

from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig

TARGET_MS = 50.0
#: What a request may take: a model with a small window, a usual one, and a large one.
BUDGETS = (20_000, 163_904, 1_000_000)

Message = dict[str, Any]


def history(count: int) -> list[Message]:
    """Make a session of `count` messages, always the same."""
    chance = random.Random(1)
    messages: list[Message] = []
    while len(messages) < count:
        messages.append({"role": "user", "content": "please " * chance.randint(5, 120)})
        for _ in range(chance.randint(0, 3)):
            messages += exchange(len(messages), chance)
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "done " * chance.randint(5, 100)}]})
    return messages[:count]


def exchange(number: int, chance: random.Random) -> list[Message]:
    """Make one assistant message with parallel calls, and their results."""
    ids = [f"call_{number}_{index}" for index in range(chance.randint(1, 3))]
    calls = [{"id": call, "tool": "bash", "arguments": {"command": "ls -la " * chance.randint(1, 5)}} for call in ids]
    asked = {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}], "tool_calls": calls}
    output = "a line of output\n" * chance.randint(1, 120)
    return [asked, *({"role": "tool", "tool_call_id": call, "name": "bash", "content": output} for call in ids)]


def milliseconds(work: Any) -> float:
    """Run a coroutine to its end and return how long it took."""

    async def timed() -> float:
        start = time.perf_counter()
        await work
        return (time.perf_counter() - start) * 1000

    return asyncio.run(timed())


def measure(setting: Setting) -> list[Row]:
    """Return the rows for a history of `size` messages."""
    count = setting.size
    messages = history(count)
    context = BaseContext(ContextConfig())
    added = milliseconds(add_all(context, messages))
    rows = [Row(f"adding a message to a history of {count:,}", added / count)]
    for budget in BUDGETS:
        cold, again = [], []
        for number in range(setting.rounds):
            cold.append(milliseconds(context.get_messages_for_request(token_budget=budget + number)))
            again.append(milliseconds(context.get_messages_for_request(token_budget=budget + number)))
        rows += [
            Row(f"compaction of {count:,} messages to {budget:,} tokens", lower_quartile(cold), most=TARGET_MS),
            Row(f"the next request at {budget:,} tokens", lower_quartile(again)),
        ]
    return rows


async def add_all(context: BaseContext, messages: list[Message]) -> None:
    """Add every message."""
    for message in messages:
        await context.add_message(message)
