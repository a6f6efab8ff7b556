"""Hold the connection to one server: connect in the background, reconnect when it is lost, report why it failed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeVar

from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_mcp.catalogue import Catalogue, fetch_catalogue
from amplifier_module_tool_mcp.config import McpConfig, Retry
from amplifier_module_tool_mcp.faults import READ_ONLY, ServerFault, fault_of
from amplifier_module_tool_mcp.server_entry import ServerSpec


class Circuit:
    """A circuit breaker: after too many failures in a row, pause for the cooldown, then allow one attempt."""

    def __init__(self, retry: Retry, clock: Callable[[], float] = time.monotonic) -> None:
        self._retry = retry
        self._clock = clock
        self.failures = 0
        self._last = 0.0

    def failed(self) -> None:
        """Count a failure."""
        self.failures += 1
        self._last = self._clock()

    def succeeded(self) -> None:
        """Forget the failures: the server has answered a call."""
        self.failures = 0

    def wait(self) -> float:
        """Return the seconds until the server may be tried again; 0 for now."""
        if self.failures < self._retry.failures:
            return 0.0
        return max(0.0, self._last + self._retry.cooldown - self._clock())

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the n-th attempt in a row."""
        return min(self._retry.max_delay, self._retry.initial_delay * 2.0 ** min(attempt - 1, 60))


#: In this order: a program that ends meanwhile waits for the one that is being imported, not for all of them.
_STEPS: Final = (
    "pydantic",
    "anyio",
    "httpx2",
    "jsonschema",
    "opentelemetry.trace",
    "mcp_types",
    "starlette.applications",
    "sse_starlette",
    "jwt",
    "mcp",
)


class SdkLoader:
    """Import the SDK in a separate thread, which stops early when every caller has been cancelled."""

    def __init__(self) -> None:
        self._waiting = 0

    async def load(self) -> Any:
        """Return the SDK; raises ServerFault when it cannot be imported."""
        self._waiting += 1
        try:
            await asyncio.to_thread(self._import)
        except ImportError as error:
            raise ServerFault("sdk_missing", f"the package 'mcp' cannot be imported: {error}") from error
        finally:
            self._waiting -= 1
        return sys.modules["mcp"]

    def _import(self) -> None:
        """Import package after package while a caller waits; raise ImportError if the last one cannot be."""
        for name in _STEPS:
            if not self._waiting:
                return
            try:
                import_module(name)
            except ImportError:
                if name == "mcp":
                    raise


#: One for the process: the SDK is the same for all sessions.
SDK: Final = SdkLoader()


logger = logging.getLogger(__name__)

State = Literal["new", "connecting", "ready", "waiting", "failed", "closed"]
T = TypeVar("T")

#: Seconds after an announced change in which further announcements belong to the same change.
_SETTLE: Final = 0.2
#: Seconds that a lost connection is given to say why it was lost.
_LAST_WORDS: Final = 2.0
#: Seconds that closing waits for a server; then its task is cancelled, which ends the process at once.
_CLOSING: Final = 5.0
_CHANGES: Final = ("tools", "resources", "prompts")


class Changes(NamedTuple):
    """What has come to a session and what has gone from it, by name."""

    added: list[str]
    removed: list[str]


class Link(Protocol):
    """A transport of the SDK that knows when it ended and why."""

    fault: ServerFault | None
    ended: asyncio.Event

    @property
    def said(self) -> str: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *error: Any) -> None: ...


class Listener(Protocol):
    """Gets the events of a connection."""

    async def on_catalogue(self, connection: Connection, catalogue: Catalogue) -> Changes: ...

    async def on_ready(
        self, connection: Connection, catalogue: Catalogue, changes: Changes, seconds: float
    ) -> None: ...

    async def on_changed(self, connection: Connection, catalogue: Catalogue) -> None: ...

    async def on_failed(self, connection: Connection, fault: ServerFault, *, delay: float | None) -> None: ...

    async def on_lost(self, connection: Connection, fault: ServerFault) -> None: ...


