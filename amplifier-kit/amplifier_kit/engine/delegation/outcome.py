"""The outcome of a child: answer, status and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from amplifier_core.bounded_call import DeadlineExceeded, ForeignCancelled
from amplifier_kit.engine.delegation.errors import DelegationError, error_text
from amplifier_kit.engine.delegation.request import DelegationRequest

__all__ = ["Outcome"]

_DONE: Final = frozenset({"success", "completed", "complete", "ok"})
#: An incomplete answer is still an answer.
_ANSWERED: Final = _DONE | {"incomplete"}
#: Statuses without a specific reason.
_UNNAMED: Final = frozenset({"error", "failed", "failure"})
_SPENT: Final = ("usage", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one child ended; `error` is None when nothing failed."""

    status: str
    session_id: str
    response: str = ""
    turn_count: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)
    error: DelegationError | None = None

    @property
    def is_success(self) -> bool:
        """Tell whether the child completed."""
        return self.error is None and self.status in _DONE

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the child was cancelled."""
        return self.status == "cancelled"

    @property
    def spent(self) -> dict[str, Any]:
        """Return the known usage of the child."""
        return {key: self.metadata[key] for key in _SPENT if self.metadata.get(key) is not None}

    @classmethod
    def returned(cls, answer: Any, request: DelegationRequest) -> Self:
        """Return the outcome of a child that returned."""
        given = answer if isinstance(answer, Mapping) else {"output": answer}
        status, session_id, metadata = given.get("status"), given.get("session_id"), given.get("metadata")
        response, turns = given.get("output", given.get("response")), given.get("turn_count")
        outcome = cls(
            status=status if isinstance(status, str) and status else "success",
            session_id=session_id if isinstance(session_id, str) and session_id else request.session_id,
            response=response if isinstance(response, str) else "" if response is None else str(response),
            turn_count=turns if isinstance(turns, int) and not isinstance(turns, bool) else 1,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )
        return outcome if outcome.status in _ANSWERED else outcome._failed(request, given.get("error"))

    def _failed(self, request: DelegationRequest, error: Any) -> Self:
        code = self.status if self.status not in _UNNAMED else "child_failed"
        text = error.get("message") if isinstance(error, Mapping) else error
        said = [str(words) for words in (text, self.metadata.get("reason"), self.response) if words]
        message = f"The agent {request.agent!r} ended with status {self.status!r}"
        message = f"{message}: {'; '.join(said)}" if said else f"{message} and without an answer"
        return self._with(
            DelegationError(code, f"{message}. {_again(self.session_id)}" if self.is_cancelled else message)
        )

    def _with(self, failure: DelegationError) -> Self:
        return type(self)(
            status=self.status,
            session_id=self.session_id,
            response=self.response,
            turn_count=self.turn_count,
            metadata=self.metadata,
            error=failure,
        )

    @classmethod
    def raised(cls, error: BaseException, request: DelegationRequest, timeout: float | None) -> Self:
        """Return the outcome of a child that raised."""
        metadata = getattr(error, "metadata", None)
        status, failure = _judged(error, request, timeout)
        return cls(
            status=status,
            session_id=request.session_id,
            turn_count=0,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
            error=failure,
        )


def _judged(error: BaseException, request: DelegationRequest, timeout: float | None) -> tuple[str, DelegationError]:
    name = f"The agent {request.agent!r}"
    if isinstance(error, DelegationError):
        return "error", error
    if isinstance(error, asyncio.CancelledError | ForeignCancelled):
        return "cancelled", DelegationError("cancelled", f"{name} was cancelled. {_again(request.session_id)}")
    if isinstance(error, DeadlineExceeded):
        text = f"{name} timed out after {timeout:g} s. {_again(request.session_id)}"
        return "timeout", DelegationError("timeout", f"{text} Ask for less at once")
    code = getattr(error, "code", None)
    kind = code if isinstance(code, str) and code else "child_failed"
    return "error", DelegationError(kind, f"{name} failed: {type(error).__name__}: {error_text(error)}")


def _again(session_id: str) -> str:
    return f"Its work is kept: call again with session_id {session_id!r} to resume it."
