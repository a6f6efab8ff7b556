"""The process that keeps one universe: it launches it, answers for it, and destroys it in the end."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.control import Client, ControlServer, Request
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import Holder
from amplifier_digital_twin.keeper_process import Orders, receive_orders
from amplifier_digital_twin.operations import ClientLeftError, Operations, Universe, while_heard
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.state import Phase, Place

#: Names the function that makes universes, as `module:function`; another one than ours is for tests.
FACTORY_VARIABLE: Final = "AMPLIFIER_DIGITAL_TWIN_FACTORY"
_FACTORY: Final = "amplifier_digital_twin.making:make_universe"
#: What most universes need, in the order in which they do.
_NEEDED_SOON: Final = (
    "amplifier_digital_twin.embedded.backend",
    "amplifier_digital_twin.profile.describe",
    "amplifier_digital_twin.services.host_index",
    "amplifier_digital_twin.services.gateway",
    "amplifier_digital_twin.services.package_index",
    "amplifier_digital_twin.wheel_building",
    "h11",
    "amplifier_digital_twin.services.interceptor",
)
#: How often the lease is looked at: a machine that slept has another time than it thinks.
_LEASE_POLL: Final = 10.0
#: How long the log of the keeper's own streams may grow, in bytes.
_MAX_LOG: Final = 1024 * 1024
#: How long what is under way may take to end when the universe does, and then the universe itself.
_CANCEL_SECONDS: Final = 30.0
_DESTROY_SECONDS: Final = 180.0

#: `(place, request, recorder, environ)` → universe, or an awaitable of one.
Factory = Callable[[Place, dict[str, Any], Recorder, Mapping[str, str]], Any]


class Keeper:
    """One universe from its launch to its end."""

    def __init__(self, orders: Orders, request: dict[str, Any], factory: Factory | None = None) -> None:
        place, environ, profile = orders
        self._place = place
        self._request = {**request, "profile": profile}
        self._environ = environ
        self._factory = factory or _factory(environ)
        secrets = [environ[name] for name in request.get("secrets", ()) if environ.get(name)]
        self.recorder = Recorder(place.log, secrets)
        self._phase: Phase = "starting"
        self._universe: Universe | None = None
        self._operations: Operations | None = None
        self._watch: asyncio.Task[None] | None = None
        self._server = ControlServer(place.socket, self._handle)
        self._over = asyncio.Event()
        self._why = ""
        self._destroyed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Conversations that wait for the end, and so must not be ended by it.
        self._waiting: set[asyncio.Task[Any]] = set()

    async def run(self, inherited: socket.socket | None = None) -> int:
        """Keep the universe until it is over, then remove every trace of it; return the exit code."""
        state = self._place.update(holder=Holder.current())
        await self._server.start()
        watch: asyncio.Task[None] | None = None
        try:
            if inherited is not None:
                (await self._server.adopt(inherited)).add_done_callback(self._after_adopted)
            self.recorder.event("keeper_start", id=state.id, profile=state.profile, pid=os.getpid())
            watch = asyncio.create_task(self._watch_lease(state.lease_until))
            await self._over.wait()
        finally:
            if watch is not None:
                watch.cancel()
            fault = await self._end()
        await self._server.close()
        return 0 if fault is None else 1

    def end(self, why: str) -> None:
        """Let the universe be over; the first reason counts."""
        if not self._over.is_set():
            self._why = why
            self._over.set()

    def _after_adopted(self, conversation: asyncio.Task[None]) -> None:
        if self._phase == "starting":
            self.end("the program that started it has ended")

    async def _watch_lease(self, until: float) -> None:
        # Looked at again and again: it is about the time of day and somebody else's hands, which no event tells.
        while (left := until - time.time()) > 0:
            shorten(self._place.keeper_log)
            if not self._place.state_file.exists():
                self.end("somebody has removed its folder")
                return
            await asyncio.sleep(min(left, _LEASE_POLL))
        self.end("its lease is over")

    async def _handle(self, client: Client, request: Request) -> dict[str, Any]:
        """Do what a client asks for, and write down what was asked and how it ended, but nothing it contains."""
        op = request["op"]
        try:
            result = await self._do(op, client, request)
        except TwinError as error:
            self.recorder.event("request", op=op, ok=False, code=error.code, message=error.message)
            raise
        except Exception as error:
            import traceback

            traceback.print_exc()
            self.recorder.event("request", op=op, ok=False, code="internal", message=repr(error))
            raise TwinError(
                "internal",
                self.recorder.mask(f"{op}: {type(error).__name__}: {error}"),
                "this is a fault of the program: `amplifier-digital-twin logs ID --source keeper` shows where",
            ) from error
        self.recorder.event("request", op=op, ok=True)
        return result

    async def _do(self, op: str, client: Client, request: Request) -> dict[str, Any]:
        if op == "ping":
            return {"phase": self._phase}
        if op == "launch":
            return await self._launch_for(client)
        if op == "launch-and-check":
            return await self._check_for(client)
        if op == "destroy":
            client.progress("destroying the universe")
            await self._end_of_universe("it was asked for")
            return {"destroyed": True}
        if op == "status":
            return await self._status(client)
        if self._operations is None:
            raise TwinError("not_ready", f"the universe is {self._phase}", "wait for its launch to end, then ask again")
        with self.recorder.listening(client.progress):
            return await self._operations.do(op, self._phase, client, request)

    async def _status(self, client: Client) -> dict[str, Any]:
        told = {} if self._universe is None else await while_heard(client, self._universe.status())
        return {**told, "phase": self._phase}

    async def _launch_for(self, client: Client) -> dict[str, Any]:
        """Launch the universe for a client; without one who waits for it, or when it fails, there shall be none."""
        if self._phase != "starting":
            raise TwinError("launched_already", f"the universe is {self._phase}", "launch another one")
        self._set_phase("launching")
        try:
            with self.recorder.listening(client.progress):
                return await while_heard(client, self._launch())
        except Exception as error:
            self.recorder.event("launch_failed", message=str(error), code=getattr(error, "code", "internal"))
            if self._is_kept_after(error):
                self._set_phase("failed")
            else:
                await self._end_of_universe("its launch failed")
            raise

    def _is_kept_after(self, error: Exception) -> bool:
        """Tell whether somebody wants to look at a universe in which something failed."""
        is_a_finding = isinstance(error, TwinError) and not isinstance(error, ClientLeftError)
        return bool(self._request.get("keep_failed")) and self._universe is not None and is_a_finding

    async def _check_for(self, client: Client) -> dict[str, Any]:
        """Launch, check and destroy for a client; the universe stays only where the request says that it is kept."""
        launched = await self._launch_for(client)
        assert self._universe is not None
        try:
            with self.recorder.listening(client.progress):
                verdict = await while_heard(client, self._universe.check())
        except Exception as error:
            if not self._is_kept_after(error):
                await self._end_of_universe("its check could not be done")
            raise
        answer = {**verdict, "launch": launched, "kept": True}
        is_failed = verdict.get("verdict") != "pass"
        if self._request.get("keep") or (is_failed and self._request.get("keep_failed")):
            return answer
        client.progress("destroying the universe")
        try:
            await self._end_of_universe("its check is done")
        except TwinError as left:
            return {**answer, "left_behind": left.record()}
        return {**answer, "kept": False}

    async def _launch(self) -> dict[str, Any]:
        made = self._factory(self._place, self._request, self.recorder, self._environ)
        universe: Universe = await made if inspect.isawaitable(made) else made
        self._universe = universe
        self._operations = Operations(universe)
        result = await universe.launch()
        changes = {name: result[name] for name in ("backend", "ports") if result.get(name)}
        if "ports" in changes:
            changes["ports"] = tuple(changes["ports"])
        self._set_phase("ready", **changes)
        self._watch = asyncio.create_task(self._watch_universe(universe))
        return result

    async def _watch_universe(self, universe: Universe) -> None:
        try:
            why = await universe.ended()
        except Exception as error:
            why = f"it cannot be watched: {type(error).__name__}: {error}"
        self.end(why)

    def _set_phase(self, phase: Phase, **changes: Any) -> None:
        self._phase = phase
        self._place.update(phase=phase, **changes)
        self.recorder.event("phase", phase=phase)

    async def _end_of_universe(self, why: str) -> None:
        """Let the universe be over and return when every trace of it is gone; raise TwinError for what is left."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        self.end(why)
        await asyncio.shield(self._destroyed)

    async def _end(self) -> TwinError | None:
        """Destroy the universe and tell those who wait; return what could not be removed, which `prune` is left to."""
        self.recorder.event("end", why=self._why)
        self._phase = "destroying"
        try:
            if self._place.state_file.exists():  # else somebody removed it by hand
                self._set_phase("destroying")
            await self._server.stop(self._waiting, _CANCEL_SECONDS)
            await self._destroy()
        except Exception as error:
            fault = error if isinstance(error, TwinError) else _left_behind(error)
            self.recorder.event("destroy_failed", code=fault.code, message=fault.message)
            self._destroyed.set_exception(fault)
            self._destroyed.exception()  # looked at: nobody may be waiting for it
            return fault
        self._destroyed.set_result(None)
        return None

    async def _destroy(self) -> None:
        from amplifier_digital_twin.reaping import clear

        if self._watch is not None:
            self._watch.cancel()
        if self._universe is not None:
            try:
                async with asyncio.timeout(_DESTROY_SECONDS):
                    await self._universe.destroy()
            except Exception as error:
                # What follows removes everything that is written down, with or without the universe's help.
                self.recorder.event("destroy_failed", message=f"{type(error).__name__}: {error}")
        await clear(self._place)


