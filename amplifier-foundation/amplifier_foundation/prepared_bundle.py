"""A bundle that is ready to run: sessions are created from it, and children spawned."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplifier_core import AmplifierSession
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.module_resolver import FolderSource, PreparedModules
from amplifier_kit.awaitable import maybe_await

if TYPE_CHECKING:
    from amplifier_foundation.bundle import Bundle, ModuleSourceResolver, ProgressCallback
    from amplifier_foundation.modules import ModuleActivator
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime
    from amplifier_foundation.spawn_utils import ProviderPreference

__all__ = ["BundleModuleResolver", "BundleModuleSource", "BundleSession", "PreparedBundle"]

logger = logging.getLogger(__name__)

#: The folder of one module, ready to be loaded.
BundleModuleSource = FolderSource


class BundleModuleResolver(PreparedModules):
    """Give the kernel the folders of a bundle's modules; one that names a source is fetched when it is first needed.

    An unknown module without a source raises the kernel's ModuleNotFoundError, upon which its loader looks at what is
    installed.
    """

    def __init__(self, module_paths: Mapping[str, Path], activator: ModuleActivator | None = None) -> None:
        """Without an `activator` only the modules of `module_paths` are known."""
        super().__init__({name: Path(path) for name, path in module_paths.items()})
        self._activator = activator
        self._activating = asyncio.Lock()

    @property
    def module_paths(self) -> dict[str, Path]:
        """Return the folders that are known by now, by module."""
        return {name: source.path for name, source in self._sources.items()}

    async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> FolderSource:
        """Return the folder of a module; raises the kernel's ModuleNotFoundError, and ModuleActivationError."""
        hint = source_hint if source_hint is not None else profile_hint
        if self._activator is not None and isinstance(hint, str) and hint and module_id not in self._sources:
            async with self._activating:
                if module_id not in self._sources:
                    self._sources[module_id] = FolderSource(await self._activator.activate(module_id, hint))
        return await super().async_resolve(module_id, source_hint, profile_hint)


class BundleSession(AmplifierSession):
    """A session of a prepared bundle: its turns are recorded, and cleaning it up closes its log and its children."""

    #: What runs it; None once it is cleaned up.
    runtime: SessionRuntime | None = None
    _turn: asyncio.Task[Any] | None = None

    async def execute(self, prompt: str) -> Any:
        """Run one turn and return the answer; raises as `AmplifierSession.execute`."""
        task = asyncio.current_task()
        if self.runtime is None or self._turn is task:
            return await super().execute(prompt)
        before, self._turn = self._turn, task
        try:
            return await self.runtime.execute(prompt)
        finally:
            self._turn = before

    async def __aenter__(self) -> BundleSession:
        await super().__aenter__()
        return self

    async def cleanup(self) -> None:
        """Cancel running children, emit session:end and release everything, whatever fails on the way."""
        runtime, self.runtime = self.runtime, None
        if runtime is None:
            await super().cleanup()
        else:
            await runtime.__aexit__(None, None, None)


