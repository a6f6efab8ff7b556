"""What came of a check, and of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Outcome:
    """One check: whether it held, why not, how long it took, and what was seen (as JSON has it)."""

    name: str
    is_ok: bool
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return the outcome as JSON."""
        return {
            "name": self.name,
            "ok": self.is_ok,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "details": self.details,
        }


def verdict(outcomes: Sequence[Outcome]) -> Literal["pass", "fail"]:
    """Return `pass` when every check held; no check at all proves nothing and is a `fail`."""
    return "pass" if outcomes and all(outcome.is_ok for outcome in outcomes) else "fail"