def _left_behind(error: Exception) -> TwinError:
    return TwinError(
        "destroy_failed",
        f"the universe could not be removed: {type(error).__name__}: {error}",
        "`amplifier-digital-twin prune --mine` tries again",
    )


def shorten(log: Path) -> None:
    """Keep the end of a log that has grown too long: a fault that comes again and again must not fill the disk."""
    try:
        with open(log, "r+b") as file:
            if file.seek(0, os.SEEK_END) <= _MAX_LOG:
                return
            file.seek(-_MAX_LOG // 4, os.SEEK_END)
            end = file.read()
            # Whoever writes to it does so at its end, wherever that is.
            file.seek(0)
            file.write(b"... what came before is cut ...\n" + end)
            file.truncate()
    except OSError:
        pass  # gone, or a full disk: the next look may have more luck


def _factory(environ: Mapping[str, str]) -> Factory:
    module, _, name = environ.get(FACTORY_VARIABLE, _FACTORY).partition(":")

    def make(place: Place, request: dict[str, Any], recorder: Recorder, variables: Mapping[str, str]) -> Any:
        # Imported with the first universe, after the control socket listens: the program waits for an answer.
        return getattr(import_module(module), name)(place, request, recorder, variables)

    return make


async def keep(orders: Orders, inherited: socket.socket | None) -> int:
    """Keep the universe of a folder until it is over; raise TwinError when somebody keeps it already."""
    place = orders.place
    with place.held() as is_held:
        if not is_held:
            raise TwinError("kept_already", f"{place.folder}: another process keeps this universe", "ask that one")
        request = json.loads(place.request.read_bytes())
        keeper = Keeper(orders, request)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, keeper.end, f"signal {signal.Signals(number).name}")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return await keeper.run(inherited)


