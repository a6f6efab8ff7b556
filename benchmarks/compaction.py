"""Measure how long a context manager takes for a long history: adding, compacting, and asking again.

    python benchmarks/compaction.py [--messages 10000] [--rounds 9] [--json]

The history is that of an agent at work: prompts, rounds of parallel tool calls, answers. Compaction is measured cold:
every round asks for a budget that was never asked for before. The lower quartile of the rounds counts: what else the
machine did at the time only ever adds. Prints a table, or with --json one object
`{"rows": [{"what", "ms", "target_ms", "met"}]}`; exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from typing import Any

from document import table

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


def measure(count: int, rounds: int) -> list[dict[str, Any]]:
    """Return the rows: what was measured, how long it took and its target."""
    messages = history(count)
    context = BaseContext(ContextConfig())
    added = milliseconds(_add_all(context, messages))
    rows = [row(f"adding a message to a history of {count:,}", added / count, None)]
    for budget in BUDGETS:
        cold, again = [], []
        for number in range(rounds):
            cold.append(milliseconds(context.get_messages_for_request(token_budget=budget + number)))
            again.append(milliseconds(context.get_messages_for_request(token_budget=budget + number)))
        rows.append(row(f"compaction of {count:,} messages to {budget:,} tokens", quartile(cold), TARGET_MS))
        rows.append(row(f"the next request at {budget:,} tokens", quartile(again), None))
    return rows


def quartile(taken: list[float]) -> float:
    """Return the lower quartile."""
    return sorted(taken)[len(taken) // 4]


def row(what: str, taken: float, target: float | None) -> dict[str, Any]:
    """Make one row."""
    return {"what": what, "ms": round(taken, 4), "target_ms": target, "met": target is None or taken <= target}


async def _add_all(context: BaseContext, messages: list[Message]) -> None:
    for message in messages:
        await context.add_message(message)


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.messages, options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
    else:
        cells = [[r["what"], f"{r['ms']:.3g} ms", _target(r), "yes" if r["met"] else "**no**"] for r in rows]
        print(table(["What", "Ours", "Target", "Met"], cells))
    return 0 if all(r["met"] for r in rows) else 1


def _target(measured: dict[str, Any]) -> str:
    return "" if measured["target_ms"] is None else f"≤ {measured['target_ms']:g} ms"


if __name__ == "__main__":
    sys.exit(main())
