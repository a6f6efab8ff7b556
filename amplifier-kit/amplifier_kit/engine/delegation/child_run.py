"""Run one child to its end, with a timeout, heartbeats and exactly one closing event, and judge how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import field, replace
from typing import Any, Final, Self

from amplifier_core.bounded_call import ForeignCancelled
from amplifier_core.data import reason
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.current_call import dispatched
from amplifier_kit.engine.delegation.request import DelegationConfig, DelegationError, DelegationRequest
from amplifier_kit.engine.tasks import TimedOut, cancel_and_wait, run_bounded, run_to_end, start
from amplifier_kit.struct import FrozenStruct

logger = logging.getLogger(__name__)

#: Emitted while a tool waits for a child.
HEARTBEAT: Final = "delegation:heartbeat"

_DONE: Final = frozenset({"success", "completed", "complete", "ok"})
#: An incomplete answer is still an answer.
_ANSWERED: Final = _DONE | {"incomplete"}
#: Statuses that give no specific reason.
_GENERIC: Final = frozenset({"error", "failed", "failure"})


class ChildEvents(FrozenStruct):
    """Event names of a child's life; each child emits one of the first two and one of the others."""

    spawned: str
    resumed: str
    completed: str
    cancelled: str
    error: str

    def names(self) -> list[str]:
        """Return each name once, the heartbeat last."""
        names = (self.spawned, self.resumed, self.completed, self.cancelled, self.error, HEARTBEAT)
        return list(dict.fromkeys(names))


class Outcome(FrozenStruct):
    """How one child ended: answer, status and usage; `error` is None when nothing failed."""

    status: str
    session_id: str
    response: str = ""
    turn_count: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)
    error: DelegationError | None = None

    @property
    def spent(self) -> dict[str, Any]:
        """Return the usage that the child reports."""
        return {key: self.metadata[key] for key in ("usage", "cost_usd") if self.metadata.get(key) is not None}

    @classmethod
    def returned(cls, answer: Any, request: DelegationRequest) -> Self:
        given = answer if isinstance(answer, Mapping) else {"output": answer}
        status, session_id, metadata = given.get("status"), given.get("session_id"), given.get("metadata")
        response, turns = given.get("output", given.get("response")), given.get("turn_count")
        outcome = cls(
            status=status if isinstance(status, str) and status else "success",
            session_id=session_id if isinstance(session_id, str) and session_id else request.session_id,
            response="" if response is None else str(response),
            turn_count=turns if isinstance(turns, int) and not isinstance(turns, bool) else 1,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        )
        if outcome.status in _ANSWERED:
            return outcome
        error = given.get("error")
        text = error.get("message") if isinstance(error, Mapping) else error
        reasons = [str(reason) for reason in (text, outcome.metadata.get("reason"), outcome.response) if reason]
        message = f"The agent {request.agent!r} ended with status {outcome.status!r}"
        message = f"{message}: {'; '.join(reasons)}" if reasons else f"{message} and without an answer"
        if outcome.status == "cancelled":
            message = f"{message}. {_resume_hint(outcome.session_id)}"
        code = outcome.status if outcome.status not in _GENERIC else "child_failed"
        return replace(outcome, error=DelegationError(code, message))

    @classmethod
    def raised(cls, error: BaseException, request: DelegationRequest, timeout: float | None) -> Self:
        name, hint = f"The agent {request.agent!r}", _resume_hint(request.session_id)
        status, metadata = "error", getattr(error, "metadata", None)
        if isinstance(error, DelegationError):
            failure = error
        elif isinstance(error, asyncio.CancelledError | ForeignCancelled):
            status, failure = "cancelled", DelegationError("cancelled", f"{name} was cancelled. {hint}")
        elif isinstance(error, TimedOut):
            text = f"{name} timed out after {timeout:g} s. {hint} Ask for less at once"
            status, failure = "timeout", DelegationError("timeout", text)
        else:
            code = getattr(error, "code", None)
            text = f"{name} failed: {type(error).__name__}: {reason(error)}"
            failure = DelegationError(code if isinstance(code, str) and code else "child_failed", text)
        return cls(
            status=status,
            session_id=request.session_id,
            turn_count=0,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
            error=failure,
        )


