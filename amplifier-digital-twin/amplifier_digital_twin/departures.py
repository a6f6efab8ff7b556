"""Twins on their way out: their files take their time to go, and nobody has to wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.state import Place


class Departures:
    """The twins of a universe that are being destroyed while it goes on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._leaving: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def after(self, twin: Twin, identifier: str) -> AsyncIterator[Twin]:
        """Give a twin, and destroy it behind the caller's back afterwards; when something fails, before that is told.

        The state knows it until it is gone.
        """
        is_done = False
        try:
            yield twin
            is_done = True
        finally:
            self._leaving.append(asyncio.create_task(self._leave(twin, identifier)))
            if not is_done:
                await asyncio.wait(self._leaving)

    async def wait(self) -> None:
        """Return when all are gone; raise what keeps one from going. Cancelled, it lets them go on."""
        if self._leaving:
            await asyncio.wait(self._leaving)
        leaving, self._leaving = self._leaving, []
        for task in leaving:
            task.result()

    async def _leave(self, twin: Twin, identifier: str) -> None:
        await twin.destroy()
        self._place.remove_twin(identifier)
