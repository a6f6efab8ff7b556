"""Add up what a session and those below it cost, as the channel `session.cost` tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from amplifier_foundation.sessions.usage import known_amount


def total_cost(told: Iterable[Any]) -> str | None:
    """Return the sum of what contributors told, None when nobody knows a price."""
    prices = [known_amount(one.get("cost_usd")) for one in told if isinstance(one, Mapping)]
    known = [price for price in prices if price is not None]
    return str(sum(known, Decimal(0))) if known else None


def cost_of_past(place: Path, parent_id: str, is_counted: Callable[[str], bool]) -> str | None:
    """Return what the sessions below one have cost by their notes, those left out that `is_counted` knows.

    A session that is counted by whoever runs it counts with all below it. Raises OSError.
    """
    from amplifier_foundation.sessions.catalog import folder_names
    from amplifier_foundation.sessions.metadata import load_metadata
    from amplifier_foundation.sessions.usage import used_by_log
    from amplifier_foundation.spawn.ids import children_begin_with

    amounts: list[Decimal] = []
    names = folder_names(str(place))
    waiting = [parent_id]
    while waiting:
        above = waiting.pop()
        for name in names:
            if not name.startswith(children_begin_with(above)) or is_counted(name):
                continue
            facts = load_metadata(place / name).data
            if facts.get("parent_id") != above:
                continue
            waiting.append(name)
            usage = facts.get("usage")
            if facts.get("incremental"):  # it was cut off: its notes have what it used at the end of a turn
                usage = used_by_log(place / name) or usage
            amount = known_amount(usage.get("cost_usd")) if isinstance(usage, Mapping) else None
            if amount is not None:
                amounts.append(amount)
    return str(sum(amounts, Decimal(0))) if amounts else None
