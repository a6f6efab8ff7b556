"""Run one child to its end, with a timeout, heartbeats, and exactly one closing event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from amplifier_core.bounded_call import call, running_task
from amplifier_kit.engine.delegation.config import DelegationConfig
from amplifier_kit.engine.delegation.outcome import Outcome
from amplifier_kit.engine.delegation.request import DelegationRequest
from amplifier_kit.engine.tasks import cancel_and_wait, run_bounded, run_to_end, start

__all__ = ["HEARTBEAT", "ChildEvents", "ChildRun"]

logger = logging.getLogger(__name__)

#: Emitted while a tool waits for a child.
HEARTBEAT: Final = "delegation:heartbeat"
#: Seconds to wait for the cost of a child before its closing event is emitted without it.
_COST_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvents:
    """Event names of a child's life; each child emits one of the first two and one of the others."""

    spawned: str
    resumed: str
    completed: str
    cancelled: str
    error: str

    def names(self) -> list[str]:
        """Return each name once, the heartbeat last."""
        ends = (self.completed, self.cancelled, self.error)
        return list(dict.fromkeys((self.spawned, self.resumed, *ends, HEARTBEAT)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRun:
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
        fatal: BaseException | None = None
        try:
            outcome = await self._run(started)
        except BaseException as error:
            outcome = Outcome.raised(error, self.request, self.settings.timeout)
            fatal = error if not isinstance(error, Exception) else None
        await run_to_end(self._close, outcome, started)
        if fatal is not None:
            raise fatal
        return outcome

    async def refused(self, outcome: Outcome) -> None:
        """Emit the closing event of a call that started no child."""
        await self._close(outcome, asyncio.get_running_loop().time())

    async def _run(self, started: float) -> Outcome:
        beating = self._start_beating(started)
        try:
            await self._emit(self._opening(), dict(self.request.details))
            return await self._wait_for_child()
        finally:
            if beating is not None:
                await cancel_and_wait(beating)

    async def _wait_for_child(self) -> Outcome:
        try:
            answer = await run_bounded(self._submit, timeout=self.settings.timeout)
            return Outcome.returned(answer, self.request)
        except Exception as error:
            if not hasattr(error, "code"):
                logger.debug("Child %s failed", self.request.session_id, exc_info=error)
            return Outcome.raised(error, self.request, self.settings.timeout)

    async def _submit(self) -> Any:
        work = self.request.submit(self.coordinator, self.settings)
        return await self.request.dispatch.carry(self.coordinator, work)

    def _opening(self) -> str:
        return self.events.resumed if self.request.is_resumed else self.events.spawned

    async def _close(self, outcome: Outcome, started: float) -> None:
        payload: dict[str, Any] = {
            "success": outcome.is_success,
            "status": outcome.status,
            "turn_count": outcome.turn_count,
            "duration_ms": round((asyncio.get_running_loop().time() - started) * 1000, 3),
            **await self._spent(outcome),
        }
        event = self.events.completed
        if outcome.error is not None:
            event = self.events.cancelled if outcome.is_cancelled else self.events.error
            payload["error"] = {"type": outcome.error.code, "msg": str(outcome.error)}
        await self._emit(event, payload)

    async def _spent(self, outcome: Outcome) -> dict[str, Any]:
        """Return the usage that the child reports itself, else the cost that the app contributed."""
        return outcome.spent or await self._contributed_cost()

    async def _contributed_cost(self) -> dict[str, Any]:
        channels = getattr(self.coordinator, "channels", None)
        entries = channels.get("session.cost", ()) if isinstance(channels, Mapping) else ()
        for entry in entries:
            if entry.get("name") == f"delegate:{self.request.session_id}":
                try:
                    cost = await call(running_task(), _COST_SECONDS, entry["callback"])
                except Exception as error:
                    logger.warning("The cost of child %s is unknown: %s", self.request.session_id, error)
                    return {}
                if not isinstance(cost, Mapping) or "cost_usd" not in cost:
                    return {}
                # Of a resumed child, `cost_usd` covers all of its runs.
                return {"cost_usd": cost.get("call_cost_usd", cost["cost_usd"])}
        return {}

    def _start_beating(self, started: float) -> asyncio.Task[None] | None:
        interval = self.settings.heartbeat_interval
        return start(self._beat, interval, started) if interval is not None else None

    async def _beat(self, interval: float, started: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval)
            elapsed = {"elapsed_seconds": round(loop.time() - started, 3), "timeout_seconds": self.settings.timeout}
            await self._emit(HEARTBEAT, {"tool": self.tool_name, **elapsed})

    async def _emit(self, event: str, more: Mapping[str, Any]) -> None:
        request = self.request
        payload = {
            "agent": request.agent,
            "sub_session_id": request.session_id,
            "parent_session_id": self.coordinator.session_id,
            **request.dispatch.fields(),
            **more,
        }
        await self.coordinator.hooks.emit(event, payload)
