"""What can be asked of a universe that is kept: each request of the control socket, done on the universe."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from amplifier_digital_twin.backends.twin import Finished, Sink
from amplifier_digital_twin.control import Client, Request
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import PushedFile
from amplifier_digital_twin.state import Phase

Result = TypeVar("Result")


class Universe(Protocol):
    """A universe as its keeper knows it. Every method may be cancelled, and raises TwinError; results are JSON."""

    async def launch(self) -> dict[str, Any]:
        """Make everything, once; `backend` and `ports` of the result become part of the state."""
        ...

    async def ended(self) -> str:
        """Return, with the reason, when the universe is over by itself: its time is up, its twin is gone."""
        ...

    async def exec(
        self, command: Sequence[str] | str, user: str | None, timeout: float | None, sink: Sink | None
    ) -> Finished:
        """Run a command: words as they are, or a line for the shell."""
        ...

    async def check_readiness(self) -> dict[str, Any]:
        """Look once at every sign of readiness; `ready` tells whether all are there."""
        ...

    async def update(self) -> dict[str, Any]:
        """Do what the profile says is done for an update."""
        ...

    async def status(self) -> dict[str, Any]:
        """Tell what is to be told."""
        ...

    async def push(self, file: PushedFile) -> dict[str, Any]:
        """Copy a file or folder of the host into the universe."""
        ...

    async def pull(self, source: str, destination: Path) -> dict[str, Any]:
        """Copy files of the universe to the host."""
        ...

    async def snapshot(self, name: str) -> dict[str, Any]:
        """Keep the file system as it is under a name."""
        ...

    async def reset(self, name: str | None) -> dict[str, Any]:
        """Go back to a snapshot, or to the start."""
        ...

    async def check(self) -> dict[str, Any]:
        """Run the profile's checks and write the evidence; `verdict` is `pass` or `fail`."""
        ...

    async def destroy(self) -> None:
        """End and remove everything but the universe's folder; a second time does nothing."""
        ...


#: Phases in which a universe can be worked with; in one whose launch failed somebody wants to look around.
_USABLE: Final[tuple[Phase, ...]] = ("ready", "failed")

Operation = Callable[["Operations", Client, Request], Awaitable[dict[str, Any]]]


class Operations:
    """The requests that a launched universe answers."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        #: Those that change the universe as a whole wait for each other.
        self._whole = asyncio.Lock()

    async def do(self, op: str, phase: Phase, client: Client, request: Request) -> dict[str, Any]:
        """Do what is asked for; raise TwinError when that is unknown, cannot be done now, or fails."""
        operation = _OPERATIONS.get(op)
        if operation is None:
            raise TwinError(
                "request_invalid", f"{op!r} cannot be asked for", "use the program of the same version as the keeper"
            )
        if phase not in _USABLE:
            raise TwinError("not_ready", f"the universe is {phase}", "wait for its launch to end, then ask again")
        try:
            return await operation(self, client, request)
        except (KeyError, TypeError, ValueError) as error:
            raise TwinError(
                "request_failed",
                f"{op}: {type(error).__name__}: {error}",
                "this is a fault of the program: `amplifier-digital-twin logs ID --source keeper` shows more",
            ) from error

    async def _exec(self, client: Client, request: Request) -> dict[str, Any]:
        command = request["command"]
        sink = client.output if request.get("stream") else None
        work = self._universe.exec(command, request.get("user"), request.get("timeout"), sink)
        finished = await while_heard(client, work)
        return _finished_record(finished, with_output=sink is None)

    async def _check_readiness(self, client: Client, request: Request) -> dict[str, Any]:
        return await while_heard(client, self._universe.check_readiness())

    async def _update(self, client: Client, request: Request) -> dict[str, Any]:
        async with self._whole:
            return await while_heard(client, self._universe.update())

    async def _push(self, client: Client, request: Request) -> dict[str, Any]:
        file = PushedFile(**{**request["file"], "src": Path(request["file"]["src"])})
        return await while_heard(client, self._universe.push(file))

    async def _pull(self, client: Client, request: Request) -> dict[str, Any]:
        return await while_heard(client, self._universe.pull(request["source"], Path(request["destination"])))

    async def _snapshot(self, client: Client, request: Request) -> dict[str, Any]:
        async with self._whole:
            # Not given up when the client leaves: half a snapshot is of no use to anybody.
            return await self._universe.snapshot(request["name"])

    async def _reset(self, client: Client, request: Request) -> dict[str, Any]:
        async with self._whole:
            return await self._universe.reset(request.get("name"))

    async def _check(self, client: Client, request: Request) -> dict[str, Any]:
        async with self._whole:
            return await while_heard(client, self._universe.check())


_OPERATIONS: Final[dict[str, Operation]] = {
    "exec": Operations._exec,
    "check-readiness": Operations._check_readiness,
    "update": Operations._update,
    "push": Operations._push,
    "pull": Operations._pull,
    "snapshot": Operations._snapshot,
    "reset": Operations._reset,
    "check": Operations._check,
}


class ClientLeftError(TwinError):
    """Nobody waits for the result any more."""

    def __init__(self) -> None:
        super().__init__("client_left", "the program that asked for this has ended", "ask again")


async def while_heard(client: Client, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what comes of the work, which is cancelled when the client leaves (ClientLeftError) or the caller is."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(client.gone())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientLeftError
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _finished_record(finished: Finished, *, with_output: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "exit_code": finished.exit_code,
        "timed_out": finished.is_timed_out,
        "seconds": round(finished.seconds, 4),
        "cut": finished.is_cut,
    }
    if with_output:
        for stream, data in (("stdout", finished.stdout), ("stderr", finished.stderr)):
            try:
                record[stream] = data.decode("utf-8")
            except UnicodeDecodeError:
                record[stream] = data.decode("utf-8", "replace")
                record[f"{stream}_base64"] = base64.b64encode(data).decode("ascii")
    return record
