"""Run one child to its end: with a deadline, signs of life, and exactly one event for how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.bounded import Contained, bounded, drop, run_to_end
from amplifier_kit.engine.delegation.config import DelegationConfig
from amplifier_kit.engine.delegation.order import Order
from amplifier_kit.engine.delegation.outcome import Outcome

__all__ = ["HEARTBEAT", "ChildEvents", "ChildRun"]

logger = logging.getLogger(__name__)

#: The sign of life of every tool that waits for a child; not one of the events that tell of its life.
HEARTBEAT: Final = "delegation:heartbeat"
#: How long the session may take to say what a child has cost: its end is told in any case.
_COST_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEvents:
    """Name the events of a child's life; each child has one of the first two and one of the others."""

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
    """One child at work for one call of a tool."""

    coordinator: Any
    tool_name: str
    order: Order
    events: ChildEvents
    settings: DelegationConfig

    async def to_end(self) -> Outcome:
        """Return how the child ended, whatever happened to it.

        Raises CancelledError, after the child was stopped and its end told, when the caller was cancelled. What ends
        the whole process is raised too.
        """
        started = asyncio.get_running_loop().time()
        fatal: BaseException | None = None
        try:
            outcome = await self._lived(started)
        except BaseException as error:
            outcome = Outcome.raised(error, self.order, self.settings.timeout)
            fatal = error if not isinstance(error, Exception) else None
        await run_to_end(self._close(outcome, started))
        if fatal is not None:
            raise fatal
        return outcome

    async def refused(self, outcome: Outcome) -> None:
        """Tell of a call for which no child was started."""
        await self._close(outcome, asyncio.get_running_loop().time())

    async def _lived(self, started: float) -> Outcome:
        beating = self._start_beating(started)
        try:
            await self._tell(self._opening(), dict(self.order.details))
            return await self._awaited()
        finally:
            if beating is not None:
                await drop(beating)

    async def _awaited(self) -> Outcome:
        work = self.order.dispatch.carry(self.coordinator, self._given())
        try:
            return Outcome.returned(await bounded(work, timeout=self.settings.timeout), self.order)
        except Exception as error:
            if not hasattr(error, "code"):
                logger.debug("Child %s failed", self.order.session_id, exc_info=error)
            return Outcome.raised(error, self.order, self.settings.timeout)

    async def _given(self) -> Any:
        return await self.order.given_to(self.coordinator, self.settings)

    def _opening(self) -> str:
        return self.events.resumed if self.order.is_resumed else self.events.spawned

    async def _close(self, outcome: Outcome, started: float) -> None:
        told: dict[str, Any] = {
            "success": outcome.is_success,
            "status": outcome.status,
            "turn_count": outcome.turn_count,
            "duration_ms": round((asyncio.get_running_loop().time() - started) * 1000, 3),
            **await self._spent(outcome),
        }
        event = self.events.completed
        if outcome.problem is not None:
            event = self.events.cancelled if outcome.is_cancelled else self.events.error
            told["error"] = {"type": outcome.problem.code, "msg": str(outcome.problem)}
        await self._tell(event, told)

    async def _spent(self, outcome: Outcome) -> dict[str, Any]:
        """Return what the child used: as it says itself, else what the session was told of its cost."""
        return outcome.spent or await self._contributed_cost()

    async def _contributed_cost(self) -> dict[str, Any]:
        channels = getattr(self.coordinator, "channels", None)
        entries = channels.get("session.cost", ()) if isinstance(channels, Mapping) else ()
        for entry in entries:
            if entry.get("name") == f"delegate:{self.order.session_id}":
                try:
                    cost = await bounded(_given_by(entry["callback"]), timeout=_COST_SECONDS)
                except Exception as error:
                    logger.warning("What child %s has cost cannot be told: %s", self.order.session_id, error)
                    return {}
                if not isinstance(cost, Mapping) or "cost_usd" not in cost:
                    return {}
                # Of a child that goes on, `cost_usd` is that of its whole life.
                return {"cost_usd": cost.get("call_cost_usd", cost["cost_usd"])}
        return {}

    def _start_beating(self, started: float) -> asyncio.Task[None] | None:
        interval = self.settings.heartbeat_interval
        return asyncio.create_task(Contained(self._beat(interval, started))) if interval is not None else None

    async def _beat(self, interval: float, started: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(interval)
            elapsed = {"elapsed_seconds": round(loop.time() - started, 3), "timeout_seconds": self.settings.timeout}
            await self._tell(HEARTBEAT, {"tool": self.tool_name, **elapsed})

    async def _tell(self, event: str, more: Mapping[str, Any]) -> None:
        order = self.order
        payload = {
            "agent": order.agent,
            "sub_session_id": order.session_id,
            "parent_session_id": self.coordinator.session_id,
            **order.dispatch.fields(),
            **more,
        }
        await self.coordinator.hooks.emit(event, payload)


async def _given_by(contributor: Callable[[], Any]) -> Any:
    return await maybe_await(contributor())
