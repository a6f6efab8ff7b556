"""cleanup(): everything once, newest first, whatever fails on the way."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader
from amplifier_core.session import get_session


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


async def test_failing_functions_do_not_stop_the_others(
    session: AmplifierSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Exceptions are logged and skipped."""
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("cannot close")

    session.coordinator.register_cleanup(lambda: ran.append("a"))
    session.coordinator.register_cleanup(fail)
    session.coordinator.register_cleanup(lambda: ran.append("b"))

    await session.cleanup()

    assert ran == ["b", "a"]
    assert "Error during cleanup: cannot close" in caplog.messages


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_fatal_errors_are_raised_after_all_ran(session: AmplifierSession, error: type[BaseException]) -> None:
    """The first fatal exception is remembered, everything still runs, then it is raised."""
    ran: list[str] = []

    async def fail() -> None:
        raise error("first")

    def fail_later() -> None:
        raise SystemExit("second")

    session.coordinator.register_cleanup(lambda: ran.append("oldest"))
    session.coordinator.register_cleanup(fail_later)
    session.coordinator.register_cleanup(fail)

    with pytest.raises(error, match="first"):
        await session.cleanup()

    assert ran == ["oldest"]
    assert session.initialized is False
    with pytest.raises(LookupError):
        get_session(session.session_id)


async def test_outer_cancellation_during_session_end(session: AmplifierSession) -> None:
    """Cancelling cleanup() while a handler of session:end hangs still runs every function, then propagates."""
    ran: list[str] = []
    entered = asyncio.Event()

    async def hang(event: str, data: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    session.coordinator.hooks.register("session:end", hang)
    session.coordinator.register_cleanup(lambda: ran.append("ran"))
    task = asyncio.create_task(session.cleanup())
    await entered.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ran == ["ran"]
    assert session.initialized is False


async def test_outer_cancellation_during_a_function(session: AmplifierSession) -> None:
    """Cancelling cleanup() while a function hangs lets the others run, then propagates."""
    ran: list[str] = []
    entered = asyncio.Event()

    async def hang() -> None:
        entered.set()
        await asyncio.Event().wait()

    session.coordinator.register_cleanup(lambda: ran.append("ran"))
    session.coordinator.register_cleanup(hang)
    task = asyncio.create_task(session.cleanup())
    await entered.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ran == ["ran"]


@pytest.mark.parametrize("place", ["cleanup function", "handler of session:end"])
async def test_reentrancy(session: AmplifierSession, place: str) -> None:
    """A cleanup() called from inside cleanup() runs nothing twice and does not hang."""
    ran: list[str] = []

    async def again(*_: Any) -> None:
        ran.append("again")
        await session.cleanup()

    session.coordinator.hooks.register("session:end", lambda event, data: ran.append("end"))
    if place == "cleanup function":
        session.coordinator.register_cleanup(again)
    else:
        session.coordinator.hooks.register("session:end", again)
    session.coordinator.register_cleanup(lambda: ran.append("one"))
    session.coordinator.register_cleanup(lambda: ran.append("two"))

    await session.cleanup()

    assert sorted(ran) == ["again", "end", "one", "two"]


async def test_concurrent_cleanups(session: AmplifierSession) -> None:
    """Two cleanups at the same time run every function once between them."""
    ran: list[str] = []

    async def slow() -> None:
        await asyncio.sleep(0)
        ran.append("slow")

    session.coordinator.register_cleanup(slow)
    session.coordinator.register_cleanup(lambda: ran.append("fast"))

    await asyncio.gather(session.cleanup(), session.cleanup())

    assert sorted(ran) == ["fast", "slow"]


async def test_function_registered_during_cleanup(session: AmplifierSession) -> None:
    """What is registered while cleaning up is kept for the next cleanup()."""
    ran: list[str] = []
    session.coordinator.register_cleanup(
        lambda: session.coordinator.register_cleanup(lambda: ran.append("registered late"))
    )

    await session.cleanup()
    assert ran == []
    await session.cleanup()

    assert ran == ["registered late"]


async def test_overridden_coordinator_cleanup(session: AmplifierSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session goes through coordinator.cleanup(); when that raises, the session still lets go."""
    ran: list[str] = []

    async def broken() -> None:
        ran.append("override")
        raise ValueError("override failed")

    monkeypatch.setattr(session.coordinator, "cleanup", broken)
    monkeypatch.setattr(session.loader, "cleanup", lambda: ran.append("loader"))

    with pytest.raises(ValueError, match="override failed"):
        await session.cleanup()

    assert ran == ["override", "loader"]
    assert session.initialized is False


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


async def test_initialize_again_after_cleanup(make_plan: Any, make_tool: Any) -> None:
    """A cleaned-up session may be initialised again and then has a second end."""
    make_tool("a")
    session = AmplifierSession(make_plan(tools=[{"module": "tool-a"}]))
    ends: list[str] = []
    session.coordinator.hooks.register("session:end", lambda event, data: ends.append(event))

    for _ in range(2):
        async with session:
            assert await session.execute("x") == "echo: x"

    assert ends == ["session:end"] * 2
