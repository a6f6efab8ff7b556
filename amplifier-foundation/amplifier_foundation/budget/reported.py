"""Take what a session in another process reports, each time all of it, and tell what is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from amplifier_foundation.budget.spending import Spender, Spent, read_row


class News(NamedTuple):
    """What a report has that those before it had not."""

    counts: dict[str, int]
    rows: list[tuple[Spender, Spent]]


class Reported:
    """What was counted so far for a session in another process."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._rows: dict[Spender, Spent] = {}

    def claim(self, name: str) -> None:
        """Take that a call was counted before it was made: reports that come later have it too."""
        self._counts[name] = self._counts.get(name, 0) + 1

    def news(self, report: Mapping[str, Any], names: Iterable[str], agent: str | None) -> News:
        """Return what is new in a report; rows that name nobody are those of `agent`.

        Raises KeyError, TypeError or ArithmeticError for what is no report; nothing is taken then.
        """
        rows = {who._replace(agent=who.agent or agent): spent for who, spent in map(read_row, report["spent"])}
        # A call that was reserved here may not be counted there yet.
        counts = {name: max(int(report[name]), self._counts.get(name, 0)) for name in names}
        more = {name: count - self._counts.get(name, 0) for name, count in counts.items()}
        new = [(who, spent - self._rows.get(who, Spent())) for who, spent in rows.items()]
        # Rows that were put together over there are gone from the report, and are part of another.
        gone = [(who, Spent() - spent) for who, spent in self._rows.items() if who not in rows]
        self._counts, self._rows = counts, rows
        return News(more, new + gone)
