"""Add up what the answers of a session used, in this process and before it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from amplifier_core.events import LLM_RESPONSE
from amplifier_kit.engine.usage import as_cost, as_count, usage_fault

_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_COST: Final = "cost_usd"
_UNPRICED: Final = "calls_without_price"
#: When counting began in a session that had been used before; what is older stands in the log alone.
_SINCE: Final = "since"


class Usage:
    """The sum of what answers used. An answer without a price is counted as such, not as free."""

    def __init__(self, known: Any = None) -> None:
        """Go on from `known`, which a session's metadata holds; what makes no sense there is left out."""
        known = known if isinstance(known, Mapping) else {}
        self._sum: dict[str, Any] = {key: known[key] for key in (*_TOKENS, _UNPRICED) if _is_count(known.get(key))}
        if (cost := known_amount(known.get(_COST))) is not None:
            self._sum[_COST] = str(cost)
        if isinstance(known.get(_SINCE), str):
            self._sum[_SINCE] = known[_SINCE]

    @property
    def facts(self) -> dict[str, Any]:
        """Return the sum as a session's metadata holds it, empty when nothing was counted."""
        return dict(self._sum)

    @property
    def cost(self) -> Decimal | None:
        """Return what the answers with a price cost, None when no answer had one."""
        return known_amount(self._sum.get(_COST))

    def begin(self, at: str) -> None:
        """Note that earlier answers were not counted: they are older than `at`."""
        if not self._sum:
            self._sum[_SINCE] = at

    def add(self, usage: Any, broken: Any = 0) -> None:
        """Add what one answer used, and attempts at it that broke off and have no price.

        Anything but a mapping, or a model of one, is no answer's usage.
        """
        if _is_count(broken) and broken:
            self._sum[_UNPRICED] = self._sum.get(_UNPRICED, 0) + broken
        dump = getattr(usage, "model_dump", None)
        given = dump() if callable(dump) else usage
        if not isinstance(given, Mapping):
            return
        for key in _TOKENS:
            if _is_count(given.get(key)):
                self._sum[key] = self._sum.get(key, 0) + given[key]
        cost = as_cost(given.get(_COST)) if usage_fault(given) is None else None
        if cost is None:
            self._sum[_UNPRICED] = self._sum.get(_UNPRICED, 0) + 1
        else:
            self._sum[_COST] = str((self.cost or Decimal(0)) + cost)


def used_since(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was used between two sums as `Usage.facts` has them, the later of which has all of the earlier."""
    more = {key: now[key] - before.get(key, 0) for key in _TOKENS if key in now}
    if (unpriced := now.get(_UNPRICED, 0) - before.get(_UNPRICED, 0)) > 0:
        more[_UNPRICED] = unpriced
    cost = known_amount(now.get(_COST))
    if cost is not None:
        cost -= known_amount(before.get(_COST)) or 0
        if cost or _UNPRICED not in more:  # else no answer since had a price
            more[_COST] = str(cost)
    return more


def past_cost(known: Any, folder: Path, now: str) -> Decimal | None:
    """Return what a session had cost before `now`, None when nobody knows: by its metadata, and by the log before that.

    The log is read only for what the metadata does not cover: sessions of other programs count nothing. Costs that a
    fork has copied from its original are the original's. Raises OSError.
    """
    counted = Usage(known)
    facts = counted.facts
    if facts and _SINCE not in facts:
        return counted.cost
    before = _logged(folder, facts.get(_SINCE, now)).cost
    known_parts = [part for part in (before, counted.cost) if part is not None]
    return sum(known_parts, Decimal(0)) if known_parts else None


def used_by_log(folder: Path) -> dict[str, Any]:
    """Return what the log says that a session has used, empty when it cannot be read."""
    try:
        return _logged(folder, "").facts
    except OSError:
        return {}


def _logged(folder: Path, until: str) -> Usage:
    """Return what the log says of answers before a time."""
    from amplifier_foundation.log import read_log
    from amplifier_foundation.sessions.event_cut import milliseconds

    end = milliseconds(until)
    found = Usage()
    for line in read_log(folder, on_torn=lambda torn: None):
        if line.event != LLM_RESPONSE or line.record.get("parent_session_id") is not None:
            continue
        at = milliseconds(line.ts)
        if end is None or at is None or at < end:
            found.add(line.data.get("usage"), line.data.get("unpriced_attempts"))
    return found


def _is_count(value: Any) -> bool:
    return as_count(value) is not None


def known_amount(value: Any) -> Decimal | None:
    """Return an amount of money, None for what is none."""
    if value is None or isinstance(value, bool):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None