@dataclass
class PreparedBundle:
    """A bundle whose modules are on this machine. Apps may change the plan and the resolver before a session begins."""

    mount_plan: dict[str, Any]
    resolver: Any
    bundle: Bundle
    #: Import paths of the bundles' own packages.
    bundle_package_paths: list[str] = field(default_factory=list)
    #: What is wrong with the bundle's mode files.
    mode_warnings: list[str] = field(default_factory=list)
    #: For apps to pass objects of modules around; nothing here reads it.
    module_exports: dict[str, Any] = field(default_factory=dict)
    #: Whether a session may run without modules that cannot be loaded; never without the provider that would answer.
    allow_missing_modules: bool = True

    async def create_session(
        self,
        session_id: str | None = None,
        parent_id: str | None = None,
        approval_system: Any = None,
        display_system: Any = None,
        session_cwd: Path | None = None,
        is_resumed: bool = False,
    ) -> BundleSession:
        """Return an initialised session; leave it with `async with session` or `await session.cleanup()`.

        It works in `session_cwd`, else in the current folder, by the rules of the user and of the product: what no
        rule allows is asked through `approval_system`, and denied without one. With `is_resumed` the session of that
        id goes on; its messages are for the app to restore, by `context.set_messages`.

        Raises SessionIdError for an id that no folder can have, and what `AmplifierSession.initialize` raises.
        """
        runtime = self._runtime(
            session_id=session_id,
            parent_id=parent_id,
            approval_system=approval_system,
            display_system=display_system,
            session_cwd=session_cwd,
            is_resumed=is_resumed,
        )
        return await _enter(runtime)

    async def spawn(
        self,
        child_bundle: Bundle,
        instruction: str,
        *,
        compose: bool = True,
        parent_session: Any = None,
        session_id: str | None = None,
        orchestrator_config: Mapping[str, Any] | None = None,
        parent_messages: Sequence[Mapping[str, Any]] | None = None,
        session_cwd: Path | None = None,
        provider_preferences: Sequence[ProviderPreference | Mapping[str, Any]] | None = None,
        self_delegation_depth: int = 0,
    ) -> dict[str, Any]:
        """Run a task in a session of another bundle; return output, session_id, status, turn_count and metadata.

        The child's bundle is laid over this one unless `compose` is False. A child of a session that this library
        created keeps to the rules, the budget and the cancellation of its parent. `session_id` resumes the child that
        has it. Raises SpawnError before anything was started, and ChildError for a child that did not answer.
        """
        from amplifier_foundation.children.capabilities import SpawnRequest

        bundle = self.bundle.compose(child_bundle) if compose else child_bundle
        child = replace(self, mount_plan=_plan_of(bundle), bundle=bundle)
        preferences = [one if isinstance(one, Mapping) else one.to_dict() for one in provider_preferences or ()]
        request = SpawnRequest.of(
            child_bundle.name or "child",
            instruction,
            sub_session_id=session_id,
            orchestrator_config=orchestrator_config,
            parent_messages=list(parent_messages) if parent_messages else None,
            provider_preferences=preferences or None,
            self_delegation_depth=self_delegation_depth,
        )
        runtime = parent_session.runtime if isinstance(parent_session, BundleSession) else None
        if runtime is not None and runtime.children is not None:
            cwd = session_cwd if session_cwd is not None else runtime.prepared.project
            return await runtime.children.spawn_prepared(request, child._prepared(cwd))
        return await child._run_alone(request, parent_session, session_cwd)

    async def _run_alone(self, request: Any, parent: Any, session_cwd: Path | None) -> dict[str, Any]:
        """Run a task in a session of its own; `parent` is a session that this library did not create, or None."""
        from amplifier_foundation.children.plan import configure_orchestrator
        from amplifier_foundation.spawn_utils import apply_provider_preferences_with_resolution as prefer
        from amplifier_foundation.tracing import generate_sub_session_id

        above = getattr(parent, "coordinator", None)
        parent_id = getattr(parent, "session_id", None)
        if request.orchestrator_config:
            configure_orchestrator(self.mount_plan, request.orchestrator_config)
        if request.provider_preferences and above is not None:
            self.mount_plan = await prefer(self.mount_plan, request.provider_preferences, above)
        elif request.provider_preferences:
            from amplifier_foundation.spawn_utils import apply_provider_preferences

            self.mount_plan = apply_provider_preferences(self.mount_plan, request.provider_preferences)
        runtime = self._runtime(
            session_id=request.sub_session_id or generate_sub_session_id(request.agent, parent_id),
            parent_id=parent_id,
            approval_system=getattr(above, "approval_system", None),
            display_system=getattr(above, "display_system", None),
            session_cwd=session_cwd,
        )
        async with await _enter(runtime) as session:
            coordinator = session.coordinator
            if request.self_delegation_depth:
                coordinator.register_capability("self_delegation_depth", request.self_delegation_depth)
            for message in request.parent_messages:
                await maybe_await(coordinator.get("context").add_message(dict(message)))
            if above is not None:
                above.cancellation.register_child(coordinator.cancellation)
            try:
                answer = await session.execute(request.instruction)
            finally:
                if above is not None:
                    above.cancellation.unregister_child(coordinator.cancellation)
            ended = runtime.turn_end.reported
            metadata = ended.get("metadata")
            return {
                "output": answer if isinstance(answer, str) else str(answer),
                "session_id": session.session_id,
                "status": str(ended.get("status") or "success"),
                "turn_count": ended.get("turn_count") if isinstance(ended.get("turn_count"), int) else 1,
                "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
            }

    def _runtime(
        self,
        *,
        session_id: str | None,
        parent_id: str | None,
        approval_system: Any,
        display_system: Any,
        session_cwd: Path | None,
        is_resumed: bool = False,
    ) -> SessionRuntime:
        from amplifier_foundation.children.capabilities import Spawner
        from amplifier_foundation.sessions.runtime import SessionRuntime

        prepared = self._prepared(session_cwd)
        saved = None
        if session_id is not None:
            _check_id(session_id)
        if is_resumed:
            from amplifier_foundation.sessions.resume import SavedSession, load_session

            session_id = session_id or str(uuid.uuid4())
            folder = prepared.home.sessions(prepared.project) / session_id
            # The app restores the messages, as it did with the published library: twice would be one time too many.
            saved = replace(load_session(folder), messages=[]) if folder.is_dir() else None
            saved = saved or SavedSession(session_id, folder, [], [])
        return SessionRuntime(
            prepared,
            session_id=session_id,
            saved=saved,
            approval_system=approval_system,
            display_system=display_system,
            environ=os.environ,
            allow_missing_modules=self.allow_missing_modules,
            spawner=Spawner(),
            parent_id=parent_id,
            session_type=BundleSession,
        )

    def _prepared(self, session_cwd: Path | None) -> Prepared:
        """Return the same for the rooms that run sessions, as it is now."""
        from amplifier_foundation.plan.composed import Composed
        from amplifier_foundation.plan.prepared import Prepared

        bundle = self.bundle._composed()
        composed = Composed(
            reference=bundle.uri or bundle.name,
            name=bundle.name,
            version=bundle.version,
            uri=bundle.uri,
            plan=self.mount_plan,
            instruction=bundle.instruction,
            context={name: str(path) for name, path in bundle.context.items()},
            namespaces={name: str(path) for name, path in bundle.namespaces.items()},
        )
        return Prepared(
            composed,
            Home.find(),
            Path(session_cwd if session_cwd is not None else Path.cwd()).resolve(),
            modules=self.resolver.module_paths if isinstance(self.resolver, BundleModuleResolver) else {},
            package_paths=tuple(map(Path, self.bundle_package_paths)),
            layers=bundle.layers,
            is_made_by_app=True,
            resolver=self.resolver,
            has_project_instructions=False,
        )


