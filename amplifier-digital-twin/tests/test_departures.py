"""Twins that are destroyed while their universe goes on."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.departures import Departures
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.state import Place, State


class _Leaving:
    """A twin that goes when it may, or not at all."""

    def __init__(self, fault: TwinError | None = None) -> None:
        self.may_go = asyncio.Event()
        self.fault = fault
        self.is_gone = False

    async def destroy(self) -> None:
        await self.may_go.wait()
        if self.fault is not None:
            raise self.fault
        self.is_gone = True


def _place(folder: Path) -> Place:
    place = Place(folder)
    state: dict[str, Any] = {"id": "dtu-1", "name": None, "profile": "p", "profile_path": "/p", "owner": 0}
    place.write(State(**state, holder=Holder.current(), created=time.time(), lease_until=time.time()))
    place.add_twin("embedded", "dtu-1-build", folder / "twin")
    return place


async def test_a_twin_is_in_the_state_until_it_is_gone(tmp_path: Path) -> None:
    """A crash on the way must find what is to be removed; a wait that is given up leaves the rest going on."""
    place, twin = _place(tmp_path), _Leaving()
    departures = Departures(place)
    async with departures.after(cast("Twin", twin), "dtu-1-build"):
        assert not twin.is_gone
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await departures.wait()
    assert [one.id for one in place.read().twins] == ["dtu-1-build"]
    twin.may_go.set()
    await departures.wait()
    assert bool(twin.is_gone)
    assert place.read().twins == ()
    await departures.wait()


async def test_a_twin_that_does_not_go_is_told(tmp_path: Path) -> None:
    """Whoever waits hears why, and the state still names it."""
    place, twin = _place(tmp_path), _Leaving(TwinError("removal_failed", "it stays", "try again"))
    departures = Departures(place)
    async with departures.after(cast("Twin", twin), "dtu-1-build"):
        twin.may_go.set()
    with pytest.raises(TwinError, match="it stays"):
        await departures.wait()
    assert [one.id for one in place.read().twins] == ["dtu-1-build"]


async def test_after_a_fault_nothing_is_left_when_it_is_told(tmp_path: Path) -> None:
    """Whoever hears that something failed finds no twin any more; that one does not go is told by the next wait."""
    place, twin = _place(tmp_path), _Leaving()
    departures = Departures(place)
    twin.may_go.set()
    with pytest.raises(ValueError, match="failed"):
        async with departures.after(cast("Twin", twin), "dtu-1-build"):
            raise ValueError("failed")
    assert twin.is_gone
    assert place.read().twins == ()
    await departures.wait()