def _resume_hint(session_id: str) -> str:
    return f"Its work is kept: call again with session_id {session_id!r} to resume it."


class ChildRun(FrozenStruct):
    """One child, running for one tool call."""

    coordinator: Any
    tool_name: str
    request: DelegationRequest
    events: ChildEvents
    settings: DelegationConfig

    async def to_end(self) -> Outcome:
        """Return how the child ended.

        Raises CancelledError when the caller was cancelled, after the child has stopped and its closing event was
        emitted. KeyboardInterrupt and SystemExit are raised too.
        """
        started = asyncio.get_running_loop().time()
        heartbeat = start(self._beat, started)
        fatal: BaseException | None = None
        try:
            opening = self.events.resumed if self.request.is_resumed else self.events.spawned
            await self._emit(opening, dict(self.request.details))
            answer = await run_bounded(self._submit, timeout=self.settings.timeout)
            outcome = Outcome.returned(answer, self.request)
        except BaseException as error:
            if not hasattr(error, "code"):
                logger.debug("Child %s failed", self.request.session_id, exc_info=error)
            outcome = Outcome.raised(error, self.request, self.settings.timeout)
            fatal = error if not isinstance(error, Exception) else None
        await run_to_end(self._close, outcome, started, heartbeat)
        if fatal is not None:
            raise fatal
        return outcome

    async def refuse(self, outcome: Outcome) -> None:
        """Emit the closing event of a call that started no child."""
        await self._close(outcome, asyncio.get_running_loop().time())

    async def _submit(self) -> Any:
        # This is another task than the call's own; the app looks the ids up by the running task.
        ids = self.request.dispatch.known()
        with dispatched(self.coordinator, ids) if ids else nullcontext():
            return await self.request.submit(self.coordinator, self.settings)

    async def _close(self, outcome: Outcome, started: float, heartbeat: asyncio.Task[None] | None = None) -> None:
        if heartbeat is not None:
            await cancel_and_wait(heartbeat)
        payload: dict[str, Any] = {
            "success": outcome.error is None and outcome.status in _DONE,
            "status": outcome.status,
            "turn_count": outcome.turn_count,
            "duration_ms": round((asyncio.get_running_loop().time() - started) * 1000, 3),
            **(outcome.spent or await self._contributed_cost()),
        }
        event = self.events.completed
        if outcome.error is not None:
            event = self.events.cancelled if outcome.status == "cancelled" else self.events.error
            payload["error"] = {"type": outcome.error.code, "msg": str(outcome.error)}
        await self._emit(event, payload)

    async def _contributed_cost(self) -> dict[str, Any]:
        """Return the cost that the app contributed for a child that reports no usage itself."""
        channels = getattr(self.coordinator, "channels", None)
        entries = channels.get("session.cost", ()) if isinstance(channels, Mapping) else ()
        name = f"delegate:{self.request.session_id}"
        callback = next((entry["callback"] for entry in entries if entry.get("name") == name), None)
        try:
            cost = await maybe_await(callback()) if callback is not None else None
        except Exception as error:
            logger.warning("The cost of child %s is unknown: %s", self.request.session_id, error)
            return {}
        if not isinstance(cost, Mapping) or "cost_usd" not in cost:
            return {}
        # `cost_usd` of a resumed child covers all of its runs.
        return {"cost_usd": cost.get("call_cost_usd", cost["cost_usd"])}

    async def _beat(self, started: float) -> None:
        loop = asyncio.get_running_loop()
        while (interval := self.settings.heartbeat_interval) is not None:
            await asyncio.sleep(interval)
            elapsed = {"elapsed_seconds": round(loop.time() - started, 3), "timeout_seconds": self.settings.timeout}
            await self._emit(HEARTBEAT, {"tool": self.tool_name, **elapsed})

    async def _emit(self, event: str, more: Mapping[str, Any]) -> None:
        payload = {
            "agent": self.request.agent,
            "sub_session_id": self.request.session_id,
            "parent_session_id": self.coordinator.session_id,
            **self.request.dispatch._asdict(),
            **more,
        }
        await self.coordinator.hooks.emit(event, payload)
