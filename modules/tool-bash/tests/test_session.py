"""In a real session the policy comes first, the model reads the result, and a cancelled session leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import wait_for

Naps = Callable[[], list[int]]
MakeSession = Callable[..., AmplifierSession]
LastResult = Callable[[AmplifierSession], str]


@pytest.fixture
def make_session(scripted_session: MakeSession, tmp_path: Path) -> MakeSession:
    """Give `make_session(given, verdict="allow")`: a session whose model calls bash with this input."""

    def make(given: dict[str, Any], verdict: str = "allow") -> AmplifierSession:
        made = scripted_session([("bash", given)], "done", tools=[{"module": "tool-bash", "config": {"timeout": 60}}])
        made.coordinator.register_capability("session.working_dir", str(tmp_path))
        made.coordinator.register_policy(
            "test", lambda action, details: verdict if action == "process.exec" else "deny"
        )
        return made

    return make


@pytest.fixture
def last_result(requests_of: Callable[[AmplifierSession], list[Any]]) -> LastResult:
    """Give `last_result(session)`: what the model read last."""
    return lambda session: str(requests_of(session)[-1][-1]["content"])


async def test_the_model_reads_the_result(make_session: MakeSession, last_result: LastResult, tmp_path: Path) -> None:
    """What the command printed is in the next request."""
    async with make_session({"command": "touch made; echo a word"}) as session:
        assert await session.execute("go") == "done"
        assert "a word" in last_result(session)
    assert (tmp_path / "made").exists()


async def test_what_is_denied_is_not_run(make_session: MakeSession, last_result: LastResult, tmp_path: Path) -> None:
    """The policy is asked for process.exec before anything is started."""
    async with make_session({"command": "touch made"}, verdict="deny") as session:
        await session.execute("go")
        assert "Denied" in last_result(session)
    assert not (tmp_path / "made").exists()


async def test_jobs_end_with_the_session(
    make_session: MakeSession, last_result: LastResult, nap: str, naps: Naps
) -> None:
    """A job runs on between turns and ends when the session is cleaned up."""
    async with make_session({"command": nap, "run_in_background": True}) as session:
        await session.execute("go")
        assert "Command started in background with PID" in last_result(session)
        assert await wait_for(lambda: bool(naps()), timeout=60)
    assert naps() == []


@pytest.mark.parametrize("way", ["token", "task"])
async def test_a_cancelled_session_leaves_nothing(make_session: MakeSession, nap: str, naps: Naps, way: str) -> None:
    """Whether it is asked to stop at once or its task is cancelled, what ran is gone when the session is."""
    async with make_session({"command": f"env -i setsid -f {nap}; {nap}; true"}) as session:
        task = asyncio.create_task(session.execute("go"))
        assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
        if way == "token":
            await session.coordinator.request_cancel(immediate=True)
        else:
            task.cancel()
        await asyncio.wait([task])
    assert naps() == []
