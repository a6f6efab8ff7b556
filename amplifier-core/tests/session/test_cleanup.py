"""cleanup(): everything once, newest first, whatever fails on the way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader


@pytest.fixture
async def session(make_plan: Any) -> AmplifierSession:
    """Return an initialised session."""
    session = AmplifierSession(make_plan())
    await session.initialize()
    return session


async def test_once(session: AmplifierSession) -> None:
    """A second cleanup() runs only what was registered since the first."""
    ran: list[str] = []
    session.coordinator.register_cleanup(lambda: ran.append("early"))

    await session.cleanup()
    session.coordinator.register_cleanup(lambda: ran.append("late"))
    await session.cleanup()
    await session.cleanup()

    assert ran == ["early", "late"]


async def test_failing_session_end_is_swallowed(session: AmplifierSession) -> None:
    """A registry that raises does not keep the cleanups from running."""
    ran: list[str] = []

    async def broken_emit(event: str, data: Any) -> None:
        raise RuntimeError("no bus")

    session.coordinator.hooks.emit = broken_emit  # type: ignore[method-assign, assignment]
    session.coordinator.register_cleanup(lambda: ran.append("ran"))

    await session.cleanup()

    assert ran == ["ran"]


@pytest.mark.parametrize("own", [True, False])
async def test_only_the_owner_cleans_the_loader(make_plan: Any, tmp_path: Path, own: bool) -> None:
    """A loader the session made takes its sys.path entries back; one it was given is left to its giver."""
    loader = ModuleLoader()
    session = AmplifierSession(make_plan(), None if own else loader)
    await session.initialize()
    entry = str(tmp_path / "added")
    sys.path.insert(0, entry)
    session.loader._added_paths.append(entry)

    await session.cleanup()

    assert (entry in sys.path) is not own
    loader.cleanup()
    assert entry not in sys.path
