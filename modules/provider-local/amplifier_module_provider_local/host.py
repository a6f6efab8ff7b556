"""Keep one model loaded in a child process for as long as it is used, and not longer."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from amplifier_core.llm_errors import ConfigurationError, LLMTimeoutError, ProviderUnavailableError
from amplifier_kit.guard.processes import command_environment
from amplifier_kit.guard.processes.launch import PIPE, make_socket_folder, open_process
from amplifier_kit.llm import http_client

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

__all__ = ["Host", "Lease", "Load", "Tell", "host_for"]

_PROGRAM: Final = Path(__file__).with_name("child.py")
#: Only a name: the connection goes through the socket.
_ADDRESS: Final = "http://localhost"
_POLL: Final = 0.01
#: Seconds that the child may take to say that it is well; it has threads of its own for that.
_HEALTH: Final = 10.0
_GRACE: Final = 2.0
_SOCKET: Final = "model.sock"
_SHOWN: Final = 300

#: Hears "loading", and then "loaded" with the seconds it took.
Tell = Callable[[str, float], Awaitable[None]]


@dataclass(frozen=True)
class Load:
    """What is loaded, and how: hosts of the same are one."""

    engine: Path
    model: Path
    name: str
    context: int
    threads: int
    batch: int
    cache_mib: int
    gpu_layers: int | None
    chat_template: str | None
    #: Seconds without a request after which the memory is given back; None for never.
    keep_alive: float | None
    #: Seconds that loading may take, and that a stream may be silent.
    timeout: float
    idle: float


class Host:
    """One child process, started with the first request and ended when nobody has used it for a while."""

    def __init__(self, load: Load) -> None:
        self.load = load
        #: How many providers count on it.
        self.holders = 0
        self._busy = 0
        self._starting = asyncio.Lock()
        self._process: Process | None = None
        self._client: Any = None
        #: Where the child listens, empty when there is none.
        self.socket = ""
        #: Whether a connection broke: the child may be dying, even if it is still there.
        self._is_broken = False
        self._rest: asyncio.TimerHandle | None = None
        self._resting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the number of the child process, None when there is none."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @asynccontextmanager
    async def asking(self, tell: Tell) -> AsyncIterator[Any]:
        """Give an HTTP client of the model, which is loaded first when it is not.

        Raises ConfigurationError for a model that cannot be loaded, and LLMTimeoutError when it takes too long.
        """
        self._busy += 1
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        try:
            yield await self._ready(tell)
        except Exception as error:
            self._is_broken |= _is_broken_off(error)
            raise
        finally:
            self._busy -= 1
            if not self._busy and self.load.keep_alive is not None and self._process is not None:
                self._rest = asyncio.get_running_loop().call_later(self.load.keep_alive, self._fall_asleep)

    async def stop(self) -> None:
        """End the child and give all memory back; the next request starts another one."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        client, self._client = self._client, None
        process, self._process = self._process, None
        try:
            if client is not None:
                await client.aclose()
        finally:
            if process is not None:
                await _ended(process)
            self._forget_socket()

    # -- starting --

    async def _ready(self, tell: Tell) -> Any:
        async with self._starting:
            if self._client is not None and self.pid is not None and await self._is_sound():
                return self._client
            await self.stop()  # what is left of one that died
            self._is_broken = False
            started = time.monotonic()
            await tell("loading", 0.0)
            await self._start(started + self.load.timeout)
            await tell("loaded", time.monotonic() - started)
            return self._client

    async def _start(self, deadline: float) -> None:
        key = secrets.token_urlsafe(32)
        self.socket = _new_socket()
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
        """Start the child: it gets a key of its own over its input, and none of ours from the environment."""
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
        # In a session of its own, as Ctrl-C is for us, and not in the project: the engine looks for its parts where it
        # runs.
        process = open_process(
            [sys.executable, "-I", str(_PROGRAM)], environment=command_environment()[0], stdin=PIPE, stderr=said
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            pass  # it ended already, and said why
        return process

    async def _connected(self, key: str) -> Any:
        import httpx2

        # A connection per request: the engine says that it keeps them, and closes them after a streamed answer.
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
        """Wait until the model is loaded; raise when it cannot be."""
        while process.poll() is None:
            if _is_there(self.socket) and await self._is_healthy():
                return
            if time.monotonic() > deadline:
                raise LLMTimeoutError(
                    f"{self.load.name} was not loaded after {self.load.timeout:g} s: raise `timeout`, or take a "
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
        """Tell whether the child can be asked: after a broken connection only one that still answers is kept."""
        if self._is_broken:
            self._is_broken = not await self._is_healthy()
        return not self._is_broken

    # -- ending --

    def _fall_asleep(self) -> None:
        self._rest = None
        if not self._busy:
            self._resting = asyncio.get_running_loop().create_task(self._sleep())

    async def rested(self) -> None:
        """Wait for the end that idleness brought, if it is under way."""
        if self._resting is not None:
            await self._resting

    async def _sleep(self) -> None:
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
                pass  # the child did it


_hosts: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Load, Host]] = WeakKeyDictionary()


