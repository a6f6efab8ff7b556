"""The service process of a universe: its life, from CONFIG.json to the last socket removed.

`python -m amplifier_digital_twin.services.process CONFIG.json` prints one JSON line when every socket listens:
`{"ready": true, "ports": [...]}`, or `{"error": {"code", "message", "remedy"}}` and exit code 2. It ends on
SIGTERM and SIGINT, when `until` has ended, and at `deadline`. SIGHUP reads the config again, and `served.json` says
which `revision` is served, or why it is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import ForwardedPort
from amplifier_digital_twin.services.config import Served, ServicesConfig, connect_command
from amplifier_digital_twin.services.git import GitServer, export_all
from amplifier_digital_twin.services.index import PackageIndex
from amplifier_digital_twin.services.proxy import Proxy, refusing_app
from amplifier_digital_twin.services.request_log import RequestLog
from amplifier_foundation.files import replace_file
from amplifier_kit.guard.processes.launch import open_process

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: How often is looked whether the process has to end, in seconds.
_INTERVAL: Final = 0.5
#: How long running requests get at the end, in seconds.
_GRACE: Final = 0.5


def main(path: Path) -> int:
    """Serve until the end; return the exit code."""
    os.umask(0o077)
    try:
        asyncio.run(Services(path).run())
    except (TwinError, OSError) as error:
        _print({"error": _known(error).record()})
        return 2
    return 0


class Services:
    """The services of one universe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._config = ServicesConfig.load(path)
        self._served = Served()
        self._signals: asyncio.Queue[int] = asyncio.Queue()

    async def run(self) -> None:
        """Serve until the end; every socket is removed. Raises TwinError when it cannot begin."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        config, log = self._config, RequestLog(self._config.log)
        for folder in (config.sockets, config.state, config.cache, config.log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        # The container's user must reach the sockets in it.
        config.sockets.chmod(0o755)
        async with contextlib.AsyncExitStack() as stack:
            self._index = PackageIndex(config, log)
            stack.push_async_callback(self._index.close)
            self._git = GitServer(log, stack.enter_context(self._listen("git.sock")))
            await self._export()
            threading.Thread(target=self._git.serve_forever, args=(0.1,), daemon=True).start()
            stack.callback(self._git.close)
            await stack.enter_async_context(_serving(self._index.app, stack.enter_context(self._listen("index.sock"))))
            listening = stack.enter_context(self._listen("proxy.sock"))
            if config.needs_proxy:
                self._proxy = Proxy(config)
                await stack.enter_async_context(self._proxy.run(config, listening))
            else:
                await stack.enter_async_context(_serving(refusing_app(log), listening))
            ports = [await self._forward(port, stack) for port in config.ports]
            _print({"ready": True, "ports": ports})
            await self._watch()

    @contextlib.contextmanager
    def _listen(self, name: str) -> Iterator[socket.socket]:
        path = self._config.sockets / name
        path.unlink(missing_ok=True)  # of a process that was killed
        folder = os.open(self._config.sockets, os.O_PATH | os.O_DIRECTORY)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            try:
                # An address has at most 107 bytes, the path of a state directory may have more.
                listening.bind(f"/proc/self/fd/{folder}/{name}")
            finally:
                os.close(folder)
            # Others of this machine are kept out by the directory above; in the container, any user may connect.
            path.chmod(0o666)
            listening.listen(128)
            try:
                yield listening
            finally:
                path.unlink(missing_ok=True)

    async def _forward(self, port: ForwardedPort, stack: contextlib.AsyncExitStack) -> dict[str, Any]:
        """Open a port of the host; every connection becomes the standard streams of a command inside."""
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port.host))
        except OSError as error:
            said = f"port {port.host} of the host cannot be opened: {error.strerror}"
            raise TwinError("port_taken", said, "set `host: 0` in `access.ports`, which takes a free one") from error
        listener.listen()
        listener.setblocking(False)
        argv = connect_command(self._config, port.container)
        children: list[Any] = []

        def accept() -> None:
            connection, _ = listener.accept()
            connection.setblocking(True)
            with connection:
                number = connection.fileno()
                children[:] = [child for child in children if child.poll() is None]
                children.append(open_process(argv, environment=os.environ, stdin=number, stdout=number))

        def close() -> None:
            loop.remove_reader(listener)
            for child in children:
                child.kill()
                child.wait()

        loop = asyncio.get_running_loop()
        loop.add_reader(listener, accept)
        stack.callback(close)
        number = listener.getsockname()[1]
        url = f"http://127.0.0.1:{number}{port.path}"
        return {"label": port.label, "host": number, "container": port.container, "url": url}

    async def _export(self) -> None:
        """Export the repositories as they are now; what was served before stays until this is done."""
        config = self._config
        folder = config.state / "git" / f"{os.getpid()}-{time.monotonic_ns()}"
        repositories, notes = await asyncio.to_thread(export_all, config.repositories, folder)
        self._git.serve(repositories)
        served = {"revision": config.revision, "repositories": repositories, "notes": notes}
        self._publish(Served(**served, wheels=config.wheels, names=config.names))
        for old in (config.state / "git").glob("*"):
            if old != folder:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)

    def _publish(self, served: Served) -> None:
        self._served = served
        replace_file(self._config.state / "served.json", served.model_dump_json(indent=1).encode())

    async def _watch(self) -> None:
        """Return when it is time to end; take every change of the config until then."""
        while True:
            config = self._config
            if config.until is not None and not config.until.is_running():
                return
            if config.deadline is not None and time.time() > config.deadline:
                return
            with contextlib.suppress(TimeoutError):
                if await asyncio.wait_for(self._signals.get(), _INTERVAL) != signal.SIGHUP:
                    return
                await self._reload()

    async def _reload(self) -> None:
        before = self._config
        try:
            self._config = ServicesConfig.load(self._path)
            self._index.update(self._config)
            if before.needs_proxy:
                self._proxy.update(self._config)
            if self._config.exports != before.exports:
                await self._export()
            else:
                self._publish(self._served.model_copy(update={"revision": self._config.revision, "error": None}))
        except (TwinError, OSError) as failure:
            error = _known(failure)
            sys.stderr.write(f"the changed config is not used: {error.message}\n")
            failed = self._config.revision
            # Who decides when to end is taken in any case: else this would outlive its universe.
            self._config = before.model_copy(update={"until": self._config.until, "deadline": self._config.deadline})
            self._index.update(self._config)
            self._publish(self._served.model_copy(update={"revision": failed, "error": error.record()}))


def _known(error: TwinError | OSError) -> TwinError:
    if isinstance(error, TwinError):
        return error
    return TwinError("services_failed", f"the services cannot be run: {error}", "check the disk and its permissions")


def _print(answer: dict[str, Any]) -> None:
    """Print the one line that the parent waits for; it may have gone."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


class _Server(uvicorn.Server):
    """Leaves the signals to this process."""

    capture_signals = contextlib.nullcontext  # type: ignore[assignment]


@contextlib.asynccontextmanager
async def _serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a listening socket."""
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", server_header=False))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([serving], timeout=_GRACE)
        server.force_exit = True
        await asyncio.wait([serving], timeout=_GRACE)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
