"""Bring a session up in six phases: orchestrator, context, providers, tools, hooks, and then everyone is told.

Phases 1 and 2 are fatal when they fail; a failing provider, tool or hook is a warning and an event, and the session
goes on without it. Whatever a failing module had registered is taken back.
"""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from inspect import isawaitable
from typing import Any

from amplifier_core._foreign import FATAL, call, running_task
from amplifier_core._isolation import copy_containers, describe
from amplifier_core._live_mount import mount_points_copy, restore_mount_points
from amplifier_core._module_layout import TYPE_TO_MOUNT_POINT
from amplifier_core._scope import open_module
from amplifier_core._wave import MountWave
from amplifier_core.events import MODULE_LOAD_FAILED, MODULE_ON_SESSION_READY_FAILED, SESSION_FORK
from amplifier_core.loader import ModuleLoader, module_failure_reason
from amplifier_core.utils.truncate import redact_secrets

logger = logging.getLogger(__name__)

_SECTIONS = ("providers", "tools", "hooks")


async def initialize_session(config: dict[str, Any], coordinator: Any, session_id: str, parent_id: str | None) -> None:
    """Load and mount everything the plan names, in order, then run the on_session_ready callbacks.

    Raises TypeError for a plan of the wrong shape, RuntimeError when the orchestrator or the context cannot be had,
    ValueError for ambiguous providers, and whatever the capability `provider.load_failure` raises.
    """
    _check_shape(config)
    loader = coordinator.loader
    if loader is None:
        loader = coordinator.loader = ModuleLoader(coordinator=coordinator)
    wave = MountWave()
    with open_module(coordinator, None, wave):
        starting = _Starting(config, coordinator, loader, wave)
        await starting.mount_required("orchestrator", "orchestrator", "loop-basic", "orchestrator")
        await starting.mount_required("context", "context manager", "context-simple", "context")
        _check_instances(config.get("providers") or [])
        for entry in config.get("providers") or []:
            await starting.mount_provider(entry)
        for entry in config.get("tools") or []:
            await starting.mount_optional("tool", entry)
        for entry in config.get("hooks") or []:
            await starting.mount_optional("hook", entry)
        await starting.tell_everyone()
    if parent_id:
        payload = {"parent": parent_id, "session_id": session_id, **session_facts(config, raw=True)}
        await _emit_quietly(coordinator, SESSION_FORK, payload)
    logger.info("Session %s initialized successfully", session_id)


async def mount_on_demand(coordinator: Any, point: str, module_id: str, config: dict[str, Any]) -> None:
    """Load and mount one more module in a live session and tell it at once that everyone is there."""
    kinds = {mount_point: kind for kind, mount_point in TYPE_TO_MOUNT_POINT.items()}
    if point not in kinds:
        raise ValueError(f"mount: unknown mount point {point!r}; there are {', '.join(sorted(kinds))}")
    loader = coordinator.loader
    if loader is None:
        raise RuntimeError(f"mount: this coordinator has no loader, so {module_id!r} cannot be loaded by its id")
    wave = MountWave()
    with open_module(coordinator, None, wave):
        starting = _Starting({}, coordinator, loader, wave)
        await starting.mount(kinds[point], {"module": module_id, "config": config})
        await starting.tell_everyone()


def session_facts(config: dict[str, Any], *, raw: bool = False) -> dict[str, Any]:
    """Return the `metadata` (and redacted `raw` plan) that the plan wants on lifecycle events."""
    section = config.get("session") or {}
    facts: dict[str, Any] = {}
    if section.get("metadata"):
        facts["metadata"] = section["metadata"]
    if raw and section.get("raw"):
        facts["raw"] = redact_secrets(config)
    return facts