async def prepare_bundle(
    bundle: Bundle,
    *,
    install: bool,
    source_resolver: ModuleSourceResolver | None,
    progress_callback: ProgressCallback | None,
    strict: bool,
) -> PreparedBundle:
    """Do the work of `Bundle.prepare`."""
    from amplifier_foundation.bundles.plan_modules import all_modules
    from amplifier_foundation.modules import ModuleActivator

    if bundle.includes and bundle._loaded is None:
        logger.warning("bundle %r: its includes are not followed: load_bundle does that", bundle.name)
    plan = _plan_of(bundle)
    if source_resolver is not None:
        for entry in all_modules(plan):
            if entry.source is not None and isinstance(entry.entry, dict):
                entry.entry["source"] = await maybe_await(source_resolver(entry.module, entry.source))
    activator = ModuleActivator(install_deps=install, base_path=bundle.base_path)
    named = [{"module": one.module, "source": one.source} for one in all_modules(plan) if one.source is not None]
    packages = bundle._composed().packages
    paths = await activator.activate_all(named, progress_callback, strict=strict, packages=packages)
    return PreparedBundle(
        plan,
        BundleModuleResolver(paths, activator),
        bundle,
        list(map(str, activator.package_paths)),
        bundle.validate_modes(),
        allow_missing_modules=not strict,
    )


def _plan_of(bundle: Bundle) -> dict[str, Any]:
    """Return the mount plan with the definitions of agents that are in files."""
    if any(not agent or set(agent) <= {"name"} for agent in bundle.agents.values()):
        bundle = replace(bundle, agents=dict(bundle.agents))
        bundle.load_agent_metadata()
    return bundle.to_mount_plan()


async def _enter(runtime: SessionRuntime) -> BundleSession:
    await runtime.__aenter__()
    session = runtime.session
    assert isinstance(session, BundleSession)
    session.runtime = runtime
    return session


def _check_id(session_id: str) -> None:
    from amplifier_foundation.sessions.store import SessionIdError
    from amplifier_kit.engine.delegation.session_ids import is_session_id

    if not is_session_id(session_id):
        raise SessionIdError(
            f"session_id {session_id!r} cannot be the name of a folder: use letters, digits, '.', '_' and '-'"
        )
