"""Keep a model loaded in a child process while it is in use."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from amplifier_core.llm_errors import ConfigurationError, LLMTimeoutError, ProviderUnavailableError
from amplifier_kit.guard.processes.launch import PIPE, make_socket_folder, open_process
from amplifier_kit.guard.processes.programs import command_environment
from amplifier_kit.guard.processes.running_command import signal_name
from amplifier_kit.llm.client import http_client
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

_PROGRAM: Final = Path(__file__).with_name("child.py")
#: Only a name: the connection uses the socket.
_ADDRESS: Final = "http://localhost"
_POLL: Final = 0.01
#: Seconds for a health check, which the child answers in a separate thread.
_HEALTH: Final = 10.0
_GRACE: Final = 2.0
_SOCKET: Final = "model.sock"
_SHOWN: Final = 300

#: Called with "loading", and then with "loaded" and the seconds it took.
OnLoad = Callable[[str, float], Awaitable[None]]


class Load(NamedTuple):
    """A model and how to load it; providers with an equal `Load` share a host."""

    engine: Path
    model: Path
    name: str
    context: int
    threads: int
    batch: int
    cache_mib: int
    gpu_layers: int | None
    chat_template: str | None
    #: Seconds without a request after which the model is unloaded; None for never.
    keep_alive: float | None
    #: Time limits in seconds for loading, and for silence in a stream.
    timeout: float
    idle: float


class Host:
    """One child process, started with the first request and ended after some time without requests."""

    def __init__(self, load: Load) -> None:
        self.load = load
        #: The number of providers that use it.
        self.holders = 0
        self._busy = 0
        self._starting = asyncio.Lock()
        self._process: Process | None = None
        self._client: Any = None
        #: The socket of the child, empty without a child.
        self.socket = ""
        #: Whether a connection broke: the child may be dying, even if it still runs.
        self._is_broken = False
        self._unload_timer: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the child, None without one."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @asynccontextmanager
    async def asking(self, on_load: OnLoad) -> AsyncIterator[Any]:
        """Yield an HTTP client for the model, which is loaded first if necessary.

        Raises ConfigurationError for a model that cannot be loaded, and LLMTimeoutError when it takes too long.
        """
        self._busy += 1
        if self._unload_timer is not None:
            self._unload_timer.cancel()
            self._unload_timer = None
        try:
            yield await self._ready(on_load)
        except Exception as error:
            self._is_broken |= _is_broken_off(error)
            raise
        finally:
            self._busy -= 1
            if not self._busy and self.load.keep_alive is not None and self._process is not None:
                self._unload_timer = asyncio.get_running_loop().call_later(self.load.keep_alive, self._unload_if_idle)

    async def stop(self) -> None:
        """End the child; the next request starts another one."""
        if self._unload_timer is not None:
            self._unload_timer.cancel()
            self._unload_timer = None
        client, self._client = self._client, None
        process, self._process = self._process, None
        try:
            if client is not None:
                await client.aclose()
        finally:
            if process is not None:
                await _end(process)
            self._forget_socket()

    # -- starting --

    async def _ready(self, on_load: OnLoad) -> Any:
        async with self._starting:
            if self._client is not None and self.pid is not None and await self._is_sound():
                return self._client
            await self.stop()  # remains of a child that died
            self._is_broken = False
            started = time.monotonic()
            await on_load("loading", 0.0)
            await self._start(started + self.load.timeout)
            await on_load("loaded", time.monotonic() - started)
            return self._client

    async def _start(self, deadline: float) -> None:
        key = secrets.token_urlsafe(32)
        self.socket = str(make_socket_folder("amplifier-model-", _SOCKET) / _SOCKET)
        with tempfile.TemporaryFile() as said:
            try:
                self._process = self._spawn(key, said)
                self._client = await self._connected(key)
                await self._answering(self._process, said, deadline)
            except BaseException:
                if self._process is not None:
                    self._process.kill()
                await self.stop()
                raise

    def _spawn(self, key: str, said: IO[bytes]) -> Process:
        """Start the child: its key is sent through its input, and it gets no keys from the environment."""
        load = self.load
        order = {
            "parent": os.getpid(),
            "socket": self.socket,
            "key": key,
            "engine": os.path.abspath(load.engine),
            "model": os.path.abspath(load.model),
            "name": load.name,
            "context": load.context,
            "threads": load.threads,
            "batch": load.batch,
            "cache_mib": load.cache_mib,
            "gpu_layers": load.gpu_layers,
            "chat_template": load.chat_template,
        }
        # In a new process session, since Ctrl-C is for the parent; and not in the project folder, where the engine
        # would look for its parts.
        process = open_process(
            [sys.executable, "-I", str(_PROGRAM)], environment=command_environment()[0], stdin=PIPE, stderr=said
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            pass  # it ended already; its error output has the reason
        return process

    async def _connected(self, key: str) -> Any:
        import httpx2

        # A connection per request: the engine offers keep-alive, but closes connections after a streamed answer.
        fresh = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        client = await http_client(
            _ADDRESS,
            timeout=self.load.timeout,
            idle=self.load.idle,
            transport=httpx2.AsyncHTTPTransport(uds=self.socket, limits=fresh),
            headers={"authorization": f"Bearer {key}"},
        )
        client.base_url = _ADDRESS
        return client

    async def _answering(self, process: Process, said: IO[bytes], deadline: float) -> None:
        """Wait until the model is loaded; raises an LLMError when it cannot be."""
        while process.poll() is None:
            if await self._is_healthy():
                return
            if time.monotonic() > deadline:
                raise LLMTimeoutError(
                    f"{self.load.name} was not loaded after {self.load.timeout:g} s: raise `timeout`, or use a "
                    "smaller model",
                    retryable=False,
                )
            await asyncio.sleep(_POLL)
        raise _failure(self.load, process.returncode, said)

    async def _is_healthy(self) -> bool:
        import httpx2

        try:
            return bool((await self._client.get("/health", timeout=_HEALTH)).status_code == 200)
        except httpx2.TransportError:
            return False

    async def _is_sound(self) -> bool:
        """Return whether the child can be used: after a broken connection, only if it still answers."""
        if self._is_broken:
            self._is_broken = not await self._is_healthy()
        return not self._is_broken

    # -- ending --

    def _unload_if_idle(self) -> None:
        self._unload_timer = None
        if not self._busy:
            self._unloading = asyncio.get_running_loop().create_task(self._unload())

    async def wait_unloaded(self) -> None:
        """Wait until the child has ended, if it is being unloaded for idleness."""
        if self._unloading is not None:
            await self._unloading

    async def _unload(self) -> None:
        async with self._starting:
            if not self._busy:
                await self.stop()

    def _forget_socket(self) -> None:
        socket, self.socket = self.socket, ""
        if not socket:
            return
        for remove, path in ((os.unlink, socket), (os.rmdir, os.path.dirname(socket))):
            try:
                remove(path)
            except OSError:
                pass  # the child removed it


_hosts: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Load, Host]] = WeakKeyDictionary()


def host_for(load: Load) -> Host:
    """Return the host for a model on this event loop, which all sessions share."""
    hosts = _hosts.setdefault(asyncio.get_running_loop(), {})
    if load not in hosts:
        hosts[load] = Host(load)
    return hosts[load]


def _is_broken_off(error: Exception) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.TimeoutException)


async def _end(process: Process) -> None:
    """End the child by closing its input; kill it if that does not help."""
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            pass  # it ended already
    end = time.monotonic() + _GRACE
    try:
        while process.poll() is None and time.monotonic() < end:  # noqa: ASYNC110 - there is no event for the end of a process
            await asyncio.sleep(_POLL)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(_GRACE)


def _failure(load: Load, code: int, said: IO[bytes]) -> Exception:
    """Return the error for a child that ended before it answered, from its error output."""
    said.seek(0)
    lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.partition("error loading model: ")[2] for line in lines if "error loading model: " in line]
    errors = errors or [line.partition(" E ")[2] for line in lines if " E " in line] or lines[-1:]
    reason = " ".join(errors[0].split())[:_SHOWN] if errors else ""
    if code < 0:
        name = signal_name(-code)
        return ProviderUnavailableError(
            f"the process that loads {load.model} was ended by {name}{': ' + reason if reason else ''}: memory may be "
            "too small; use a smaller model or a smaller `context_window`",
            retryable=False,
        )
    return ConfigurationError(f"{load.model} cannot be loaded: {reason or f'exit code {code}'}")


class Lease:
    """The hosts that one provider uses; each ends when its last user releases it."""

    def __init__(self) -> None:
        self._held: dict[Load, Host] = {}

    @property
    def hosts(self) -> list[Host]:
        """The hosts in use."""
        return list(self._held.values())

    def host(self, load: Load) -> Host:
        """Return the host of a model, and count as its user."""
        if load not in self._held:
            self._held[load] = host_for(load)
            self._held[load].holders += 1
        return self._held[load]

    async def release(self) -> None:
        """Release all hosts; a host without other users is stopped."""
        held, self._held = self._held, {}
        for load, host in held.items():
            host.holders -= 1
            if not host.holders:
                _hosts.get(asyncio.get_running_loop(), {}).pop(load, None)
                await host.stop()
                await host.wait_unloaded()
