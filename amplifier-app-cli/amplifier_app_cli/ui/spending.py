"""Say who has used how much: agents, and there the loop, tools and hooks that asked the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from amplifier_app_cli.ui.plain import plain


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
        price = f"${usd:.4f}" + (f" (${estimated:.4f} of it estimated)" if estimated else "")
        price += f" and {unpriced} without price" if unpriced else ""
        yield plain(f"used by {name}: {calls} {'call' if calls == 1 else 'calls'}, {tokens:,} tokens, {price}")
