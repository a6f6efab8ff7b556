"""Phase 6: on_session_ready of every module runs once, after all have been mounted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader


@pytest.fixture
def hooks(make_module: Any) -> Any:
    """Give `hooks(a="body", ...)`: it writes hook modules whose on_session_ready has that body; returns the section."""

    def write(**bodies: str) -> list[dict[str, str]]:
        for name, body in bodies.items():
            make_module(
                f"hooks-{name}",
                "import asyncio\nasync def mount(coordinator, config): ...\n"
                f"async def on_session_ready(coordinator):\n    {body}\n",
            )
        return [{"module": f"hooks-{name}"} for name in bodies]

    return write


def note(name: str) -> str:
    """Return code that notes that a callback ran."""
    return f"coordinator.register_capability('seen', [*(coordinator.get_capability('seen') or []), '{name}'])"


async def test_error_while_reporting_is_swallowed(make_plan: Any, hooks: Any) -> None:
    """A registry that raises while a failure is reported does not stop the next callback."""
    session = AmplifierSession(make_plan(hooks=hooks(a="raise ValueError", b=note("b"))))

    async def broken_emit(event: str, data: Any) -> None:
        raise RuntimeError("no bus")

    session.coordinator.hooks.emit = broken_emit  # type: ignore[method-assign, assignment]
    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["b"]


async def test_deadline(make_plan: Any, hooks: Any, listen: Any) -> None:
    """A callback past session.ready_timeout is cancelled and reported with the word timeout; the next one runs."""
    plan = make_plan(session={"ready_timeout": 0.01}, hooks=hooks(a="await asyncio.Event().wait()", b=note("b")))
    session = AmplifierSession(plan)
    heard = listen(session)

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["b"]
    [(event, data)] = heard
    assert (event, data["module_id"]) == ("module:on_session_ready_failed", "hooks-a")
    assert "timeout" in data["error"]


async def test_sync_callback_is_skipped_and_reported(
    make_plan: Any, make_module: Any, listen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A sync on_session_ready is not called: the loader warns, and the failure event makes it visible."""
    make_module(
        "hooks-sync",
        """
        async def mount(coordinator, config): ...
        def on_session_ready(coordinator):
            coordinator.register_capability("seen", True)
        """,
    )
    session = AmplifierSession(make_plan(hooks=[{"module": "hooks-sync"}]))
    heard = listen(session)

    await session.initialize()

    assert session.coordinator.get_capability("seen") is None
    assert "Module 'hooks-sync' defines on_session_ready() as sync — must be async. Skipping." in caplog.messages
    [(event, data)] = heard
    assert (event, data["module_id"]) == ("module:on_session_ready_failed", "hooks-sync")
    assert "sync" in data["error"]


async def test_sessions_with_one_loader_have_separate_queues(make_plan: Any, hooks: Any) -> None:
    """Sessions that start at the same time with one loader each run their own callbacks, on their own coordinator."""
    loader = ModuleLoader()
    section = hooks(a="await asyncio.sleep(0)\n    " + note("a"), b="await asyncio.sleep(0)\n    " + note("b"))
    sessions = [AmplifierSession(make_plan(hooks=section), loader) for _ in range(20)]

    await asyncio.gather(*(session.initialize() for session in sessions))

    assert [session.coordinator.get_capability("seen") for session in sessions] == [["a", "b"]] * 20
    assert loader.get_on_session_ready_queue() == []