def host_for(load: Load) -> Host:
    """Return the host of this event loop that keeps this model: sessions of one program share it."""
    hosts = _hosts.setdefault(asyncio.get_running_loop(), {})
    if load not in hosts:
        hosts[load] = Host(load)
    return hosts[load]


def _new_socket() -> str:
    """Return where the child is to listen: in a folder that is only ours."""
    return str(make_socket_folder("amplifier-model-", _SOCKET) / _SOCKET)


def _is_broken_off(error: Exception) -> bool:
    import httpx2

    return isinstance(error, httpx2.TransportError) and not isinstance(error, httpx2.TimeoutException)


def _is_there(path: str) -> bool:
    return os.path.exists(path)


async def _ended(process: Process) -> None:
    """Ask the child to end by the end of its input, and make it when it does not."""
    if process.stdin is not None:
        try:
            process.stdin.close()
        except OSError:
            pass  # it is gone already
    end = time.monotonic() + _GRACE
    try:
        while process.poll() is None and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells when a process ends
            await asyncio.sleep(_POLL)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(_GRACE)


def _failure(load: Load, code: int, said: IO[bytes]) -> Exception:
    """Return why the child ended before it answered, from what it said."""
    said.seek(0)
    lines = [line.strip() for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line.partition("error loading model: ")[2] for line in lines if "error loading model: " in line]
    told = told or [line.partition(" E ")[2] for line in lines if " E " in line] or lines[-1:]
    reason = " ".join(told[0].split())[:_SHOWN] if told else ""
    if code < 0:
        name = signal.Signals(-code).name if -code in signal.Signals.__members__.values() else str(-code)
        return ProviderUnavailableError(
            f"the process that loads {load.model} was ended by {name}{': ' + reason if reason else ''}: there may be "
            "too little memory; take a smaller model or a smaller `context_window`",
            retryable=False,
        )
    return ConfigurationError(f"{load.model} cannot be loaded: {reason or f'exit code {code}'}")


class Lease:
    """One provider's share in hosts: those it used are ended when nobody else counts on them."""

    def __init__(self) -> None:
        self._held: dict[Load, Host] = {}

    @property
    def hosts(self) -> list[Host]:
        """Return the hosts that are held."""
        return list(self._held.values())

    def host(self, load: Load) -> Host:
        """Return the host of a model, held from now on."""
        if load not in self._held:
            self._held[load] = host_for(load)
            self._held[load].holders += 1
        return self._held[load]

    async def release(self) -> None:
        """Let go of all hosts; one that was the last to be held is ended, and its memory given back."""
        held, self._held = self._held, {}
        for load, host in held.items():
            host.holders -= 1
            if not host.holders:
                _hosts.get(asyncio.get_running_loop(), {}).pop(load, None)
                await host.stop()
                await host.rested()
