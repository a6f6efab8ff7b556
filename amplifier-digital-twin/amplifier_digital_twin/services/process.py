"""The service process of a universe: its life, from CONFIG.json to the last socket removed.

`python -m amplifier_digital_twin.services.process CONFIG.json` prints one JSON line when every socket listens:
`{"ready": true, "ports": [...]}`, or `{"error": {"code", "message", "remedy"}}` and exit code 2. It ends on
SIGTERM and SIGINT, and with its universe.
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
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import ForwardedPort
from amplifier_digital_twin.services.config import Served, ServedRepository, ServicesConfig
from amplifier_digital_twin.services.git import GitServer, export_all
from amplifier_digital_twin.services.index import PackageIndex
from amplifier_digital_twin.services.proxy import refusing_app, run_proxy
from amplifier_digital_twin.services.request_log import RequestLog
from amplifier_digital_twin.state import Folder
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
        self._config = ServicesConfig.load(path)

    async def run(self) -> None:
        """Serve until the end; every socket is removed. Raises TwinError when it cannot begin."""
        config, log, ended = self._config, RequestLog(self._config.log), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        for folder in (config.sockets, config.state, config.cache, config.log.parent):
            folder.mkdir(parents=True, exist_ok=True)
        # The container's user must reach the sockets in it.
        config.sockets.chmod(0o755)
        async with contextlib.AsyncExitStack() as stack:
            index = PackageIndex(config, log)
            stack.push_async_callback(index.close)
            git = GitServer(log, stack.enter_context(self._listen("git.sock")), await self._export())
            threading.Thread(target=git.serve_forever, args=(0.1,), daemon=True).start()
            stack.callback(git.close)
            await stack.enter_async_context(_serving(index.app, stack.enter_context(self._listen("index.sock"))))
            listening = stack.enter_context(self._listen("proxy.sock"))
            ports = [self._forward(port, stack) for port in config.ports]
            inner = {mock.name: ForwardedPort.model_construct(container=mock.port, path="") for mock in config.mocks}
            mocks = {name: self._forward(port, stack)["url"] for name, port in inner.items()}
            proxied = config.needs_proxy
            proxy = run_proxy(config, listening, mocks) if proxied else _serving(refusing_app(log), listening)
            await stack.enter_async_context(proxy)
            _print({"ready": True, "ports": ports})
            while not ended.is_set() and (config.universe is None or _is_alive(config.universe)):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _INTERVAL)

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

    def _forward(self, port: ForwardedPort, stack: contextlib.AsyncExitStack) -> dict[str, Any]:
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
        argv = [*self._config.inside, "socat", "-", f"TCP:127.0.0.1:{port.container}"]
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

    async def _export(self) -> Sequence[ServedRepository]:
        """Export the repositories as they are now."""
        config, folder = self._config, self._config.state / "git"
        shutil.rmtree(folder, ignore_errors=True)  # what was served before an update
        repositories, notes = await asyncio.to_thread(export_all, config.repositories, folder)
        served = Served(repositories=repositories, notes=notes, wheels=config.wheels, names=config.names)
        replace_file(config.state / "served.json", served.model_dump_json(indent=1).encode())
        return repositories


def _is_alive(universe: Path) -> bool:
    try:
        return Folder(universe).read().is_alive
    except TwinError:
        return False  # it has been removed


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
