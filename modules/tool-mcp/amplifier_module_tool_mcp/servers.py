"""All servers of a session: their tools are mounted and unmounted as they change, and every change is an event."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core import HookResult
from amplifier_kit.reminders import reminder
from amplifier_module_tool_mcp.catalogue import Catalogue, CatalogueCache, Offer
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.connection import Changes, Connection, Link
from amplifier_module_tool_mcp.events import (
    CONNECTED,
    DISCONNECTED,
    FAILED,
    IGNORED,
    RENAMED,
    SANDBOX_BLOCKED,
    TOOLS_CHANGED,
)
from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.server_entry import Mask, ServerSpec
from amplifier_module_tool_mcp.server_files import Found
from amplifier_module_tool_mcp.tools import McpTool, View

if TYPE_CHECKING:
    from amplifier_module_tool_mcp.sandbox import Confinement

#: Of what a session gives a handler: so much, and at most so many seconds, is kept to say why in time.
_RESERVE_SHARE: Final = 0.2
_RESERVE_MOST: Final = 2.0
#: The most handlers that wait one after the other, which bounds the whole wait.
_MOST_PARTS: Final = 100


class Requirement:
    """The servers that a session requires, waited for in as many parts as the session's deadline for handlers wants.

    A handler that takes longer than `session.hook_timeout` is given up by the kernel; a server may have more time than
    that. So several handlers wait for it, each for a part of the time.
    """

    def __init__(self, connections: Sequence[Connection], config: Any) -> None:
        self._connections = [connection for connection in connections if connection.spec.required]
        self._part = _seconds(config)
        longest = max((connection.connect_timeout for connection in self._connections), default=0.0)
        #: How many handlers it takes.
        self.parts = min(_MOST_PARTS, max(1, math.ceil(longest / self._part)))

    def __bool__(self) -> bool:
        return bool(self._connections)

    async def missing(self, part: int) -> list[str]:
        """Wait as the n-th handler, from 0 on, and return why servers are not there; none that still has time."""
        faults = await asyncio.gather(*(self._fault(connection, part) for connection in self._connections))
        return [
            f"{connection.spec.name}: {fault}"
            for connection, fault in zip(self._connections, faults, strict=True)
            if fault
        ]

    async def _fault(self, connection: Connection, part: int) -> str:
        left = connection.connect_timeout - (part * self._part if part else 0.0)
        is_last = left <= self._part or part + 1 == self.parts
        try:
            await connection.ready(max(0.0, min(left, self._part)))
        except ServerFault as fault:
            if fault.code != "connect_timeout" or connection.state == "failed":
                return fault.reason
            if is_last:
                why = f" ({connection.fault.reason})" if connection.fault is not None else ""
                return f"it is not connected after {min(connection.connect_timeout, self.parts * self._part):g} s{why}"
        return ""


def _seconds(config: Any) -> float:
    """Return how long a handler may wait; without end where the session has no deadline for it."""
    session = config.get("session") if isinstance(config, Mapping) else None
    limit = session.get("hook_timeout") if isinstance(session, Mapping) else None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        return math.inf
    return float(limit - min(_RESERVE_MOST, _RESERVE_SHARE * limit))


logger = logging.getLogger(__name__)

_MODULE: Final = "tool-mcp"
#: Events are held until the session has started, so that its listeners are there, but no longer than these seconds.
_AUDIENCE: Final = 0.2
#: Seconds by which servers that are not required start later than the session or a request, so that those have the
#: processor to themselves.
_HEAD_START: Final = 0.2
#: The longest that a turn may delay them.
_LONGEST_HEAD_START: Final = 5.0


class Servers:
    """Connect the servers of one session in the background, and mount what they offer."""

    def __init__(
        self, coordinator: Any, settings: McpConfig, found: Found, *, home: Path, project: Path | None
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._ignored = found.ignored
        self._home = home
        self._project = project
        self._cache = CatalogueCache(home / "cache" / "mcp")
        self._masks: dict[str, Mask] = {}
        self._confinements: dict[str, Confinement] = {}
        #: What is mounted for each server, by name.
        self._mounted: dict[str, dict[str, McpTool]] = {}
        #: What was reported for each server about names that would fit another one.
        self._renamed: dict[str, dict[str, str]] = {}
        self._is_started = False
        #: Set when those who listen to events are there: some begin to when the session is ready, after this module.
        self._is_heard = asyncio.Event()
        #: Set when servers are started, other than those that somebody waits for.
        self._is_begun = asyncio.Event()
        self._beginning: asyncio.TimerHandle | None = None
        self._latest = 0.0
        self._announcing: asyncio.Task[None] | None = None
        self.connections = {
            spec.name: Connection(spec, settings, partial(self._link, spec), self) for spec in found.servers.values()
        }
        self.requirement = Requirement(list(self.connections.values()), coordinator.config)

    async def mount_cached(self) -> None:
        """Mount what the servers offered last time; they need not be there for that."""
        for connection in self.connections.values():
            catalogue = self._cache.load(connection.spec)
            if catalogue is not None:
                await self._apply(connection, catalogue)

    async def start(self) -> None:
        """Start to connect all servers and to report ignored entries, without waiting for either."""
        if self._is_started:
            return
        self._is_started = True
        for ignored in self._ignored:
            logger.warning("tool-mcp: %s is not used: %s", ignored["origin"], ignored["reason"])
        loop = asyncio.get_running_loop()
        loop.call_later(_AUDIENCE, self._is_heard.set)
        self._latest = loop.time() + _LONGEST_HEAD_START
        for connection in self.connections.values():
            if connection.spec.required:
                connection.start()
        self._begin_in(_HEAD_START)
        self._announcing = asyncio.create_task(self._announce())

    def _begin_in(self, seconds: float) -> None:
        """Start the servers in so many seconds, and not before, unless that is done or has been put off for long."""
        if not self._is_started or self._is_begun.is_set():
            return
        if self._beginning is not None:
            self._beginning.cancel()
        loop = asyncio.get_running_loop()
        self._beginning = loop.call_at(min(loop.time() + seconds, self._latest), self._begin)

    def _begin(self) -> None:
        self._is_begun.set()
        for connection in self.connections.values():
            connection.start()

    async def on_prompt(self, event: str, data: dict[str, Any]) -> HookResult:
        """Leave the processor to a turn until it has asked the model, and has nothing to do but to wait."""
        self._begin_in(_LONGEST_HEAD_START)
        return HookResult(action="continue")

    async def on_session(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note that the session has started: every event listener is registered by now."""
        self._is_heard.set()
        return HookResult(action="continue")

    async def _announce(self) -> None:
        """Report ignored config entries, and whether servers run in the sandbox."""
        await self._is_heard.wait()
        for ignored in self._ignored:
            await self._coordinator.hooks.emit(IGNORED, dict(ignored))
        await self._is_begun.wait()
        if not any(connection.spec.transport == "stdio" for connection in self.connections.values()):
            return
        from amplifier_kit.guard.sandbox.sandbox import sandbox_of

        try:
            sandbox = sandbox_of(self._coordinator, {"sandbox": self._settings.sandbox})
            await sandbox.announce(self._coordinator, _MODULE)
        except (ValueError, OSError) as error:  # also reported for each server that needs it
            logger.error("tool-mcp: the sandbox cannot be set up: %s", error)

    async def close(self) -> None:
        """End all connections and servers, side by side."""
        if self._beginning is not None:
            self._beginning.cancel()
        if self._announcing is not None:
            self._is_heard.set()
            self._is_begun.set()
            await asyncio.wait([self._announcing])
        await asyncio.gather(*(connection.close() for connection in self.connections.values()))

    # -- before a request --

    def gates(self) -> list[Callable[[str, dict[str, Any]], Awaitable[HookResult]]]:
        """Return the handlers that let a request out, in their order."""
        return [partial(self.on_request, part=part) for part in range(self.requirement.parts)]

    async def on_request(self, event: str, data: dict[str, Any], *, part: int = 0) -> HookResult:
        """Wait for the servers that are required, each as long as its deadline; deny the request without them."""
        await self.start()
        self._is_heard.set()
        self._begin_in(_HEAD_START)
        missing = await self.requirement.missing(part)
        if not missing:
            return HookResult(action="continue")
        text = "; ".join(self.masked(reason) for reason in missing)
        return HookResult(
            action="deny",
            reason=f"a required MCP server is not available: {text}. Repair it, or set `required: false`",
        )

    async def on_visibility(self, event: str, data: dict[str, Any]) -> HookResult:
        """Tell the model which servers there are, and which of them do not work."""
        visibility = self._settings.visibility
        shown = list(self.connections.values())[: visibility.max_servers_visible]
        if not shown:
            return HookResult(action="continue")
        lines = [self._line(connection) for connection in shown]
        if len(self.connections) > len(shown):
            lines.append(f"- and {len(self.connections) - len(shown)} more")
        text = reminder("\n".join(["MCP servers of this session:", *lines]))
        limit = self._coordinator.injection_size_limit
        if limit is not None and len(text) > limit:
            return HookResult(action="continue")
        return HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role="system" if visibility.inject_role == "system" else "user",
            ephemeral=visibility.ephemeral,
            suppress_output=True,
        )

    def _line(self, connection: Connection) -> str:
        names = len(self._mounted.get(connection.spec.name, ()))
        if connection.state == "ready":
            state = "connected"
        elif connection.state == "failed" and connection.fault is not None:
            state = f"not available: {self.masked(connection.fault.reason)}"
        else:
            state = "connecting"
        return f"- {connection.spec.name} ({names} tools): {state}"

    # -- what becomes of a connection --

    async def on_catalogue(self, connection: Connection, catalogue: Catalogue) -> Changes:
        """Mount and unmount until the session has what the server offers."""
        return await self._apply(connection, catalogue)

    async def on_ready(self, connection: Connection, catalogue: Catalogue, changes: Changes, seconds: float) -> None:
        """Tell that the server is there, and keep what it offers for the next session."""
        spec = connection.spec
        confinement = self._confinements.get(spec.name)
        await self._emit(
            CONNECTED,
            connection,
            transport=spec.transport,
            tools=catalogue.count("tool"),
            resources=catalogue.count("resource", "template"),
            prompts=catalogue.count("prompt"),
            left_out=catalogue.left_out,
            duration_ms=round(seconds * 1000, 3),
            sandbox=confinement.status if confinement is not None else None,
        )
        await self._tell_changes(connection, changes)
        await self._tell_renamed(connection)
        await self._cache.save(spec, catalogue)

    async def on_changed(self, connection: Connection, catalogue: Catalogue) -> None:
        """Bring what is mounted up to date."""
        await self._tell_changes(connection, await self._apply(connection, catalogue))
        await self._tell_renamed(connection)
        await self._cache.save(connection.spec, catalogue)

    async def on_failed(self, connection: Connection, fault: ServerFault, *, delay: float | None) -> None:
        """Tell that a server could not be reached, and whether it is tried again by itself."""
        reason = await self._explained(connection, fault)
        logger.warning("tool-mcp: server %s: %s", connection.spec.name, reason)
        await self._emit(
            FAILED,
            connection,
            reason=reason,
            code=fault.code,
            attempt=connection.attempts,
            retry_in=delay,
            required=connection.spec.required,
        )

    async def on_lost(self, connection: Connection, fault: ServerFault) -> None:
        """Tell that a server is gone; its tools stay, and say so when they are called."""
        reason = await self._explained(connection, fault)
        logger.warning("tool-mcp: server %s is gone: %s", connection.spec.name, reason)
        await self._emit(DISCONNECTED, connection, reason=reason, code=fault.code)

    async def _tell_changes(self, connection: Connection, changes: Changes) -> None:
        if changes.added or changes.removed:
            await self._emit(TOOLS_CHANGED, connection, **changes._asdict())

    async def _tell_renamed(self, connection: Connection) -> None:
        """Tell which tools have another name than they would have without the other servers."""
        server = connection.spec.name
        mounted = self._mounted.get(server, {})
        alone = Catalogue(tuple(tool.offer for tool in mounted.values())).named(server)
        renamed = {name: tool.offer.name for name, tool in mounted.items() if name not in alone}
        if renamed and self._renamed.get(server) != renamed:
            self._renamed[server] = renamed
            await self._emit(RENAMED, connection, tools=renamed)

    async def _emit(self, event: str, connection: Connection, **facts: Any) -> None:
        await self._is_heard.wait()
        await self._coordinator.hooks.emit(event, {"server": connection.spec.name, **facts})

    # -- tools --

    async def _apply(self, connection: Connection, catalogue: Catalogue) -> Changes:
        """Mount and unmount until the session has what the catalogue says; return what was added and removed."""
        server = connection.spec.name
        before = self._mounted.setdefault(server, {})
        wanted = catalogue.named(server, self.connections)
        tools = self._coordinator.get("tools")
        removed = [name for name in before if name not in wanted]
        for name in removed:
            if tools.get(name) is before.pop(name):
                await self._coordinator.unmount("tools", name)
        added = []
        for name, offer in wanted.items():
            known = before.get(name)
            if known is not None and known.offer == offer:
                continue
            if known is None and name in tools:
                logger.warning("tool-mcp: %s of server %s is left out: another tool has that name", name, server)
                continue
            before[name] = self._tool(name, offer, connection)
            await self._coordinator.mount("tools", before[name], name=name)
            if known is None:
                added.append(name)
        return Changes(added, removed)

    def _tool(self, name: str, offer: Offer, connection: Connection) -> McpTool:
        server = connection.spec.name
        view = View(self._settings.max_content_size, partial(self._mask, server), partial(self._stopped, server))
        return McpTool(name, offer, connection, view)

    # -- reaching a server --

    async def _link(self, spec: ServerSpec) -> Link:
        from amplifier_module_tool_mcp.http import HttpLink

        resolved = spec.resolved(os.environ)
        self._masks[spec.name] = resolved.mask
        settings = self._settings
        if spec.transport == "http":
            timeout = spec.connect_timeout or settings.connect_timeout
            return HttpLink(resolved, timeout=timeout, largest=settings.max_message_bytes)
        from amplifier_module_tool_mcp.process import ServerProcess
        from amplifier_module_tool_mcp.sandbox import Confinement
        from amplifier_module_tool_mcp.server_log import ErrorStream, log_path

        confinement = self._confinements[spec.name] = Confinement(self._coordinator, settings.sandbox, spec)
        folder = self._folder(resolved.cwd)
        path = log_path(self._log_folder(), spec.name)
        project = Path(self._project or os.getcwd()) if settings.server_log_dir else None
        return ServerProcess(
            resolved,
            folder=folder,
            confinement=confinement,
            largest=settings.max_message_bytes,
            errors=lambda: ErrorStream(
                spec.name, path, resolved.mask, is_verbose=settings.verbose_servers, project=project
            ),
        )

    def _folder(self, given: str) -> str:
        """Return where a server runs: below the project, unless its config says otherwise."""
        return os.path.normpath(os.path.join(str(self._project or os.getcwd()), os.path.expanduser(given)))

    def _log_folder(self) -> Path:
        given = self._settings.server_log_dir
        return Path(given).expanduser() if given else self._home / "logs" / "mcp-servers"

    def _mask(self, server: str) -> Mask:
        return self._masks.setdefault(server, Mask())

    async def _explained(self, connection: Connection, fault: ServerFault) -> str:
        """Return why a server is not available; emit an event too when the sandbox is the reason."""
        server = connection.spec.name
        reason = self._mask(server).diagnostic(fault.reason)
        if fault.code == "sandbox_required":
            await self._tell_blocked(server, "required", reason)
        elif fault.code in ("crashed", "connect_timeout") and (note := await self._stopped(server, reason)):
            reason = f"{reason}. {note}"
        return reason

    async def _stopped(self, server: str, text: str) -> str:
        """Return a line that says that the sandbox stopped something, going by what was said; empty if it did not."""
        confinement = self._confinements.get(server)
        blocked = confinement.blocked(text) if confinement is not None else None
        if blocked is None:
            return ""
        await self._tell_blocked(server, blocked.kind, blocked.reason)
        return blocked.message(f"the entry of the server {server!r}")

    async def _tell_blocked(self, server: str, kind: str, reason: str) -> None:
        await self._is_heard.wait()
        facts = {"tool": _MODULE, "command": server, "reason": reason, "kind": kind}
        await self._coordinator.hooks.emit(SANDBOX_BLOCKED, facts)

    def masked(self, text: str) -> str:
        """Return a text without the values of any server's variables."""
        for mask in self._masks.values():
            text = mask.diagnostic(text)
        return text
