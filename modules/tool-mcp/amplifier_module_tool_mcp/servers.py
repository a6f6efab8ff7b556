"""All servers of a session: their tools are mounted and unmounted as they change, and every change is an event."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core import HookResult
from amplifier_kit.awaitable import plain_result
from amplifier_kit.reminders import reminder, without_tags
from amplifier_module_tool_mcp.catalogue import Catalogue, CatalogueCache, Offer
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.connection import Changes, Connection, Link, State
from amplifier_module_tool_mcp.events import (
    CONNECTED,
    DISCONNECTED,
    FAILED,
    IGNORED,
    RENAMED,
    SANDBOX_BLOCKED,
    TOOLS_CHANGED,
)
from amplifier_module_tool_mcp.faults import READ_ONLY, ServerFault
from amplifier_module_tool_mcp.server_entry import Mask, ServerSpec
from amplifier_module_tool_mcp.server_files import BUNDLE, Found
from amplifier_module_tool_mcp.tools import McpTool, View

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.errors import Blocked
    from amplifier_module_tool_mcp.sandbox import ServerSandbox

logger = logging.getLogger(__name__)

_MODULE: Final = "tool-mcp"
#: Faults in which the sandbox may have a part.
_START_FAULTS: Final = frozenset(("crashed", "connect_timeout"))
#: Events are held until the session has started, so that its listeners are there, but no longer than these seconds.
_LISTENER_WAIT: Final = 0.2
#: Seconds by which servers that are not required start later than the session or a request, so that those have the
#: processor to themselves.
_HEAD_START: Final = 0.2
#: The longest that a turn may delay them.
_LONGEST_HEAD_START: Final = 5.0
#: Seconds that the session has to be read-only before running servers are ended: a key goes through all modes.
_MODE_SETTLES: Final = 3.0


@dataclass(frozen=True)
class ServerStatus:
    """What is known of one server; texts hold no values of variables and no secrets."""

    name: str
    #: The file that names it, or "the bundle's config".
    origin: str
    transport: str
    #: The command line or address as configured.
    command: str
    required: bool
    state: State
    #: What it offers: `kind`, `name`, the name of the `tool` that models call, and `description`.
    offers: tuple[dict[str, str], ...] = ()
    #: Whether the offers are those of an earlier session.
    is_cached: bool = False
    #: `active`, `absent`, `off`, or `unknown` before the start; None for a server at an address.
    sandbox: str | None = None
    duration_ms: float | None = None
    #: Why it is not available: a stable code, one line of facts, and what to do.
    code: str | None = None
    reason: str | None = None
    advice: str | None = None
    #: The file with its standard error.
    log: str | None = None

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "offers": list(self.offers)}


class Servers:
    """Connect the servers of one session in the background, and mount what they offer."""

    def __init__(
        self, coordinator: Any, settings: McpConfig, found: Found, *, home: Path, project: Path | None
    ) -> None:
        self._coordinator = coordinator
        self._settings = settings
        #: Files and entries that are not used: `origin`, `reason` and `code` of each.
        self.ignored = found.ignored
        self._home = home
        self._project = project
        self._cache = CatalogueCache(home / "cache" / "mcp")
        self._masks: dict[str, Mask] = {}
        self._sandboxes: dict[str, ServerSandbox] = {}
        #: What is mounted for each server, by name.
        self._mounted: dict[str, dict[str, McpTool]] = {}
        #: The servers whose tools are known, from them or from an earlier session.
        self._listed: set[str] = set()
        #: What was reported for each server about names that would fit another one.
        self._renamed: dict[str, dict[str, str]] = {}
        self._is_started = False
        #: Set when all listeners are registered: some register when the session is ready, after this module.
        self._has_listeners = asyncio.Event()
        #: Set when the servers that no request waits for are started.
        self._are_started = asyncio.Event()
        self._scheduled: asyncio.TimerHandle | None = None
        self._latest = 0.0
        self._announcing: asyncio.Task[None] | None = None
        self._suspending: asyncio.Task[None] | None = None
        self.connections = {
            spec.name: Connection(spec, settings, partial(self._link, spec), self) for spec in found.servers.values()
        }
        #: The required servers that the latest request was denied for.
        self.missing: tuple[str, ...] = ()
        #: The reason that was logged for each server, so that it is logged once.
        self._logged: dict[str, str] = {}

    async def mount_cached(self) -> None:
        """Mount what the servers offered last time; they need not be there for that."""
        for connection in self.connections.values():
            catalogue = self._cache.load(connection.spec)
            if catalogue is not None:
                await self._apply(connection, catalogue)

    def has_required(self) -> bool:
        """Return whether the session cannot work without one of the servers."""
        return any(connection.spec.required for connection in self.connections.values())

    async def start(self) -> None:
        """Start to connect all servers and to report ignored entries, without waiting for either."""
        if self._is_started:
            return
        self._is_started = True
        for ignored in self.ignored:
            logger.warning("tool-mcp: %s is not used: %s", ignored["origin"], ignored["reason"])
        self._say_if_read_only()
        loop = asyncio.get_running_loop()
        loop.call_later(_LISTENER_WAIT, self._has_listeners.set)
        self._announcing = asyncio.create_task(self._announce())
        if not self._settings.autostart:
            return
        self._latest = loop.time() + _LONGEST_HEAD_START
        for connection in self.connections.values():
            if connection.spec.required:
                connection.start()
        self._schedule_start(_HEAD_START)

    # -- for apps --

    def statuses(self) -> list[ServerStatus]:
        """Return what is known of all servers, in the order of the config; starts nothing."""
        return [self._status(connection) for connection in self.connections.values()]

    async def connect(self, name: str, timeout: float | None = None) -> ServerStatus:
        """Connect a server and return its status, whether or not that worked; raises KeyError for an unknown name.

        Returns after the first attempt, and after `timeout` seconds or the server's own deadline at the latest.
        """
        connection = self.connections[name]
        self._has_listeners.set()
        connection.start()
        await connection.settled(timeout)
        return self._status(connection)

    def unlisted(self) -> list[str]:
        """Return the servers that may start and whose tools are not known: neither from them nor from earlier."""
        held = self._local() if self._is_read_only() else []
        may_come = {name: one for name, one in self.connections.items() if one.state != "failed" and one not in held}
        return [name for name in may_come if name not in self._listed]

    async def wait(self, timeout: float) -> list[ServerStatus]:
        """Connect the servers whose tools are not known yet; return all statuses when each has connected or failed.

        Waits for `timeout` seconds at most.
        """
        await asyncio.gather(*(self.connect(name, timeout) for name in self.unlisted()))
        return self.statuses()

    @property
    def startup_wait(self) -> float:
        """Return the seconds that an app with a single prompt waits for servers whose tools are not known yet."""
        return self._settings.startup_wait

    def _status(self, connection: Connection) -> ServerStatus:
        from amplifier_kit.guard.redaction.redactor import process_redactor
        from amplifier_module_tool_mcp.server_log import log_path

        spec = connection.spec
        sandbox = self._sandboxes.get(spec.name)
        is_local = spec.transport == "stdio"
        fault = connection.fault if connection.state != "ready" else None
        reason, advice = self._explanation(connection, fault) if fault is not None else ("", "")
        offers = tuple(
            {"kind": tool.offer.kind, "name": tool.offer.name, "tool": name, "description": tool.description}
            for name, tool in self._mounted.get(spec.name, {}).items()
        )
        return ServerStatus(
            name=spec.name,
            origin=spec.origin,
            transport=spec.transport,
            command=process_redactor().scrub_text(shlex.join([spec.command, *spec.args]) if is_local else spec.url),
            required=spec.required,
            state=connection.state,
            offers=offers,
            is_cached=bool(offers) and not connection.was_ready,
            sandbox=(sandbox.status if sandbox is not None else "unknown") if is_local else None,
            duration_ms=connection.duration_ms,
            code=fault.code if fault is not None else None,
            reason=reason or None,
            advice=advice or None,
            log=str(log_path(self._log_folder(), spec.name)) if is_local else None,
        )

    def _schedule_start(self, seconds: float) -> None:
        """Start the servers after some seconds, replacing an earlier schedule, and not later than the latest time."""
        if not self._is_started or self._are_started.is_set() or not self._settings.autostart:
            return
        if self._scheduled is not None:
            self._scheduled.cancel()
        loop = asyncio.get_running_loop()
        self._scheduled = loop.call_at(min(loop.time() + seconds, self._latest), self._start_all)

    def _start_all(self) -> None:
        self._are_started.set()
        for connection in self.connections.values():
            connection.start()

    async def on_prompt(self, event: str, data: dict[str, Any]) -> HookResult:
        """Leave the processor to a turn until it has asked the model, and has nothing to do but to wait."""
        self._schedule_start(_LONGEST_HEAD_START)
        return HookResult(action="continue")

    async def on_mode(self, event: str, data: dict[str, Any]) -> HookResult:
        """End the programs of servers when the session may only read from now on, and start them when it may more."""
        if self._suspending is not None:
            self._suspending.cancel()
        if self._is_read_only():
            self._suspending = asyncio.create_task(self._suspend())
            return HookResult(action="continue")
        for connection in self._local():
            if connection.fault is not None and connection.fault.code == READ_ONLY:
                connection.start()
        return HookResult(action="continue")

    async def _suspend(self) -> None:
        """End the programs of servers, unless the user was only on the way to another mode."""
        await asyncio.sleep(_MODE_SETTLES)
        self._say_if_read_only()
        await asyncio.gather(*(connection.suspend(_read_only_fault()) for connection in self._local()))

    def _say_if_read_only(self) -> None:
        if self._is_read_only() and (local := self._local()):
            names = ", ".join(connection.spec.name for connection in local)
            logger.warning("programs of MCP servers do not run in read-only mode, as they could write: %s", names)

    def _local(self) -> list[Connection]:
        return [connection for connection in self.connections.values() if connection.spec.transport == "stdio"]

    def _is_read_only(self) -> bool:
        is_read_only = self._coordinator.get_capability("session.is_read_only")
        return callable(is_read_only) and plain_result(is_read_only()) is not False

    async def on_session(self, event: str, data: dict[str, Any]) -> HookResult:
        """Note that the session has started: every event listener is registered by now."""
        self._has_listeners.set()
        return HookResult(action="continue")

    async def on_session_end(self, event: str, data: dict[str, Any]) -> HookResult:
        """Report what a short session has not reported yet, so that nothing follows its end in the log."""
        await self._announce_now()
        return HookResult(action="continue")

    async def _announce_now(self) -> None:
        if self._announcing is not None:
            self._has_listeners.set()
            self._are_started.set()
            await asyncio.wait([self._announcing])

    async def _announce(self) -> None:
        """Report ignored config entries, and whether servers run in the sandbox."""
        await self._has_listeners.wait()
        for ignored in self.ignored:
            await self._coordinator.hooks.emit(IGNORED, dict(ignored))
        await self._are_started.wait()
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
        if self._scheduled is not None:
            self._scheduled.cancel()
        if self._suspending is not None:
            self._suspending.cancel()
        await self._announce_now()
        await asyncio.gather(*(connection.close() for connection in self.connections.values()))

    # -- before a request --

    async def on_request(self, event: str, data: dict[str, Any]) -> HookResult:
        """Wait for the servers that are required, each until its own deadline; deny the request without them."""
        await self.start()
        self._has_listeners.set()
        self._schedule_start(_HEAD_START)
        required = [connection for connection in self.connections.values() if connection.spec.required]
        faults = await asyncio.gather(*(_missing(connection) for connection in required))
        missing = [(one, fault) for one, fault in zip(required, faults, strict=True) if fault is not None]
        self.missing = tuple(connection.spec.name for connection, _ in missing)
        if not missing:
            return HookResult(action="continue")
        texts = (f"{one.spec.name}: {'. '.join(filter(None, self._explanation(one, fault)))}" for one, fault in missing)
        return HookResult(
            action="deny",
            reason=f"a required MCP server is not available: {'; '.join(texts)}. Repair it, or set `required: false`",
        )

    async def on_visibility(self, event: str, data: dict[str, Any]) -> HookResult:
        """Show the model which servers there are, and which of them are not available."""
        visibility = self._settings.visibility
        shown = list(self.connections.values())[: visibility.max_servers_visible]
        if not shown:
            return HookResult(action="continue")
        lines = [self._line(connection) for connection in shown]
        if len(self.connections) > len(shown):
            lines.append(f"- and {len(self.connections) - len(shown)} more")
        # A reason may quote what a server has printed.
        text = reminder(without_tags("\n".join(["MCP servers of this session:", *lines])))
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
            state = f"not available: {self._explanation(connection, connection.fault)[0]}"
        else:
            state = "connecting"
        return f"- {connection.spec.name} ({names} tools): {state}"

    # -- what becomes of a connection --

    async def on_catalogue(self, connection: Connection, catalogue: Catalogue) -> Changes:
        """Mount and unmount until the session has what the server offers."""
        return await self._apply(connection, catalogue)

    async def on_ready(self, connection: Connection, catalogue: Catalogue, changes: Changes, seconds: float) -> None:
        """Report that a server is connected, and cache what it offers for the next session."""
        spec = connection.spec
        self._logged.pop(spec.name, None)
        sandbox = self._sandboxes.get(spec.name)
        if hidden := self._hidden_paths(spec.name):
            logger.warning("the MCP server %s: %s. %s", spec.name, *hidden)
        await self._emit(
            CONNECTED,
            connection,
            transport=spec.transport,
            tools=catalogue.count("tool"),
            resources=catalogue.count("resource", "template"),
            prompts=catalogue.count("prompt"),
            left_out=catalogue.left_out,
            duration_ms=round(seconds * 1000, 3),
            sandbox=sandbox.status if sandbox is not None else None,
        )
        await self._report_changes(connection, changes)
        await self._report_renamed(connection)
        await self._cache.save(spec, catalogue)

    async def on_changed(self, connection: Connection, catalogue: Catalogue) -> None:
        """Bring what is mounted up to date."""
        await self._report_changes(connection, await self._apply(connection, catalogue))
        await self._report_renamed(connection)
        await self._cache.save(connection.spec, catalogue)

    async def on_failed(self, connection: Connection, fault: ServerFault, *, delay: float | None) -> None:
        """Report that a server cannot be reached, and whether it is tried again by itself."""
        reason, advice = await self._report(connection, fault, "is not available")
        facts = {"reason": reason, "advice": advice, "code": fault.code, "attempt": connection.attempts}
        await self._emit(FAILED, connection, **facts, retry_in=delay, required=connection.spec.required)

    async def on_lost(self, connection: Connection, fault: ServerFault) -> None:
        """Report that a connection was lost; the tools stay, and fail with the reason when they are called."""
        reason, _ = await self._report(connection, fault, "has disconnected")
        await self._emit(DISCONNECTED, connection, reason=reason, code=fault.code)

    async def _report(self, connection: Connection, fault: ServerFault, what: str) -> tuple[str, str]:
        """Log why a server is not available, the first time; return reason and advice."""
        server = connection.spec.name
        reason, advice = self._explanation(connection, fault)
        text = ". ".join(filter(None, (reason, advice)))
        if self._logged.get(server) != fault.code:
            self._logged[server] = fault.code
            if fault.code != READ_ONLY:  # which was said of all of them together
                logger.warning("the MCP server %s %s: %s", server, what, text)
        if fault.code == "sandbox_required":
            await self._report_blocked(server, "required", reason)
        elif (blocked := self._blocked(server, fault)) is not None:
            await self._report_blocked(server, blocked.kind, blocked.reason)
        return reason, advice

    async def _report_changes(self, connection: Connection, changes: Changes) -> None:
        if changes.added or changes.removed:
            await self._emit(TOOLS_CHANGED, connection, **changes._asdict())

    async def _report_renamed(self, connection: Connection) -> None:
        """Report which tools have another name than they would have without the other servers."""
        server = connection.spec.name
        mounted = self._mounted.get(server, {})
        alone = Catalogue(tuple(tool.offer for tool in mounted.values())).named(server)
        renamed = {name: tool.offer.name for name, tool in mounted.items() if name not in alone}
        if renamed and self._renamed.get(server) != renamed:
            self._renamed[server] = renamed
            await self._emit(RENAMED, connection, tools=renamed)

    async def _emit(self, event: str, connection: Connection, **facts: Any) -> None:
        await self._has_listeners.wait()
        await self._coordinator.hooks.emit(event, {"server": connection.spec.name, **facts})

    # -- tools --

    async def _apply(self, connection: Connection, catalogue: Catalogue) -> Changes:
        """Mount and unmount until the session has what the catalogue says; return what was added and removed."""
        server = connection.spec.name
        self._listed.add(server)
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
        view = View(self._settings.max_content_size, partial(self._mask, server), partial(self._blocked_note, server))
        return McpTool(name, offer, connection, view)

    # -- reaching a server --

    async def _link(self, spec: ServerSpec) -> Link:
        resolved = spec.resolved({"AMPLIFIER_PYTHON": sys.executable, **os.environ})
        self._masks[spec.name] = resolved.mask
        settings = self._settings
        if spec.transport == "http":
            from amplifier_module_tool_mcp.http import HttpLink

            timeout = spec.connect_timeout or settings.connect_timeout
            return HttpLink(resolved, timeout=timeout, largest=settings.max_message_bytes)
        if self._is_read_only():
            raise _read_only_fault()
        from amplifier_module_tool_mcp.process import ServerProcess
        from amplifier_module_tool_mcp.sandbox import ServerSandbox
        from amplifier_module_tool_mcp.server_log import ErrorStream, log_path

        sandbox = self._sandboxes[spec.name] = ServerSandbox(self._coordinator, settings.sandbox, spec)
        path = log_path(self._log_folder(), spec.name)
        project = Path(self._project or os.getcwd()) if settings.server_log_dir else None
        return ServerProcess(
            resolved,
            folder=self._folder(resolved.cwd),
            sandbox=sandbox,
            # Files of a project name servers only when it is trusted; a bundle answers for what it names.
            untrusted_project=self._untrusted_project if spec.origin != BUNDLE else lambda: "",
            largest=settings.max_message_bytes,
            errors=lambda: ErrorStream(
                spec.name, path, resolved.mask, is_verbose=settings.verbose_servers, project=project
            ),
        )

    def _untrusted_project(self) -> str:
        """Return the folder of the project, with links resolved, if the app says that it is not trusted."""
        is_trusted = self._coordinator.get_capability("project.is_trusted")
        if self._project is None or is_trusted is None or plain_result(is_trusted()) is True:
            return ""
        return os.path.realpath(self._project)

    def _folder(self, given: str) -> str:
        """Return where a server runs: below the project, unless its config says otherwise."""
        return os.path.normpath(os.path.join(str(self._project or os.getcwd()), os.path.expanduser(given)))

    def _log_folder(self) -> Path:
        given = self._settings.server_log_dir
        return Path(given).expanduser() if given else self._home / "logs" / "mcp-servers"

    def _mask(self, server: str) -> Mask:
        return self._masks.setdefault(server, Mask())

    def _explanation(self, connection: Connection, fault: ServerFault) -> tuple[str, str]:
        """Return why a server is not available, and what to do if that is known."""
        server = connection.spec.name
        reason, advice = fault.reason, fault.advice
        sandbox = self._sandboxes.get(server)
        if sandbox is not None and fault.code in _START_FAULTS:
            if hidden := self._hidden_paths(server):
                reason, advice = f"{reason}; {hidden[0]}", hidden[1]
            elif (blocked := self._blocked(server, fault)) is not None:
                advice = blocked.message(f"the entry of the server {server!r}").rstrip(".")
        return self.masked(reason), self.masked(advice)

    def _hidden_paths(self, server: str) -> tuple[str, str] | None:
        """Return that the sandbox does not show paths among a server's arguments, and how to show them."""
        sandbox = self._sandboxes.get(server)
        if sandbox is None or not sandbox.not_visible:
            return None
        listed = ", ".join(f'"{path}"' for path in sandbox.not_visible)
        advice = f'To let it read them, set `"sandbox": {{"readable": [{listed}]}}` in its entry'
        return f"its sandbox does not show {', '.join(sandbox.not_visible)}", self.masked(advice)

    def _blocked(self, server: str, fault: ServerFault) -> Blocked | None:
        """Return what the sandbox blocked when a server could not start, according to its last message."""
        sandbox = self._sandboxes.get(server)
        return sandbox.blocked(fault.reason) if sandbox is not None and fault.code in _START_FAULTS else None

    async def _blocked_note(self, server: str, text: str) -> str:
        """Return a line about what the sandbox blocked, according to the answer of a failed call, or nothing."""
        sandbox = self._sandboxes.get(server)
        blocked = sandbox.blocked(text) if sandbox is not None else None
        if blocked is None:
            return ""
        await self._report_blocked(server, blocked.kind, blocked.reason)
        return blocked.message(f"the entry of the server {server!r}")

    async def _report_blocked(self, server: str, kind: str, reason: str) -> None:
        await self._has_listeners.wait()
        facts = {"tool": _MODULE, "command": server, "reason": reason, "kind": kind}
        await self._coordinator.hooks.emit(SANDBOX_BLOCKED, facts)

    def masked(self, text: str) -> str:
        """Return a text without the values of any server's variables."""
        for mask in self._masks.values():
            text = mask.diagnostic(text)
        return text


def _read_only_fault() -> ServerFault:
    reason = "its program is not started while the session may only read, as it could write"
    return ServerFault(READ_ONLY, reason, "Choose another permission mode to use it")


async def _missing(connection: Connection) -> ServerFault | None:
    """Wait for a required server until its deadline, and return why it is not connected."""
    try:
        await connection.ready()
    except ServerFault as fault:
        return fault
    return None