class Connection:
    """One server of one session; `make_link` may raise ServerFault, and every other trouble becomes one."""

    def __init__(
        self, spec: ServerSpec, settings: McpConfig, make_link: Callable[[], Awaitable[Link]], listener: Listener
    ) -> None:
        self.spec = spec
        self.state: State = "new"
        self.fault: ServerFault | None = None
        self.attempts = 0
        self.connect_timeout = spec.connect_timeout or settings.connect_timeout
        self.call_timeout = spec.call_timeout or settings.call_timeout
        self._settings = settings
        self._make_link = make_link
        self._listener = listener
        self._circuit = Circuit(settings.retry)
        # Background events belong to no turn, even when a turn started the connection.
        self._context = contextvars.copy_context()
        self._client: Any = None
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._news = asyncio.Event()
        self._changes = asyncio.Event()
        self._lost: ServerFault | None = None
        #: Whether it was connected in this session, and how long that took.
        self.was_ready = False
        self.duration_ms: float | None = None
        #: The last thing that went wrong.
        self._cause: ServerFault | None = None

    def start(self) -> None:
        """Begin to connect, unless that is under way, done, or to be left alone for a while; returns at once."""
        if self.state == "closed" or (self._task is not None and not self._task.done()):
            return
        if (left := self._circuit.wait()) > 0:
            why = f", the last time because {self._cause.reason}" if self._cause is not None else ""
            reason = f"it failed {self._circuit.failures} times in a row{why}; it may be tried again in {left:.0f} s"
            self._set_state("failed", ServerFault("circuit_open", reason))
            return
        self._set_state("connecting", self.fault)
        self._task = asyncio.create_task(self._run(), name=f"mcp:{self.spec.name}", context=self._context.copy())

    async def suspend(self, fault: ServerFault) -> None:
        """End the server for a reason that is not its own, and return when it is gone; `start()` connects it again."""
        task = self._task
        if task is None or task.done():
            return
        if self._client is not None:
            self._drop(self._client, fault)
        else:
            task.cancel()
        await asyncio.wait([task], timeout=_CLOSING)
        if self._client is None:
            self._set_state("failed", fault)

    async def ready(self, timeout: float | None = None) -> Any:
        """Return the client once the server is connected; raises ServerFault when that fails or takes too long."""
        limit = self.connect_timeout if timeout is None else timeout
        self.start()
        try:
            async with asyncio.timeout(limit):
                while (client := self._live_client()) is None:
                    if self.state in ("failed", "closed"):
                        raise self.fault or ServerFault("closed", "the session is closed")
                    await self._news.wait()
        except TimeoutError:
            why = f" ({self.fault.reason})" if self.fault is not None else ""
            raise ServerFault("connect_timeout", f"it is not connected after {limit:g} s{why}") from None
        return client

    async def settled(self, timeout: float | None = None) -> None:
        """Return when the current attempt to connect has ended, well or not, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.connect_timeout if timeout is None else timeout):
                while self.state in ("new", "connecting"):
                    await self._news.wait()

    def _live_client(self) -> Any:
        """Return the client, None when the server is not connected or has just ended."""
        return None if self._link is None or self._link.ended.is_set() else self._client

    async def use(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Make one call of the server; raises ServerFault, with code `timeout` for one that took too long."""
        client = await self.ready()
        link = self._link
        try:
            async with asyncio.timeout(self.call_timeout) as limit:
                answer = await call(client)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            fault = fault_of(error)
            if limit.expired():
                fault = ServerFault("timeout", f"it did not answer within {self.call_timeout:g} s")
            raise await self._judge(fault, client, link) from error
        self._circuit.succeeded()
        return answer

    async def close(self) -> None:
        """End the connection and the server; returns when they are gone."""
        self._set_state("closed", ServerFault("closed", "the session is closed"))
        self._stop.set()
        task = self._task
        if task is None or task.done():
            return
        if self._client is None:
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=_CLOSING)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_CLOSING)

    # -- in the background --

    async def _run(self) -> None:
        self.attempts = 0
        while self.state != "closed":
            self.attempts += 1
            self._set_state("connecting", self.fault)
            fault, was_ready = await self._attempt()
            if self._stop.is_set() or fault is None:
                return
            self._record_failure(fault)
            if was_ready:
                self.attempts = 0
            delay = self._delay(fault)
            self._set_state("failed" if delay is None else "waiting", fault)
            if was_ready:
                await self._notify(self._listener.on_lost(self, fault))
            else:
                await self._notify(self._listener.on_failed(self, fault, delay=delay))
            if delay is None:
                return
            await asyncio.sleep(delay)

    def _delay(self, fault: ServerFault) -> float | None:
        """Return after how many seconds to try again; None to leave it to the next call."""
        if not fault.may_pass or self.attempts >= self._settings.retry.attempts or self._circuit.wait() > 0:
            return None
        return self._circuit.delay(max(self.attempts, self._circuit.failures))

    async def _attempt(self) -> tuple[ServerFault | None, bool]:
        """Connect and stay connected; return why it ended, and whether the server had been there."""
        started = time.monotonic()
        self._lost = None
        self._changes.clear()
        link: Link | None = None
        was_ready = False
        try:
            async with asyncio.timeout(self.connect_timeout) as limit:
                sdk = await SDK.load()
                self._link = link = await self._make_link()
                async with (
                    sdk.Client(link, mode=self.spec.protocol, cache=None, message_handler=self._on_message) as client,
                    self._listening(client),
                ):
                    catalogue = await fetch_catalogue(client, self.spec, self._settings.max_tools)
                    limit.reschedule(None)
                    was_ready = True
                    seconds = time.monotonic() - started
                    self.was_ready, self.duration_ms = True, round(seconds * 1000, 3)
                    changes = await self._listener.on_catalogue(self, catalogue)
                    self._client = client
                    self._set_state("ready", None)
                    await self._listener.on_ready(self, catalogue, changes, seconds)
                    await self._stay(client, link)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            fault = self._lost or (link.fault if link is not None else None) or fault_of(error)
            if not was_ready and limit.expired() and (link is None or link.fault is None):
                said = f": {link.said}" if link is not None and link.said else ""
                fault = ServerFault("connect_timeout", f"it is not connected after {self.connect_timeout:g} s{said}")
            if link is not None:
                link.fault = fault
            return fault, was_ready
        finally:
            self._client = self._link = None
            if link is not None:
                link.ended.set()  # wakes callers that wait for the reason
        return self._lost or link.fault, was_ready

    async def _stay(self, client: Any, link: Link) -> None:
        """Keep the lists up to date until the connection is lost or to be closed."""
        while True:
            if await _first(self._stop, link.ended, self._changes) is not self._changes:
                return
            if await _first(self._stop, link.ended, timeout=_SETTLE) is not None:
                return
            self._changes.clear()
            async with asyncio.timeout(self.call_timeout):
                catalogue = await fetch_catalogue(client, self.spec, self._settings.max_tools)
            await self._listener.on_changed(self, catalogue)

    @asynccontextmanager
    async def _listening(self, client: Any) -> AsyncIterator[None]:
        """Subscribe to changes before the first list is fetched, so that no change is missed in between."""
        is_heard = asyncio.Event()
        listening = asyncio.create_task(self._listen(client, is_heard))
        try:
            await _first(is_heard, timeout=_LAST_WORDS)
            yield
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self, client: Any, is_heard: asyncio.Event) -> None:
        """Subscribe to changes, where the protocol version requires a subscription."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        abilities = client.server_capabilities
        wanted = {
            f"{name}_list_changed": True for name in _CHANGES if getattr(getattr(abilities, name), "list_changed", None)
        }
        try:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and wanted:
                async with client.listen(**wanted) as changes:
                    is_heard.set()
                    async for _ in changes:
                        self._changes.set()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.info("tool-mcp: %s does not announce changes: %s", self.spec.name, fault_of(error).reason)
        finally:
            is_heard.set()

    async def _on_message(self, message: Any) -> None:
        if str(getattr(message, "method", "")).endswith("/list_changed"):
            self._changes.set()

    async def _judge(self, fault: ServerFault, client: Any, link: Link | None) -> ServerFault:
        """Return the fault of a call, and let the connection go that it was the end of."""
        if fault.code in ("protocol_error", "start_failed"):
            self._circuit.succeeded()  # it answers
            return fault
        if fault.code in ("timeout", "malformed"):
            self._record_failure(fault)
            if self._circuit.wait() > 0:
                self._drop(client, fault)
            return fault
        if link is not None and link.fault is None:
            await _first(link.ended, timeout=_LAST_WORDS)
        fault = link.fault if link is not None and link.fault is not None else fault
        self._drop(client, fault)
        return fault

    def _record_failure(self, fault: ServerFault) -> None:
        if fault.code == READ_ONLY:
            return
        self._cause = fault
        self._circuit.failed()

    def _drop(self, client: Any, fault: ServerFault) -> None:
        if self._client is client and self._link is not None:
            self._lost = fault
            self._link.ended.set()

    def _set_state(self, state: State, fault: ServerFault | None) -> None:
        """Set the state and wake all waiters; a closed connection stays closed."""
        if self.state == "closed":
            return
        self.state, self.fault = state, fault
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _notify(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            logger.error("tool-mcp: %s: %s", self.spec.name, error, exc_info=error)


async def _first(*events: asyncio.Event, timeout: float | None = None) -> asyncio.Event | None:
    """Return the first event that is set, None when none is in time."""
    tasks = {asyncio.create_task(event.wait()): event for event in events}
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return next((event for event in events if event.is_set()), None)
    finally:
        for task in tasks:
            task.cancel()
