"""Start MCP servers as a session does, through the module that sessions use, and see what they offer.

No session is kept and no log is written. What is learned is what the module's events and tools say.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.mcp.config import MODULE, Found
from amplifier_app_cli.providers.settings import environ_with_keys
from amplifier_app_cli.providers.trial import warnings_held
from amplifier_core import AmplifierSession
from amplifier_core.events import MODULE_LOAD_FAILED
from amplifier_foundation.plan.import_path import hold
from amplifier_foundation.plan.prepare import Composition, activate
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_foundation.settings.plan import expand_plan
from amplifier_foundation.sources.module_resolver import PreparedModules
from amplifier_foundation.trust.check import UntrustedError
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App

#: A loop and a context, which every session must have; they are not used.
_SESSION: Final = {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}}
_PACKAGE: Final = "amplifier_module_tool_mcp"
#: Report a failure at once, not after several attempts.
_AT_ONCE: Final = {"retry": {"attempts": 1}}
#: Seconds beyond the time to connect, which a server has to start and to be ended.
_GRACE: Final = 10.0
_USUAL_TIMEOUT: Final = 30.0


class Offered(NamedTuple):
    """One tool, resource or prompt of a server, under the name that a model calls it by."""

    name: str
    description: str


class Trial(NamedTuple):
    """What became of one server."""

    server: str
    #: `connected`, `failed`, or `cached` when it was not started.
    state: str
    tools: tuple[Offered, ...] = ()
    #: Why it failed, what to do next where that is known, and the code of the failure.
    reason: str | None = None
    advice: str | None = None
    code: str | None = None
    duration_ms: float | None = None
    sandbox: str | None = None

    @property
    def explanation(self) -> str:
        """Why the server failed, and what to do next."""
        return ". ".join(filter(None, (self.reason, self.advice)))


async def try_servers(
    app: App, composition: Composition, found: Found, names: Collection[str], *, start: bool
) -> list[Trial]:
    """Start these servers side by side, and return what became of each; with `start` False, what is cached of them.

    The user's keys are put into the environment of this process, where entries refer to them. Raises
    ModulesMissingError and what preparing a module raises.
    """
    environ, warnings = environ_with_keys(app)
    app.warn(warnings)
    os.environ.update({key: value for key, value in environ.items() if key not in os.environ})
    prepared = await _prepared(app, composition, found, names)
    session = AmplifierSession(expand_plan(prepared.composed.plan, app.environ).value)
    coordinator = session.coordinator
    failures: list[str] = []
    watch = _Watch(names)
    watch.connect(coordinator.hooks)
    coordinator.hooks.register(MODULE_LOAD_FAILED, lambda _, data: failures.append(str(data["error"])), name="trial")
    for name, value in _capabilities(app).items():
        coordinator.register_capability(name, value)
    release = hold(prepared.modules.values(), prepared.project)
    try:
        with warnings_held() as warned:
            await coordinator.mount("module-source-resolver", PreparedModules(prepared.modules))
            await session.initialize()
            if failures:
                raise ModulesMissingError([f"{MODULE}: {failure}" for failure in failures])
            if start:
                await watch.wait(max((_timeout_of(found, name) for name in names), default=0.0) + _GRACE)
            # What the module logs about its servers is part of the result.
            warned[:] = [record for record in warned if not record.name.startswith(_PACKAGE)]
            return watch.trials(coordinator.get("tools") or {}, is_started=start)
    finally:
        await session.cleanup()
        release()


def _capabilities(app: App) -> dict[str, Any]:
    is_trusted = TrustStore(app.home).state(app.project).trusted
    return {
        "session.working_dir": str(app.project),
        "amplifier.home": app.home.path,
        "project.is_trusted": lambda: is_trusted,
        # Entries that do not count are left out of the plan below.
        "plan.is_trusted": lambda module: True,
    }


async def _prepared(app: App, composition: Composition, found: Found, names: Collection[str]) -> Prepared:
    """Return a plan with nothing but the module, whose servers are these alone."""
    from dataclasses import replace

    from amplifier_app_cli.commands.bundle.compose import options_for

    plan = composition.composed.plan
    given = next(
        (entry for entry in plan.get("tools") or [] if isinstance(entry, dict) and entry.get("module") == MODULE), {}
    )
    config = given.get("config")
    own = dict(config) if isinstance(config, dict) else {}
    # The module reads the files itself; entries of the plan are the last word.
    servers: dict[str, Any] = {one.name: {"disabled": True} for one in found.servers if one.name not in names}
    servers |= {one.name: dict(one.entry) for one in map(found.named, names) if one.scope == "bundle"}
    tool = {**given, "module": MODULE, "config": {**own, **_AT_ONCE, "servers": servers}}
    session = plan.get("session")
    kept = {"sandbox": session["sandbox"]} if isinstance(session, dict) and "sandbox" in session else {}
    needed = tuple(use for use in composition.composed.modules if use.section == "tools" and use.module == MODULE)
    if needed and composition.refusals:
        raise UntrustedError(composition.refusals, app.project)
    composed = replace(composition.composed, plan={"session": {**_SESSION, **kept}, "tools": [tool]}, modules=needed)
    return await activate(composed, options_for())


def _timeout_of(found: Found, name: str) -> float:
    seconds = found.named(name).entry.get("connect_timeout")
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else _USUAL_TIMEOUT


class _Watch:
    """Note what the events say about some servers."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = list(names)
        self._ended: dict[str, Mapping[str, Any]] = {}
        self._all = asyncio.Event()

    def connect(self, hooks: Any) -> None:
        for event in ("mcp:connected", "mcp:failed"):
            hooks.register(event, self._note, name="mcp-trial")

    async def wait(self, seconds: float) -> None:
        """Return when every server has connected or failed, and after this many seconds in any case."""
        if self._names:
            try:
                async with asyncio.timeout(seconds):
                    await self._all.wait()
            except TimeoutError:
                pass  # the servers without an event are reported as such

    def _note(self, event: str, data: dict[str, Any]) -> None:
        name = str(data.get("server"))
        if name in self._names and name not in self._ended:
            self._ended[name] = {**data, "event": event}
        if len(self._ended) == len(self._names):
            self._all.set()

    def trials(self, tools: Mapping[str, Any], *, is_started: bool) -> list[Trial]:
        """Return what became of each server."""
        return [self._trial(name, _offered(tools, name), is_started=is_started) for name in self._names]

    def _trial(self, name: str, tools: tuple[Offered, ...], *, is_started: bool) -> Trial:
        ended = self._ended.get(name)
        if not is_started:
            return Trial(name, "cached", tools)
        if ended is None:
            return Trial(name, "failed", reason="it neither connected nor failed in time", code="connect_timeout")
        if ended["event"] == "mcp:connected":
            return Trial(name, "connected", tools, duration_ms=ended.get("duration_ms"), sandbox=ended.get("sandbox"))
        advice = ended.get("advice") or None
        return Trial(name, "failed", reason=str(ended.get("reason")), advice=advice, code=str(ended.get("code")))


def _offered(tools: Mapping[str, Any], server: str) -> tuple[Offered, ...]:
    """Return the tools of a server, which say so in their metadata."""
    found = []
    for name, tool in sorted(tools.items()):
        metadata: Any = getattr(tool, "get_metadata", dict)()
        if isinstance(metadata, Mapping) and metadata.get("mcp_server") == server:
            found.append(Offered(name, str(getattr(tool, "description", "") or "")))
    return tuple(found)
