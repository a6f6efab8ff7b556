"""How a session ends: cleanup() and session:end."""

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


@pytest.mark.parametrize("way", ["cleanup", "exit", "exit with error", "failed turn"])
async def test_session_end_fires_on_every_exit_path(make_plan: Any, make_module: Any, listen: Any, way: str) -> None:
    """However an initialised session ends, session:end is said, with how the last turn went."""
    make_module(
        "loop-fails",
        """
        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
                raise OSError("no")
        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
        """,
    )
    plan = make_plan(session={"orchestrator": "loop-fails"}) if way == "failed turn" else make_plan()
    session = AmplifierSession(plan)
    heard = listen(session)

    if way == "cleanup":
        await session.initialize()
        await session.cleanup()
    else:
        try:
            async with session:
                if way == "failed turn":
                    await session.execute("x")
                if way == "exit with error":
                    raise KeyError("app")
        except (KeyError, OSError):
            pass

    [status] = [data["status"] for event, data in heard if event == "session:end"]
    assert status == ("failed" if way == "failed turn" else "completed")
