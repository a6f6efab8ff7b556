"""What a session says about itself: start, resume, config, fork, end."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession


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
