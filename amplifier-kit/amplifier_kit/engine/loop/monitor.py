"""Monitor a turn while it runs: notice a requested cancellation, and emit heartbeats during long waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from amplifier_kit.engine.loop.session import TurnSession
from amplifier_kit.engine.tasks import cancel_and_wait, run_bounded, start

#: Seconds between checks of the cancellation token, which has no callback for this.
_POLL: Final = 0.05


async def _ignore(*_: Any) -> None:
    pass


class TurnMonitor:
    """Monitor one turn from `start()` to `stop()`."""

    def __init__(
        self,
        session: TurnSession,
        *,
        interval: float | None = None,
        on_cancel: Callable[[], Awaitable[None]] = _ignore,
        on_heartbeat: Callable[[list[dict[str, Any]]], Awaitable[None]] = _ignore,
    ) -> None:
        """Call `on_cancel` once, and `on_heartbeat` every `interval` seconds while something runs."""
        self._session = session
        self._interval = interval
        self._on_cancel = on_cancel
        self._on_heartbeat = on_heartbeat
        self._running: dict[str, tuple[str, float]] = {}
        self._last_heartbeat = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._announcement: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        #: Done as soon as the session must stop at once.
        self.immediate_stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Check now, and repeatedly until `stop`."""
        self._check_cancellation()
        self._emit_heartbeat()
        self._timer = asyncio.get_running_loop().call_later(_POLL, self.start)

    async def stop(self) -> None:
        """End the checks and a running heartbeat."""
        if self._timer is not None:
            self._timer.cancel()
        self.immediate_stop.cancel()
        if self._heartbeat is not None:
            await cancel_and_wait(self._heartbeat)

    async def announce_cancellation(self) -> None:
        """Return when a requested cancellation has been announced; at once if none is requested."""
        self._check_cancellation()
        if self._announcement is not None:
            await asyncio.shield(self._announcement)

    async def pause(self, seconds: float) -> None:
        """Wait; raise Stopped when the session must stop at once."""
        await run_bounded(asyncio.sleep, seconds, stop=self.immediate_stop)

    @contextmanager
    def running(self, key: str, name: str) -> Iterator[None]:
        """Name something in heartbeats while the block runs."""
        self._running[key] = (name, time.monotonic())
        try:
            yield
        finally:
            self._running.pop(key, None)

    def _check_cancellation(self) -> None:
        if self._announcement is None and self._session.is_cancelled:
            self._announcement = start(self._on_cancel)
        if self._session.is_cancelled_immediately and not self.immediate_stop.done():
            self.immediate_stop.set_result(None)

    def _emit_heartbeat(self) -> None:
        if self._interval is None or not self._running:
            return
        now = time.monotonic()
        oldest = min(started for _, started in self._running.values())
        is_due = now - max(oldest, self._last_heartbeat) >= self._interval
        if not is_due or (self._heartbeat is not None and not self._heartbeat.done()):
            return
        self._last_heartbeat = now
        running = [
            {"id": key, "name": name, "elapsed_ms": round((now - started) * 1000)}
            for key, (name, started) in self._running.items()
        ]
        self._heartbeat = start(self._on_heartbeat, running)
