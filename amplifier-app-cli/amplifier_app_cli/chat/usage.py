"""What the last turn and the whole session used, with the sessions that it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amplifier_kit.engine.usage import UsageRecord

if TYPE_CHECKING:
    from amplifier_foundation.usage import UsageAccount


class UsageMeter:
    """Read the account of a session by turns."""

    def __init__(self, account: UsageAccount, known: Any = None) -> None:
        """Continue from `known`, as a session's metadata hold it."""
        self._account = account
        self._before = UsageRecord.of_facts(known)
        self._at_start = account.total

    @property
    def turn(self) -> UsageRecord:
        """Return what the last turn used."""
        return self._account.total - self._at_start

    @property
    def session(self) -> UsageRecord:
        """Return what the session used, in this process and before."""
        return self._before + self._account.total

    def start_turn(self) -> None:
        """Begin another turn."""
        self._at_start = self._account.total
