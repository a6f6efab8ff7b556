"""Show what was used and what it cost, in all and by agent, loop, tool and hook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from amplifier_app_cli.ui.plain import plain
from amplifier_kit.engine.usage import UsageRecord, money


def usage_line(used: UsageRecord) -> str:
    """Return tokens and cost in one line."""
    parts = [f"{used.input_tokens or 0:,} in", f"{used.output_tokens or 0:,} out"]
    if used.cache_read_tokens:
        parts.append(f"{used.cache_read_tokens:,} cached")
    return " · ".join([*parts, price_text(used)])


def price_text(used: UsageRecord) -> str:
    """Return the cost, and how many answers have no known price."""
    if not used.priced:
        return "price unknown"
    text = money(used.known_cost)
    return f"{text} and {used.unpriced} without price" if used.unpriced else text


def usage_record(used: UsageRecord) -> dict[str, Any]:
    """Return a sum for programs. The cost is None when a part of it is not known."""
    cost = used.cost
    tokens = {name: count for name, count in used.tokens().items() if count}
    return {"usage": tokens, "cost_usd": None if cost is None else str(cost)}


def spending_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each agent and source, the dearest first, of the rows of a budget."""
    sums: dict[tuple[str | None, str], tuple[Decimal, int, int, int, Decimal]] = {}
    for row in rows:
        who = row["agent"], str(row["source"])
        usd, tokens, calls, unpriced, estimated = sums.get(who, (Decimal(0), 0, 0, 0, Decimal(0)))
        sums[who] = (
            usd + Decimal(row["usd"]),
            tokens + row["tokens"],
            calls + row["calls"],
            unpriced + row["unpriced"],
            estimated + Decimal(row["estimated_usd"]),
        )
    for (agent, source), (usd, tokens, calls, unpriced, estimated) in sorted(
        sums.items(), key=lambda item: (-item[1][0], -item[1][1])
    ):
        name = source if agent is None else f"{agent}, {source}"
        price = money(usd) + (f" ({money(estimated)} of it estimated)" if estimated else "")
        price += f" and {unpriced} without price" if unpriced else ""
        yield plain(f"used by {name}: {calls} {'call' if calls == 1 else 'calls'}, {tokens:,} tokens, {price}")