class _Starting:
    """Mount modules of one session, one after the other."""

    def __init__(self, config: dict[str, Any], coordinator: Any, loader: Any, wave: MountWave) -> None:
        self.config = config
        self.coordinator = coordinator
        self.loader = loader
        self.wave = wave

    async def mount(self, kind: str, entry: dict[str, Any], remap: Any = None) -> None:
        """Load, mount and enqueue one module; on any failure take back all it did and raise."""
        module_id: str = entry["module"]
        coordinator = self.coordinator
        self.wave.kind = kind
        points = mount_points_copy(coordinator)
        ledger = getattr(coordinator, "_ledger", None)
        mark = ledger.mark() if ledger is not None else 0
        with open_module(coordinator, module_id, self.wave):
            try:
                config = copy_containers(entry.get("config") or {})
                mount = await self.loader.load(
                    module_id, config, source_hint=entry.get("source"), coordinator=coordinator
                )
                cleanup = await mount(coordinator)
                if callable(cleanup):
                    coordinator.register_cleanup(cleanup)
                if remap is not None:
                    await remap()
            except BaseException:
                if ledger is not None:
                    await ledger.undo(module_id, mark)
                restore_mount_points(coordinator, points)
                raise
        ready = getattr(mount, "__on_session_ready__", None)
        if isinstance(ready, tuple) and len(ready) == 2:
            self.loader.enqueue_on_session_ready(*ready)

    async def mount_required(self, section: str, title: str, default: str, settings: str) -> None:
        """Mount the orchestrator or the context; raise RuntimeError when that fails."""
        session = self.config["session"]
        spec = session.get(section)
        if isinstance(spec, dict):
            entry = {**spec, "module": spec.get("module") or default}
        else:
            own = self.config.get(settings)
            own_config = own.get("config") if isinstance(own, dict) else None
            entry = {"module": spec or default, "source": session.get(f"{section}_source"), "config": own_config}
        logger.info("Loading %s: %s", title, entry["module"])
        try:
            await self.mount(section, entry)
        except Exception as error:
            logger.error("Failed to load %s '%s': %s", title, entry["module"], describe(error))
            raise RuntimeError(f"Cannot initialize without {title}: {describe(error)}") from error

    async def mount_optional(self, kind: str, entry: dict[str, Any]) -> None:
        """Mount a tool or hook; a failure is a warning and an event."""
        if not entry.get("module"):
            return
        logger.info("Loading %s: %s", kind, entry["module"])
        try:
            await self.mount(kind, entry)
        except Exception as error:
            await self._report(kind, entry, error)

    async def mount_provider(self, entry: dict[str, Any]) -> None:
        """Mount a provider, under its own name or its instance_id; a failure is a warning and two calls."""
        if not entry.get("module"):
            return
        instance = entry.get("instance_id")
        logger.info("Loading provider: %s%s", entry["module"], f" (instance: {instance})" if instance else "")
        providers = self.coordinator.get("providers")
        before = dict(providers or {})
        try:
            await self._call_capability("provider.before_load", deepcopy(entry))
            await self.mount("provider", entry, lambda: self._place_provider(entry, before))
        except Exception as error:
            await self._report("provider", entry, error)
            await self._call_capability("provider.load_failure", deepcopy(entry), error)

    async def _place_provider(self, entry: dict[str, Any], before: dict[str, Any]) -> None:
        """Check that a provider was mounted, and move it from its default name to its instance_id."""
        coordinator = self.coordinator
        mounted = dict(coordinator.get("providers") or {})
        if all(before.get(name) is provider for name, provider in mounted.items()):
            raise ValueError("Provider mount did not install a new provider instance")
        instance = entry.get("instance_id")
        if not instance:
            return
        default = entry["module"].removeprefix("provider-")
        provider = mounted.get(default)
        if provider is None or provider is before.get(default):
            raise ValueError("Named provider mount did not install a new instance at its default mount name")
        if default == instance:
            return
        await coordinator.mount("providers", provider, name=instance)
        if default in before:
            await coordinator.mount("providers", before[default], name=default)
        else:
            await coordinator.unmount("providers", name=default)

    async def tell_everyone(self) -> None:
        """Run the on_session_ready callbacks in mount order; one failure does not stop the next."""
        queue = self.loader.get_on_session_ready_queue()
        deadline = _option(self.coordinator, "ready_timeout")
        for module_id, ready in queue if isinstance(queue, list) else ():
            with open_module(self.coordinator, module_id, self.wave):
                try:
                    await call(running_task(), deadline, ready, self.coordinator)
                except (asyncio.CancelledError, *FATAL):
                    raise
                except BaseException as error:
                    await self._report_ready(module_id, describe(error) or type(error).__name__, error)
        for skipped in self.wave.skipped:
            await self._report_ready(skipped.module_id, skipped.reason, None)
        self.loader.clear_on_session_ready_queue()

    async def _report_ready(self, module_id: str, reason: str, error: BaseException | None) -> None:
        logger.warning("on_session_ready for '%s' raised: %s", module_id, reason, exc_info=error)
        payload = {"module_id": module_id, "error": reason}
        await _emit_quietly(self.coordinator, MODULE_ON_SESSION_READY_FAILED, payload)

    async def _report(self, kind: str, entry: dict[str, Any], error: Exception) -> None:
        logger.warning("Failed to load %s '%s': %s", kind, entry["module"], describe(error), exc_info=error)
        payload = {
            "module_type": kind,
            "module_id": entry["module"],
            "error": describe(error),
            "reason_code": module_failure_reason(error),
        }
        if entry.get("instance_id"):
            payload["instance_id"] = entry["instance_id"]
        await _emit_quietly(self.coordinator, MODULE_LOAD_FAILED, payload)

    async def _call_capability(self, name: str, *arguments: Any) -> None:
        get_capability = getattr(self.coordinator, "get_capability", None)
        capability = get_capability(name) if get_capability is not None else None
        if callable(capability):
            outcome = capability(self.coordinator, *arguments)
            if isawaitable(outcome):
                await outcome