def main() -> int:
    """Run `python -m amplifier_digital_twin.keeper DESCRIPTOR`, a connection to the program, which sends the orders."""
    os.chdir("/")
    _close_all_but(int(sys.argv[1]))
    inherited = socket.socket(fileno=int(sys.argv[1]))
    inherited.set_inheritable(False)
    _import_ahead(inherited)
    orders = receive_orders(inherited)
    if orders is None:
        return 0  # nothing was to be kept
    os.environ.clear()
    os.environ.update(orders.environment)
    inherited.setblocking(False)
    # Layers are made for other users, too; the folder itself is closed to them.
    os.umask(0o022)
    _write_to(orders.place.keeper_log)
    return asyncio.run(keep(orders, inherited))


def _close_all_but(descriptor: int) -> None:
    """Close what whoever called the program had open, the standard streams aside: it must not stay so for hours."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, descriptor):
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that the list was read from


def _import_ahead(inherited: socket.socket) -> None:
    """Import what universes are made with, for as long as the program has no orders yet."""
    made_by = os.environ.get(FACTORY_VARIABLE, _FACTORY)
    for module in (made_by.partition(":")[0], *(_NEEDED_SOON if made_by == _FACTORY else ())):
        if select.select([inherited], [], [], 0)[0]:
            return
        try:
            import_module(module)
        except Exception:
            return  # it fails again, and is told, when it is needed


def _write_to(log: Path) -> None:
    """Let the standard streams go to a file from now on, through a pipe: secrets are masked before they are there."""
    import atexit

    from amplifier_kit.guard.private_files import open_private, write_unmasked
    from amplifier_kit.guard.redaction.redactor import process_redactor
    from amplifier_kit.guard.redaction.stream import RedactingStream

    descriptor = open_private(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    reader, writer = os.pipe()
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
        os.dup2(writer, stream.fileno())
    os.close(writer)
    masking = RedactingStream(lambda text: process_redactor().scrub_text(text))

    def pump() -> None:
        while data := os.read(reader, 65536):
            with suppress(OSError):  # a full disk: the keeper goes on without its log
                write_unmasked(descriptor, masking.feed(data))
        with suppress(OSError):
            write_unmasked(descriptor, masking.finish())

    thread = threading.Thread(target=pump, name="keeper-log", daemon=True)
    thread.start()

    def finish() -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in streams:
            with suppress(OSError, ValueError):
                stream.flush()
                os.dup2(nowhere, stream.fileno())
        thread.join(1.0)  # what the keeper started may hold the pipe open

    atexit.register(finish)


if __name__ == "__main__":
    sys.exit(main())
