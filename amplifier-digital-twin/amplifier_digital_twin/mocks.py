"""Mock services: programs of the profile that run inside the universe and answer for names of the world."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from amplifier_digital_twin.backends.twin import Run, Sockets, Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Mock, User
from amplifier_digital_twin.recorder import Recorder

_PATIENCE: Final = 30.0
_INTERVAL: Final = 0.05


class Mocks:
    """The mock services of one universe; when one ends by itself, that is an event."""

    def __init__(self, mocks: Sequence[Mock], recorder: Recorder) -> None:
        self._mocks = mocks
        self._recorder = recorder
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, twin: Twin, sockets: Sockets, environment: Mapping[str, str], user: User) -> None:
        """Start every mock and wait until its port answers; raise TwinError when one does not come up."""
        for mock in self._mocks:
            run = Run(["/bin/sh", "-c", mock.run], environment, user, cwd=user.home)
            task = asyncio.create_task(self._keep(mock, twin, run), name=f"mock {mock.name}")
            self._tasks.append(task)
            await self._answers(mock, sockets, task)

    async def _keep(self, mock: Mock, twin: Twin, run: Run) -> None:
        finished = await twin.run(run)
        self._recorder.event(
            "mock:ended",
            name=mock.name,
            exit_code=finished.exit_code,
            stderr=finished.stderr[-2000:].decode("utf-8", "replace"),
        )

    async def _answers(self, mock: Mock, sockets: Sockets, task: asyncio.Task[None]) -> None:
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                (await sockets.connect("127.0.0.1", mock.port, 1.0)).close()
                return
            except OSError as error:
                if task.done() or asyncio.get_running_loop().time() > deadline:
                    raise TwinError(
                        "mock_failed",
                        f"mock service `{mock.name}` does not answer on port {mock.port}: {error}",
                        "see `mock:ended` in the universe's log for what it wrote; it has to listen on 127.0.0.1",
                    ) from error
            await asyncio.sleep(_INTERVAL)

    async def stop(self) -> None:
        """End them all."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
