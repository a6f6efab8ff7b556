"""Twins on their way out: their files take their time to go, and nobody has to wait for that."""

from __future__ import annotations

import asyncio

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.state import Place


class Departures:
    """The twins of a universe that are being destroyed while it goes on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._leaving: list[asyncio.Task[None]] = []

    def begin(self, twin: Twin, identifier: str) -> None:
        """Destroy a twin from now on; the state knows it until it is gone."""
        self._leaving.append(asyncio.create_task(self._leave(twin, identifier)))

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
