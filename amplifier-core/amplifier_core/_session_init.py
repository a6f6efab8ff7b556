"""Start a session in six phases: orchestrator, context, providers, tools, hooks, on_session_ready.

Phases 1 and 2 are fatal when they fail; a failing provider, tool or hook is a warning and an event, and the session
starts without it. Whatever a failing module had registered is rolled back.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Any

from amplifier_core._discovery import LOAD_FAILURE, module_failure_reason
from amplifier_core._mount import Attempt
from amplifier_core.bounded_call import call, maybe_await, running_task
from amplifier_core.data import copy_tree, describe, reason
from amplifier_core.events import MODULE_LOAD_FAILED, MODULE_ON_SESSION_READY_FAILED, SESSION_FORK
from amplifier_core.loader import ModuleLoader, Ready
from amplifier_core.plan import (
    SESSION_MODULES,
    TYPE_TO_MOUNT_POINT,
    check_instances,
    check_shape,
    plan_modules,
    session_module,
)
from amplifier_core.trace import acting, open_module
from amplifier_core.utils.truncate import redact_secrets

logger = logging.getLogger(__name__)


async def initialize_session(config: dict[str, Any], coordinator: Any, session_id: str, parent_id: str | None) -> None:
    """Load and mount everything the plan names, in order, then run the on_session_ready callbacks.

    Raises TypeError for a plan of the wrong shape, RuntimeError when the orchestrator or the context fails to mount,
    ValueError for ambiguous providers, and whatever the capability `provider.load_failure` raises.
    """
    check_shape(config)
    loader = coordinator.loader
    if loader is None:
        loader = coordinator.loader = ModuleLoader(coordinator=coordinator)
    wave = MountWave(coordinator, loader)
    with open_module(coordinator, None, wave):
        try:
            await wave.mount_required("orchestrator", session_module(config, "orchestrator"))
            await wave.mount_required("context", session_module(config, "context"))
            check_instances(config)
            for module in plan_modules(config):
                if module.kind == "provider":
                    await wave.mount_provider(module.entry)
                elif module.kind not in SESSION_MODULES:
                    await wave.mount_optional(module.kind, module.entry)
            await wave.run_ready_callbacks()
        finally:
            wave.drain()
    if parent_id:
        payload = {"parent": parent_id, "session_id": session_id, **session_facts(config)}
        await emit_quietly(coordinator, SESSION_FORK, payload)
    logger.info("Session %s initialized successfully", session_id)


async def mount_on_demand(coordinator: Any, point: str, module_id: str, config: dict[str, Any]) -> None:
    """Load and mount one more module in a live session and run its on_session_ready at once."""
    kinds = {mount_point: kind for kind, mount_point in TYPE_TO_MOUNT_POINT.items()}
    if point not in kinds:
        raise ValueError(f"mount: unknown mount point {point!r}; known are {', '.join(sorted(kinds))}")
    loader = coordinator.loader
    if loader is None:
        raise RuntimeError(f"mount: this coordinator has no loader, so {module_id!r} cannot be loaded by its id")
    wave = MountWave(coordinator, loader, exclusive=False)
    with open_module(coordinator, None, wave):
        try:
            await wave.mount(kinds[point], {"module": module_id, "config": config})
            await wave.run_ready_callbacks()
        finally:
            wave.drain()


def session_facts(config: dict[str, Any]) -> dict[str, Any]:
    """Return what the plan adds to lifecycle events: its `metadata`, and with `session.raw` the redacted plan."""
    section = config.get("session") or {}
    facts: dict[str, Any] = {}
    if section.get("metadata"):
        facts["metadata"] = section["metadata"]
    if section.get("raw"):
        facts["raw"] = redact_secrets(config)
    return facts


class MountWave:
    """One pass of mounting modules of one session, one after the other, and running their on_session_ready.

    Sessions share loaders and modules; a wave, found through the current scope, belongs to one session.
    """

    def __init__(self, coordinator: Any, loader: Any, *, exclusive: bool = True) -> None:
        self.coordinator = coordinator
        self.loader = loader
        #: The holder of the ready queue; an app's own loader may have none.
        self.queue: Any = loader if hasattr(loader, "get_on_session_ready_queue") else ModuleLoader()
        #: The ready queue itself, if the loader is ours.
        self.ready: list[tuple[str, Ready]] = []
        #: The modules whose on_session_ready() does not run, and why.
        self.skipped: list[tuple[str, str]] = []
        self.exclusive = exclusive
        #: The kind of module being mounted now, as the plan says, and the kinds of those mounted before.
        self.kind: str | None = None
        self.kinds: dict[str, str] = {}

    async def mount(self, kind: str, entry: dict[str, Any], remap: Any = None) -> None:
        """Load, mount and enqueue one module; on any failure roll back its registrations and raise."""
        module_id: str = entry["module"]
        self.kind = self.kinds[module_id] = kind
        with open_module(self.coordinator, module_id, self, kind):
            async with Attempt(self.coordinator, module_id, exclusive=self.exclusive):
                mount = await call(running_task(), None, self._load_and_mount, entry, remap)
        ready = getattr(mount, "__on_session_ready__", None)
        if isinstance(ready, tuple) and len(ready) == 2:
            self.queue.enqueue_on_session_ready(*ready)

    async def _load_and_mount(self, entry: dict[str, Any], remap: Any) -> Any:
        coordinator = self.coordinator
        config = copy_tree(entry.get("config") or {})
        mount = await self.loader.load(
            entry["module"], config, source_hint=entry.get("source"), coordinator=coordinator
        )
        cleanup = await mount(coordinator)
        if callable(cleanup):
            coordinator.register_cleanup(cleanup)
        if remap is not None:
            await remap()
        return mount

    async def mount_required(self, kind: str, entry: dict[str, Any]) -> None:
        """Mount the orchestrator or the context; raises RuntimeError with the kind in `module_type`."""
        title = "context manager" if kind == "context" else kind
        logger.info("Loading %s: %s", title, entry["module"])
        try:
            await self.mount(kind, entry)
        except Exception as error:
            what = "Failed to load %s '%s': %s"
            logger.error(what, title, entry["module"], reason(error), exc_info=error, extra=LOAD_FAILURE)
            failure = RuntimeError(f"Cannot initialize without {title}: {reason(error)}")
            failure.module_type = kind  # type: ignore[attr-defined]
            raise failure from error

    async def mount_optional(self, kind: str, entry: dict[str, Any]) -> None:
        """Mount a tool or hook; a failure is a warning and an event."""
        logger.info("Loading %s: %s", kind, entry["module"])
        try:
            await self.mount(kind, entry)
        except Exception as error:
            await self._report(kind, entry, error)

    async def mount_provider(self, entry: dict[str, Any]) -> None:
        """Mount a provider, under its own name or its instance_id; a failure is a warning and two calls."""
        instance = entry.get("instance_id")
        logger.info("Loading provider: %s%s", entry["module"], f" (instance: {instance})" if instance else "")
        providers = self.coordinator.get("providers")
        before = dict(providers or {})
        try:
            await call(running_task(), None, self._call_capability, "provider.before_load", entry)
            await self.mount("provider", entry, lambda: self._place_provider(entry, before))
        except Exception as error:
            await self._report("provider", entry, error)
            await self._call_capability("provider.load_failure", entry, error)

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

    async def run_ready_callbacks(self) -> None:
        """Run the on_session_ready callbacks in mount order; one failure does not stop the next.

        Failures become events after all have run, so that handlers registered in a callback hear of every one.
        """
        read_option = getattr(self.coordinator, "_session_option", None)  # another coordinator class may have none
        deadline = read_option("ready_timeout") if read_option is not None else None
        failures: list[tuple[str, str]] = []
        queue = self.queue.get_on_session_ready_queue()
        for module_id, ready in queue if isinstance(queue, (list, tuple)) else ():  # a loader may be a stand-in
            with open_module(self.coordinator, module_id, self, self.kinds.get(module_id, "app")):
                try:
                    await call(running_task(), deadline, ready, self.coordinator)
                except Exception as error:
                    failures.append((module_id, reason(error)))
                    logger.warning("on_session_ready for '%s' raised: %s", module_id, reason(error), exc_info=error)
        for module_id, failure in [*failures, *self.skipped]:
            payload = {"module_id": module_id, "error": failure}
            await emit_quietly(self.coordinator, MODULE_ON_SESSION_READY_FAILED, payload)

    def drain(self) -> None:
        """Empty the ready queue: no callback may run twice, or survive a start that failed."""
        self.queue.clear_on_session_ready_queue()

    async def _report(self, kind: str, entry: dict[str, Any], error: BaseException) -> None:
        what = "Failed to load %s '%s': %s"
        logger.warning(what, kind, entry["module"], reason(error), exc_info=error, extra=LOAD_FAILURE)
        known = getattr(self.coordinator, "module_failures", None)  # another coordinator class may have none
        if known is not None:
            known.append((kind, entry, error))
        payload = {
            "module_type": kind,
            "module_id": entry["module"],
            "error": reason(error),
            "reason_code": module_failure_reason(error),
        }
        if entry.get("instance_id"):
            payload["instance_id"] = entry["instance_id"]
        await emit_quietly(self.coordinator, MODULE_LOAD_FAILED, payload)

    async def _call_capability(self, name: str, entry: dict[str, Any], *arguments: Any) -> None:
        capability = self.coordinator.get_capability(name)
        if callable(capability):
            await maybe_await(capability(self.coordinator, _deep_copy(entry), *arguments))


def _deep_copy(entry: dict[str, Any]) -> Any:
    """Copy an entry as deep as it can be copied; a config may hold a client or a lock."""
    try:
        return deepcopy(entry)
    except Exception:
        return copy_tree(entry)


async def emit_quietly(coordinator: Any, event: str, payload: dict[str, Any]) -> None:
    """Emit an event of the session's start or end; a failure to emit fails neither."""
    try:
        with acting(coordinator, "kernel"):
            await coordinator.hooks.emit(event, payload)
    except Exception as error:
        logger.debug("Could not emit %s: %s", event, describe(error))
