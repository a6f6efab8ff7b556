"""Wait until a universe is ready, by the signs that its profile names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amplifier_digital_twin.backends.twin import Run, Sockets, Twin
from amplifier_digital_twin.checks.http import check_http
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Readiness, User

#: How long a single look may take, where the sign's own time is not shorter.
_LOOK: Final = 10.0


async def wait_ready(
    items: Sequence[Readiness],
    twin: Twin,
    environment: Callable[[User], Mapping[str, str]],
    user: User,
    once: bool = False,
    sockets: Sockets | None = None,
) -> list[dict[str, Any]]:
    """Look at all signs at the same time until each is there or its time is up; `once`: look a single time.

    Returns for each `{name, ready, reason, attempts, seconds}`, in their order. `sockets` are opened, and closed again,
    when none are given.
    """
    if not items:
        return []
    own = None
    if sockets is None and any(item.command is None for item in items):
        try:
            own = sockets = await twin.sockets()
        except TwinError as error:
            return [_result(item, f"{error}", 0, 0.0) for item in items]
    try:
        look = _Look(twin, environment, user, sockets)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_wait(item, look, once)) for item in items]
        return [task.result() for task in tasks]
    finally:
        if own is not None:
            await own.close()


async def _wait(item: Readiness, look: _Look, once: bool) -> dict[str, Any]:
    begin = time.monotonic()
    attempts = 0
    while True:
        attempts += 1
        left = item.timeout - (time.monotonic() - begin)
        problem = await look.at(item, max(min(left, _LOOK), 0.05))
        spent = time.monotonic() - begin
        is_last = once or attempts == item.retries or spent + item.interval >= item.timeout or not look.twin.is_running
        if not problem or is_last:
            return _result(item, problem, attempts, spent)
        await asyncio.sleep(item.interval)


class _Look:
    """One look at a sign."""

    def __init__(
        self,
        twin: Twin,
        environment: Callable[[User], Mapping[str, str]],
        user: User,
        sockets: Sockets | None,
    ) -> None:
        self.twin = twin
        self._environment = environment
        self._user = user
        self._sockets = sockets

    async def at(self, item: Readiness, timeout: float) -> str:
        """Return why the sign is not there; nothing when it is."""
        try:
            if item.command is not None:
                return await self._command(item.command, timeout)
            assert self._sockets is not None
            if item.http is not None:
                return (await check_http(item.http, self._sockets, timeout))[0]
            assert item.tcp is not None
            (await self._sockets.connect("127.0.0.1", item.tcp, timeout)).close()
        except OSError as error:
            return f"port {item.tcp}: {error.strerror or error}"
        except TwinError as error:
            return str(error)
        return ""

    async def _command(self, command: str, timeout: float) -> str:
        run = Run(
            ["/bin/sh", "-c", command], self._environment(self._user), self._user, self._user.home, timeout=timeout
        )
        finished = await self.twin.run(run)
        if finished.is_timed_out:
            return f"the command was not done after {timeout:g} s"
        if finished.exit_code == 0:
            return ""
        words = (finished.stderr or finished.stdout)[-300:].decode("utf-8", "replace").strip()
        return f"the command's exit code is {finished.exit_code}" + (f": {words}" if words else "")


def _result(item: Readiness, problem: str, attempts: int, seconds: float) -> dict[str, Any]:
    return {
        "name": item.name,
        "ready": not problem,
        "reason": problem,
        "attempts": attempts,
        "seconds": round(seconds, 3),
    }