async def _emit_quietly(coordinator: Any, event: str, payload: dict[str, Any]) -> None:
    """Emit an event of the session's start; trouble in telling is no trouble in starting."""
    try:
        await coordinator.hooks.emit(event, payload)
    except Exception as error:
        logger.debug("Could not emit %s: %s", event, describe(error))


def _option(coordinator: Any, name: str) -> float | None:
    read = getattr(coordinator, "_session_option", None)
    value = read(name) if callable(read) else None
    return value if isinstance(value, (int, float)) else None


def _check_shape(config: dict[str, Any]) -> None:
    """Raise TypeError when a section of the plan is not what it must be, before anything is loaded."""
    for section in _SECTIONS:
        entries = config.get(section)
        if entries is None:
            continue
        if not isinstance(entries, list):
            raise TypeError(f"'{section}' section must be a list, got {type(entries).__name__}")
        for index, entry in enumerate(entries):
            path = f"{section}[{index}]"
            if not isinstance(entry, dict):
                raise TypeError(
                    f"Module spec at {path} must be a dict, got {type(entry).__name__}: "
                    f"write {{'module': {entry!r}}} if that is the module's id"
                )
            _check_entry(path, entry)
    for section in ("orchestrator", "context"):
        spec = config["session"].get(section)
        if isinstance(spec, dict):
            _check_entry(f"session.{section}", spec)


def _check_entry(path: str, entry: dict[str, Any]) -> None:
    module, settings = entry.get("module"), entry.get("config")
    if module is not None and not isinstance(module, str):
        raise TypeError(f"Module path at {path} must be a string, got {type(module).__name__}")
    if settings is not None and not isinstance(settings, dict):
        raise TypeError(f"Config at {path} must be a dict, got {type(settings).__name__}")


def _check_instances(entries: list[dict[str, Any]]) -> None:
    """Raise ValueError when two entries of one provider module could not be told apart."""
    unnamed: dict[str, int] = {}
    for entry in entries:
        if entry.get("module") and not entry.get("instance_id"):
            unnamed[entry["module"]] = unnamed.get(entry["module"], 0) + 1
    for module, count in unnamed.items():
        if count > 1:
            raise ValueError(
                f"Multi-instance providers require explicit 'instance_id' on each additional entry. "
                f"Found {count} entries for module '{module}' without instance_id "
                "(at most 1 allowed as the default instance)."
            )
