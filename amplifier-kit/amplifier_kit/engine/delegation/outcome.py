"""How a child ended: its answer, its status, and what it used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from amplifier_kit.engine.bounded import Expired, ForeignCancelled
from amplifier_kit.engine.delegation.order import Order
from amplifier_kit.engine.delegation.problem import Problem, told

__all__ = ["Outcome"]

_DONE: Final = frozenset({"success", "completed", "complete", "ok"})
#: What a child answered before it was done still is an answer.
_ANSWERED: Final = _DONE | {"incomplete"}
#: Ends that say no more than that there was one.
_UNNAMED: Final = frozenset({"error", "failed", "failure"})
_SPENT: Final = ("usage", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one child; `problem` says what went wrong, None when nothing did."""

    status: str
    session_id: str
    response: str = ""
    turn_count: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def is_success(self) -> bool:
        """Tell whether the child did what it was asked for."""
        return self.problem is None and self.status in _DONE

    @property
    def is_cancelled(self) -> bool:
        """Tell whether somebody asked the child to stop."""
        return self.status == "cancelled"

    @property
    def spent(self) -> dict[str, Any]:
        """Return what the child used, as far as it is known."""
        return {key: self.metadata[key] for key in _SPENT if self.metadata.get(key) is not None}

    @classmethod
    def returned(cls, answer: Any, order: Order) -> Self:
        """Return how a child ended that came back with something."""
        given = answer if isinstance(answer, Mapping) else {"output": answer}
        status, session_id, metadata = given.get("status"), given.get("session_id"), given.get("metadata")
        response, turns = given.get("output", given.get("response")), given.get("turn_count")
        outcome = cls(
            status=status if isinstance(status, str) and status else "success",
            session_id=session_id if isinstance(session_id, str) and session_id else order.session_id,
            response=response if isinstance(response, str) else "" if response is None else str(response),
            turn_count=turns if isinstance(turns, int) and not isinstance(turns, bool) else 1,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )
        return outcome if outcome.status in _ANSWERED else outcome._failed(order, given.get("error"))

    def _failed(self, order: Order, error: Any) -> Self:
        code = self.status if self.status not in _UNNAMED else "child_failed"
        text = error.get("message") if isinstance(error, Mapping) else error
        said = [str(words) for words in (text, self.metadata.get("reason"), self.response) if words]
        message = f"The agent {order.agent!r} ended with status {self.status!r}"
        message = f"{message}: {'; '.join(said)}" if said else f"{message} and without an answer"
        return self._with(Problem(code, f"{message}. {_again(self.session_id)}" if self.is_cancelled else message))

    def _with(self, problem: Problem) -> Self:
        return type(self)(
            status=self.status,
            session_id=self.session_id,
            response=self.response,
            turn_count=self.turn_count,
            metadata=self.metadata,
            problem=problem,
        )

    @classmethod
    def raised(cls, error: BaseException, order: Order, timeout: float | None) -> Self:
        """Return how a child ended that did not come back."""
        metadata = getattr(error, "metadata", None)
        status, problem = _judged(error, order, timeout)
        return cls(
            status=status,
            session_id=order.session_id,
            turn_count=0,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
            problem=problem,
        )


def _judged(error: BaseException, order: Order, timeout: float | None) -> tuple[str, Problem]:
    name = f"The agent {order.agent!r}"
    if isinstance(error, Problem):
        return "error", error
    if isinstance(error, asyncio.CancelledError | ForeignCancelled):
        return "cancelled", Problem("cancelled", f"{name} was stopped before it was done. {_again(order.session_id)}")
    if isinstance(error, Expired):
        text = f"{name} was not done after {timeout:g} s and was stopped. {_again(order.session_id)}"
        return "timeout", Problem("timeout", f"{text} Ask for less at once")
    code = getattr(error, "code", None)
    kind = code if isinstance(code, str) and code else "child_failed"
    return "error", Problem(kind, f"{name} failed: {type(error).__name__}: {told(error)}")


def _again(session_id: str) -> str:
    return f"What it did is kept; it goes on when you call again with session_id {session_id!r}."
