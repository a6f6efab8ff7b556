"""Look after a turn while it waits: notice a request to stop, and give signs of life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

from amplifier_kit.engine.loop.host import Host
from amplifier_kit.engine.tasks import cancel_and_wait, run_bounded, start

__all__ = ["Watch"]

#: Seconds between looks at the cancellation token, which calls nobody.
_POLL: Final = 0.05


class Watch:
    """Watch one turn from `start()` to `stop()`; `at_once` is done as soon as everything must be dropped."""

    def __init__(
        self,
        host: Host,
        *,
        interval: float | None,
        on_cancel: Callable[[], Coroutine[Any, Any, None]],
        on_beat: Callable[[list[dict[str, Any]]], Coroutine[Any, Any, None]],
    ) -> None:
        self._host = host
        self._interval = interval
        self._on_cancel = on_cancel
        self._on_beat = on_beat
        self._running: dict[str, tuple[str, float]] = {}
        self._last_beat = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self.at_once: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begin to look."""
        self._look()

    async def stop(self) -> None:
        """Look no more, and leave nothing running."""
        if self._timer is not None:
            self._timer.cancel()
        self.at_once.cancel()
        if self._beating is not None:
            await cancel_and_wait(self._beating)

    async def cancellation_told(self) -> None:
        """Return when everyone who must know of a requested cancellation does; at once when there is none."""
        self._notice()
        if self._cancelling is not None:
            await asyncio.shield(self._cancelling)

    async def pause(self, seconds: float) -> None:
        """Wait; raise Stopped when everything must be dropped meanwhile."""
        await run_bounded(asyncio.sleep, seconds, stop=self.at_once)

    @contextmanager
    def running(self, key: str, name: str) -> Iterator[None]:
        """Count something as running for the length of a block."""
        self._running[key] = (name, time.monotonic())
        try:
            yield
        finally:
            self._running.pop(key, None)

    def _look(self) -> None:
        self._notice()
        self._beat()
        self._timer = asyncio.get_running_loop().call_later(_POLL, self._look)

    def _notice(self) -> None:
        if self._cancelling is None and self._host.is_cancelled:
            self._cancelling = start(self._on_cancel)
        if self._host.is_cancelled_at_once and not self.at_once.done():
            self.at_once.set_result(None)

    def _beat(self) -> None:
        if self._interval is None or not self._running:
            return
        now = time.monotonic()
        oldest = min(started for _, started in self._running.values())
        is_due = now - max(oldest, self._last_beat) >= self._interval
        if not is_due or (self._beating is not None and not self._beating.done()):
            return
        self._last_beat = now
        running = [
            {"id": key, "name": name, "elapsed_ms": round((now - started) * 1000)}
            for key, (name, started) in self._running.items()
        ]
        self._beating = start(self._on_beat, running)
