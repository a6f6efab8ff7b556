"""Sum up what sessions cost and pass a child's cost to its parent, by the names that published apps import."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from amplifier_foundation.usage.history import total_cost

__all__ = ["bridge_child_cost", "sum_cost_usd"]

logger = logging.getLogger(__name__)

#: The contribution channel of costs.
_CHANNEL: Final = "session.cost"


def sum_cost_usd(contributions: Iterable[Any]) -> Decimal | None:
    """Return the sum of the `cost_usd` of contributions to `session.cost`; None when no price is known."""
    total = total_cost(contributions)
    return Decimal(total) if total is not None else None


async def bridge_child_cost(child_coordinator: Any, parent_coordinator: Any, child_session_id: str) -> None:
    """Contribute what a child has cost so far to the cost of its parent, as `delegate:<id>`.

    Raises nothing: a cost that cannot be collected is logged, and the parent's stays without it.
    """
    try:
        found = await child_coordinator.collect_contributions(_CHANNEL)
        cost = total_cost(one for one in found if isinstance(one, Mapping))
        if cost is not None:
            parent_coordinator.register_contributor(
                _CHANNEL, f"delegate:{child_session_id}", lambda: {"cost_usd": cost}
            )
    except Exception as error:  # the child's answer must not be lost for its price
        logger.warning("the cost of the child session %s cannot be collected: %s", child_session_id, error)
