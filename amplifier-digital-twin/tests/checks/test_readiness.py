"""Signs that a universe is ready."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import HttpProbe, Readiness, User
from amplifier_digital_twin.readiness import wait_ready


async def _wait(twin: Any, environment: Any, *items: Readiness, once: bool = False) -> list[dict[str, Any]]:
    return await wait_ready(items, twin, environment, User(), once)


async def test_all_kinds_of_signs(twin: Any, environment: Any, server: str) -> None:
    """A command, a port and a request are told in their order, and the way in is closed again."""
    results = await _wait(
        twin,
        environment,
        Readiness("command", command="true"),
        Readiness("port", tcp=int(server.rpartition(":")[2])),
        Readiness("web", http=HttpProbe(f"{server}/json", expect_json={"status": "ok"})),
    )
    assert [(item["name"], item["ready"], item["attempts"]) for item in results] == [
        ("command", True, 1),
        ("port", True, 1),
        ("web", True, 1),
    ]
    assert [sockets.is_closed for sockets in twin.made_sockets] == [True]


async def test_a_sign_that_comes_later_is_waited_for(twin: Any, environment: Any) -> None:
    """It is looked at again and again, and what the looks leave behind counts."""
    command = "echo x >> count; test $(wc -l < count) -ge 3"
    (result,) = await _wait(twin, environment, Readiness("late", command=command, interval=0.01))
    assert (result["ready"], result["attempts"]) == (True, 3)


async def test_retries_and_time_end_the_waiting(twin: Any, environment: Any) -> None:
    """Who never comes is told with the reason of the last look."""
    retries, late = await _wait(
        twin,
        environment,
        Readiness("retries", command="echo not yet >&2; exit 4", interval=0.01, retries=2),
        Readiness("time", command="sleep 60", timeout=0.3, interval=0.1),
    )
    assert (retries["ready"], retries["attempts"]) == (False, 2)
    assert retries["reason"] == "the command's exit code is 4: not yet"
    assert not late["ready"]
    assert "was not done after" in late["reason"]


async def test_a_command_that_says_nothing(twin: Any, environment: Any) -> None:
    """Its exit code is the whole reason."""
    (result,) = await _wait(twin, environment, Readiness("silent", command="exit 3"), once=True)
    assert result["reason"] == "the command's exit code is 3"


async def test_once_is_once(twin: Any, environment: Any) -> None:
    """A single look does not wait, and leaves things as they are."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    (result,) = await _wait(twin, environment, Readiness("port", tcp=port), once=True)
    assert (result["ready"], result["attempts"]) == (False, 1)
    assert f"port {port}: " in result["reason"]


@pytest.mark.parametrize("item", [Readiness("a", command="true"), Readiness("a", tcp=1)])
async def test_a_twin_that_is_gone_is_not_ready(twin: Any, environment: Any, item: Readiness) -> None:
    """Nobody waits for a twin that will not come."""
    twin.is_running = False
    (result,) = await _wait(twin, environment, item)
    assert (result["ready"], result["reason"]) == (False, "the twin does not run")
    assert result["attempts"] <= 1


async def test_nothing_to_wait_for(twin: Any, environment: Any) -> None:
    """Without signs there is no result, and nothing is opened."""
    assert await _wait(twin, environment) == []
    assert twin.made_sockets == []


async def test_waiting_can_be_given_up(twin: Any, environment: Any) -> None:
    """A cancelled wait closes what it opened."""
    task = asyncio.create_task(_wait(twin, environment, Readiness("a", tcp=1, interval=0.05)))
    while not twin.made_sockets:  # noqa: ASYNC110 - a list of somebody else's
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [sockets.is_closed for sockets in twin.made_sockets] == [True]
