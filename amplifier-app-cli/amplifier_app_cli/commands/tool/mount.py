"""Bring up what a bundle's tools need."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from amplifier_app_cli.app import current_app
from amplifier_app_cli.commands.bundle.compose import options_for
from amplifier_app_cli.providers.choice import unset_of
from amplifier_core.llm_errors import ConfigurationError
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import prepare
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.settings.keys import KeyStore

#: What of a plan tools need to be looked at: neither a model nor hooks.
_PARTS: Final = ("session", "tools", "agents", "spawn")


class ToolUnknownError(FoundationError):
    """The bundle does not have a tool of that name."""

    code = "tool_not_found"


class SessionFailedError(FoundationError):
    """The session that a tool needs cannot be brought up."""

    code = "session_failed"


async def prepared_bundle(bundle: str | None, *, trust: bool) -> Prepared:
    """Return a bundle ready to be run, with the user's keys in the environment; raises what `prepare` raises."""
    app = current_app()
    keys = KeyStore(app.home, os.environ)
    keys.apply(os.environ)
    app.warn(keys.warnings, "note")
    prepared = await prepare(options_for(bundle, trust=trust))
    app.warn(prepared.warnings, "note")
    return prepared


@asynccontextmanager
async def mounted_tools(bundle: str | None, *, trust: bool, module: str | None = None) -> AsyncIterator[dict[str, Any]]:
    """Give the tools of a bundle, or of one of its modules, by name, mounted in a session of which nothing is kept."""
    prepared = await prepared_bundle(bundle, trust=trust)
    plan = {name: part for name, part in prepared.composed.plan.items() if name in _PARTS}
    if module is not None:
        plan["tools"] = _entries_of(module, plan.get("tools") or [])
    with tempfile.TemporaryDirectory() as folder:
        passing = replace(prepared, composed=replace(prepared.composed, plan=plan), home=Home(Path(folder)))
        async with running(SessionRuntime(passing, spawner=Spawner())) as runtime:
            yield dict(runtime.session.coordinator.get("tools") or {})


def _entries_of(module: str, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries that name a module; raises ToolUnknownError with a hint when none does."""
    found = [entry for entry in entries if entry.get("module") == module]
    if not found:
        known = sorted({str(entry.get("module")) for entry in entries})
        hint = did_you_mean(module, known) if known else "it has no tools"
        raise ToolUnknownError(f"the bundle has no tool module {module!r}: {hint}")
    return found


@asynccontextmanager
async def running(runtime: Any) -> AsyncIterator[Any]:
    """Enter a session; a plan that the kernel cannot run becomes a fault with a message."""
    try:
        await runtime.__aenter__()
    except (ValueError, TypeError, RuntimeError) as error:
        raise SessionFailedError(str(error) or type(error).__name__) from error
    try:
        yield runtime
    finally:
        await runtime.__aexit__(None, None, None)


def find_tool(tools: dict[str, Any], name: str) -> Any:
    """Return the tool of that name; raises ToolUnknownError with a hint."""
    if name in tools:
        return tools[name]

    hint = did_you_mean(name, sorted(tools)) if tools else "it has none; see `amplifier module add`"
    raise ToolUnknownError(f"the bundle has no tool {name!r}: {hint}")


def leave_out_keyless(plan: dict[str, Any]) -> None:
    """Remove the providers without a key from a plan that is about to be mounted.

    They could not be mounted, and a missing module stops a session. The record of the session still names them:
    resuming it reports the missing key.
    """
    entries = plan.get("providers")
    if isinstance(entries, list):
        plan["providers"] = [entry for entry in entries if not unset_of(entry, os.environ)]


async def stand_in(coordinator: Any) -> None:
    """Mount a stand-in when there is no provider: the kernel has no turn without one."""
    if not coordinator.get("providers"):
        await coordinator.mount("providers", _NoModel(), name=_NoModel.name)


class _NoModel:
    """A provider without a model."""

    name = "no-model"

    def get_info(self) -> NoReturn:
        self._refuse()

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **kwargs: Any) -> NoReturn:
        """Raise ConfigurationError: a tool or a hook asks for a model."""
        self._refuse()

    def parse_tool_calls(self, response: Any) -> list[Any]:
        return []

    def _refuse(self) -> NoReturn:
        raise ConfigurationError(
            "a model is needed, and no provider of this session has a key: `amplifier provider list` shows what "
            "each needs, `amplifier keys set` stores one"
        )
