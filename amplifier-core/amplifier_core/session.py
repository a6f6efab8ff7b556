"""Run agents: a session owns a plan, mounts its modules, runs turns and cleans up."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from amplifier_core import _session_init
from amplifier_core._mount import Attempt
from amplifier_core.bounded_call import maybe_await
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.data import deep_merge, describe
from amplifier_core.events import CANCEL_COMPLETED, SESSION_END, SESSION_RESUME, SESSION_START
from amplifier_core.loader import ModuleLoader
from amplifier_core.models import SessionStatus
from amplifier_core.plan import check_outline
from amplifier_core.trace import acting, open_turn, traced_scope

__all__ = ["AmplifierSession", "fork_session", "get_session", "session_create"]

#: Emitted after session:start when the plan asks for it; in no list of canonical events.
SESSION_CONFIG = "session:config"


class AmplifierSession:
    """One conversation with its modules; use it as `async with`, or call initialize(), execute() and cleanup()."""

    def __init__(
        self,
        config: dict[str, Any],
        loader: Any = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        approval_system: Any = None,
        display_system: Any = None,
        is_resumed: bool = False,
    ) -> None:
        """Check the plan's outline and create the coordinator; nothing is loaded yet.

        Raises TypeError for a plan or session section that is not a dict or an id that is not a string, ValueError when
        orchestrator or context is missing. The plan is kept, not copied: changes through `config` are seen by all.
        """
        check_outline(config)
        if session_id is not None and not isinstance(session_id, str):
            raise TypeError(f"session_id must be a string, got {type(session_id).__name__}")
        self.config = config
        self.session_id = session_id or str(uuid.uuid4())
        self.parent_id = parent_id
        self.is_resumed = is_resumed
        self.initialized = False
        self._created_at = datetime.now()
        self._status: SessionStatus | None = None
        self.coordinator: ModuleCoordinator = ModuleCoordinator(self, approval_system, display_system)
        self.coordinator.hooks.set_default_fields(session_id=self.session_id, parent_id=parent_id)
        self._owns_loader = not loader
        self.loader: Any = loader or ModuleLoader(coordinator=self.coordinator)
        self.coordinator.loader = self.loader
        self._initializing = asyncio.Lock()
        self._initializer: asyncio.Task[Any] | None = None
        #: Why the latest initialize() failed, for callers that waited for it.
        self._failure: Exception | None = None
        self._started = False
        self._ended = False
        self._parent_token: Any = None
        spawning = traced_scope() if parent_id else None
        self._spawned_in = spawning.trace_id if spawning is not None else None

    @property
    def status(self) -> SessionStatus:
        if self._status is None:
            # Unchecked: making the validator of the model takes longer than a turn with a fast model.
            self._status = SessionStatus.model_construct(session_id=self.session_id, started_at=self._created_at)
        return self._status

    async def initialize(self) -> None:
        """Load and mount everything, all or nothing; a second call does nothing, concurrent ones share one run.

        Raises what `_session_init.initialize_session` raises, after rolling back everything that was mounted; it may
        then be tried again.
        """
        task = asyncio.current_task()
        if task is not None and task is self._initializer:
            raise RuntimeError(
                f"initialize() of session {self.session_id} would wait for itself: it was called by one of the "
                "modules it is mounting. Move what needs every module to on_session_ready()"
            )
        earlier = self._failure
        async with self._initializing:
            if self.initialized:
                return
            if self._failure is not None and self._failure is not earlier:
                raise self._failure  # of the run that this call waited for
            self._initializer = task
            arguments = self.config, self.coordinator, self.session_id, self.parent_id
            try:
                async with Attempt(self.coordinator):
                    await _session_init.initialize_session(*arguments)
            except Exception as error:  # not when this caller was cancelled: the next one takes over
                self._failure = error
                raise
            finally:
                self._initializer = None
            self.initialized = True
            self._ended = False
            self._failure = None
            _live[self.session_id] = self

    async def execute(self, prompt: str) -> Any:
        """Run one turn and return what the orchestrator returns.

        Raises RuntimeError before initialize() or when orchestrator, context or providers are missing, and whatever
        the orchestrator raises, as it is.
        """
        if not self.initialized:
            raise RuntimeError("Session not initialized. Call initialize() first.")
        coordinator, status = self.coordinator, self.status
        coordinator.reset_turn()
        status.status = "running"
        with open_turn(coordinator, self._spawned_in, "orchestrator", coordinator._mounted_by["orchestrator"]):
            try:
                if not self._started:
                    await self._announce_start()
                result = await self._run_orchestrator(prompt)
            except BaseException as error:
                await self._close_failed_turn(error)
                raise
            if not coordinator.cancellation.is_cancelled:
                status.status = "completed"
                return result
            status.status = "cancelled"
            await self._announce_cancelled({})
            return result

    async def _announce_start(self) -> None:
        """Emit session:start, or session:resume, before the first turn of this session."""
        self._started = True
        event = SESSION_RESUME if self.is_resumed else SESSION_START
        facts = _session_init.session_facts(self.config)
        raw = facts.pop("raw", None)
        hooks = self.coordinator.hooks
        with acting(self.coordinator, "kernel"):
            await hooks.emit(event, {"session_id": self.session_id, "parent_id": self.parent_id, **facts})
            if raw is not None:
                await hooks.emit(SESSION_CONFIG, {"session_id": self.session_id, "raw": raw})

    async def _run_orchestrator(self, prompt: str) -> Any:
        coordinator = self.coordinator
        orchestrator = coordinator.get("orchestrator")
        context = coordinator.get("context")
        providers = coordinator.get("providers")
        if orchestrator is None:
            raise RuntimeError("No orchestrator module mounted")
        if context is None:
            raise RuntimeError("No context manager mounted")
        if not providers:
            raise RuntimeError("No providers mounted")
        returned = orchestrator.execute(
            prompt=prompt,
            context=context,
            providers=providers,
            tools=coordinator.get("tools"),
            hooks=coordinator.hooks,
            coordinator=coordinator,
        )
        return await maybe_await(returned)

    async def _close_failed_turn(self, error: BaseException) -> None:
        message = describe(error)
        self.status.last_error = {"message": message}
        if not self.coordinator.cancellation.is_cancelled:
            self.status.status = "failed"
            return
        self.status.status = "cancelled"
        await self._announce_cancelled({"error": message})

    async def _announce_cancelled(self, facts: dict[str, Any]) -> None:
        immediate = self.coordinator.cancellation.is_immediate
        with acting(self.coordinator, "kernel"):
            await self.coordinator.hooks.emit(CANCEL_COMPLETED, {"was_immediate": immediate, **facts})

    async def cleanup(self) -> None:
        """Emit session:end, once, run every cleanup function and release the loader, whatever fails on the way.

        A KeyboardInterrupt, SystemExit or cancellation on the way is raised after everything has run.
        """
        try:
            if self.initialized and not self._ended:
                await self._announce_end()
        finally:
            try:
                await self.coordinator.cleanup()
            finally:
                self._release()

    async def _announce_end(self) -> None:
        self._ended = True
        self.status.ended_at = datetime.now()  # local time, as started_at is
        if self.status.status == "running":  # no turn was run
            self.status.status = "completed"
        payload = {"session_id": self.session_id, "status": self.status.status}
        await _session_init.emit_quietly(self.coordinator, SESSION_END, payload)

    def _release(self) -> None:
        self.initialized = False
        self._initializing = asyncio.Lock()  # the next start may be in another event loop
        if _live.get(self.session_id) is self:
            del _live[self.session_id]
        if _created.get(self.session_id) is self:
            del _created[self.session_id]
        if self._parent_token is not None:
            self._parent_token.unregister_child(self.coordinator.cancellation)
            self._parent_token = None
        if self._owns_loader:
            self.loader.cleanup()

    async def __aenter__(self) -> AmplifierSession:
        try:
            await self.initialize()
        except BaseException:
            if not self.initialized and not self._initializing.locked():  # else another caller's run continues
                await self.cleanup()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()


# -- system calls --

#: Every initialised session by id, until its cleanup.
_live: WeakValueDictionary[str, AmplifierSession] = WeakValueDictionary()
#: Those that the system calls created: nothing else keeps them alive.
_created: dict[str, AmplifierSession] = {}


def get_session(session_id: str) -> AmplifierSession:
    """Return a live session; raise LookupError for an unknown id."""
    return find_session("get_session", session_id)


def find_session(call: str, session_id: str) -> AmplifierSession:
    """Return a live session; errors name the system call that wants it."""
    if not isinstance(session_id, str):
        raise TypeError(f"{call}: session_id must be a string, got {type(session_id).__name__}")
    session = _live.get(session_id)
    if session is None:
        raise LookupError(f"{call}: no live session {session_id!r}; it was never initialised here or was cleaned up")
    return session


async def session_create(plan: dict[str, Any], **options: Any) -> str:
    """Create and initialise a session from a mount plan and return its id; `options` are AmplifierSession's own.

    Raises ValueError when a live session already has that id, and what initialize() raises.
    """
    session = AmplifierSession(plan, **options)
    if session.session_id in _live:
        raise ValueError(f"session_create: there is already a live session with the id {session.session_id!r}")
    return await _bring_up(session)


async def _bring_up(session: AmplifierSession) -> str:
    try:
        await session.initialize()
    except BaseException:
        session._release()
        raise
    _created[session.session_id] = session
    return session.session_id


async def fork_session(parent_id: str, overlay: dict[str, Any] | None = None) -> str:
    """Create and initialise a child of a live session and return its id.

    The child's plan is the parent's, deep-merged with `overlay`; it shares the parent's loader, approval and display
    systems, and is cancelled with it. The parent is not changed.
    """
    parent = find_session("fork_session", parent_id)
    if overlay is not None and not isinstance(overlay, dict):
        raise TypeError(f"fork_session: overlay must be a dict, got {type(overlay).__name__}")
    coordinator = parent.coordinator
    child = AmplifierSession(
        deep_merge(parent.config, overlay or {}),
        loader=parent.loader,
        parent_id=parent_id,
        approval_system=coordinator.approval_system,
        display_system=coordinator.display_system,
    )
    coordinator.cancellation.register_child(child.coordinator.cancellation)
    child._parent_token = coordinator.cancellation
    return await _bring_up(child)
