"""What a session says about itself: start, resume, config, fork, end."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.events import ALL_EVENTS


async def test_start_comes_before_the_orchestrator(make_plan: Any, make_module: Any, listen: Any) -> None:
    """The orchestrator runs after session:start, whose event carries the ids of the turn it opens."""
    make_module(
        "loop-says",
        """
        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
                await hooks.emit("loop:runs", {})
                return coordinator.turn_id
        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
        """,
    )
    session = AmplifierSession(make_plan(session={"orchestrator": "loop-says"}))
    heard = listen(session)
    await session.initialize()

    turn_id = await session.execute("go")

    assert [event for event, _ in heard] == ["session:start", "loop:runs"]
    assert [data["turn_id"] for _, data in heard] == [turn_id, turn_id]


@pytest.mark.parametrize(("resumed", "parent"), [(False, None), (True, None), (False, "p")])
async def test_metadata_is_passed_on(make_plan: Any, listen: Any, resumed: bool, parent: str | None) -> None:
    """session.metadata is on start, resume and fork as it is, and no key when it is empty."""
    metadata = {"user": "ada", "nested": {"list": [1, 2]}}
    session = AmplifierSession(make_plan(session={"metadata": metadata}), parent_id=parent, is_resumed=resumed)
    bare = AmplifierSession(make_plan(session={"metadata": {}}), parent_id=parent, is_resumed=resumed)
    heard, heard_bare = listen(session), listen(bare)

    for one in (session, bare):
        await one.initialize()
        await one.execute("x")

    assert heard
    assert all(data["metadata"] == metadata for _, data in heard)
    assert not any("metadata" in data for _, data in heard_bare)


async def test_raw_plan(make_plan: Any, listen: Any) -> None:
    """With session.raw the redacted plan is on session:fork and in session:config, right after session:start."""
    plan = make_plan(
        session={"raw": True},
        providers=[{"module": "provider-plain", "config": {"api_key": "sk-secret", "model": "m"}}],
    )
    session = AmplifierSession(plan, parent_id="p")
    heard = listen(session)
    await session.initialize()

    await session.execute("one")
    await session.execute("two")

    assert [event for event, _ in heard] == ["session:fork", "session:start", "session:config"]
    fork, start, config = (data for _, data in heard)
    assert "raw" not in start
    assert config["session_id"] == session.session_id
    for data in (fork, config):
        assert data["raw"]["session"] == plan["session"]
        assert data["raw"]["providers"][0]["config"]["model"] == "m"
        assert "sk-secret" not in str(data)
    assert plan["providers"][0]["config"]["api_key"] == "sk-secret"
    assert "session:config" not in ALL_EVENTS


async def test_raw_plan_with_objects(make_plan: Any, listen: Any) -> None:
    """A plan that is not JSON can still be shown: objects appear as text."""
    plan = make_plan(session={"raw": True}, tools=[{"config": {"client": object(), "set": {1}}}])
    session = AmplifierSession(plan)
    heard = listen(session)
    await session.initialize()

    assert await session.execute("x") == "echo: x"
    assert "object object" in heard[-1][1]["raw"]["tools"][0]["config"]["client"]


async def test_session_end(make_plan: Any, listen: Any) -> None:
    """cleanup() says session:end with the status, once."""
    session = AmplifierSession(make_plan())
    heard = listen(session)
    await session.initialize()
    await session.execute("x")

    await session.cleanup()
    await session.cleanup()

    ends = [data for event, data in heard if event == "session:end"]
    assert [(data["session_id"], data["status"]) for data in ends] == [(session.session_id, "completed")]
    assert session.status.ended_at is not None


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


async def test_no_end_without_a_beginning(make_plan: Any, listen: Any) -> None:
    """A session that was never initialised, or failed to be, has no end to announce."""
    fresh = AmplifierSession(make_plan())
    failed = AmplifierSession(make_plan(session={"orchestrator": "loop-nowhere"}))
    heard = [listen(fresh), listen(failed)]
    with pytest.raises(RuntimeError):
        await failed.initialize()

    await fresh.cleanup()
    await failed.cleanup()

    assert heard == [[], []]
