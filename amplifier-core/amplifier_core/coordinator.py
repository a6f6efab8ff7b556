"""Give modules their infrastructure: ids, config, mount points, capabilities, contributions, hooks and cancellation.

The coordinator makes no decisions: modules and apps decide what to mount, allow, inject or show. The functions
re-exported here are the system calls, which act on the current session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Self

from amplifier_core import _verdicts, authorization
from amplifier_core._log import LogPipe, Processor, Sink, build_record
from amplifier_core._mount import Ledger, append, remove_identical
from amplifier_core._syscalls import Fragments, emit, get_context, mount, register_hook, set_context_fragment, unmount
from amplifier_core.authorization import Authorization, Policy, RegisteredPolicy, registered_policy
from amplifier_core.bounded_call import PLAIN, begin, call, maybe_await, run_all, running_task
from amplifier_core.cancellation import CancellationToken
from amplifier_core.data import describe
from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult
from amplifier_core.trace import Scope, acting, current_scope, open_module, open_span, scope_of

__all__ = [
    "ModuleCoordinator",
    "emit",
    "get_context",
    "mount",
    "register_hook",
    "set_context_fragment",
    "unmount",
]

logger = logging.getLogger(__name__)

_SINGLE = ("orchestrator", "context", "module-source-resolver")
_NAMED = ("providers", "tools")
#: What the log calls those who act at a mount point.
_COMPONENTS = {"orchestrator": "orchestrator", "context": "context", "providers": "provider", "tools": "tool"}


class ModuleCoordinator:
    """Connect the modules of one session."""

    MOUNT_POINTS: ClassVar = (*_SINGLE, *_NAMED, "hooks")

    def __new__(cls, session: Any = None, approval_system: Any = None, display_system: Any = None, **own: Any) -> Self:
        """Set everything up here, so that subclasses may skip or call `__init__` as they like."""
        if own and cls.__init__ is ModuleCoordinator.__init__:  # else they would be ignored silently
            raise TypeError(f"{cls.__name__}() got unexpected keyword arguments: {', '.join(own)}")
        self = super().__new__(cls)
        self._set_up(session, approval_system, display_system)
        return self

    def _set_up(self, session: Any, approval_system: Any, display_system: Any) -> None:
        self._hooks = HookRegistry()
        self._hooks._owner = self
        self._set_session(session)
        self._cancellation = CancellationToken()
        self.mount_points: dict[str, Any] = {
            "orchestrator": None,
            "providers": {},
            "tools": {},
            "context": None,
            "hooks": self._hooks,
            "module-source-resolver": None,
        }
        self.loader: Any = None
        self._approval_system = approval_system
        self._display_system = display_system
        self._has_approval_provider = self._has_display_service = False
        self._state: dict[str, Any] = {}
        self._capabilities: dict[str, Any] = {}
        self._channels: dict[str, list[dict[str, Any]]] = {}
        self._cleanups: list[Callable[[], Any]] = []
        self._policies: list[RegisteredPolicy] = []
        #: The id of the module that mounted each object, in the shape of `mount_points`.
        self._mounted_by: dict[str, Any] = {"orchestrator": None, "context": None, "providers": {}, "tools": {}}
        #: The modules that failed to load or to mount: kind, entry of the plan, and error.
        self.module_failures: list[tuple[str, dict[str, Any], BaseException]] = []
        self._log_pipe = LogPipe()
        self._ledger = Ledger(self)
        self._fragments = Fragments(self._hooks, self._ledger)
        self._current_turn_injections = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept anything and do nothing."""

    # -- identity and configuration --

    def _set_session(self, session: Any) -> None:
        self._session = session
        self._session_id: str = session.session_id if session is not None else ""
        self._parent_id: str | None = session.parent_id if session is not None else None
        self._config: Any = session.config if session is not None else {}
        for deadline in ("ready_timeout", "approval_timeout"):
            self._seconds(deadline)
        self._hooks._timeout = self._seconds("hook_timeout")

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def parent_id(self) -> str | None:
        return self._parent_id

    @property
    def session(self) -> Any:
        return self._session

    @property
    def config(self) -> Any:
        """The session's mount plan itself, not a copy: changes are seen by all."""
        return self._config

    @property
    def turn_id(self) -> str | None:
        """The id of the turn that is running here, None outside one."""
        scope = scope_of(self)
        return scope.turn_id if scope is not None else None

    @property
    def span_id(self) -> str | None:
        """The id of the innermost open span, None outside one."""
        scope = scope_of(self)
        return scope.span_id if scope is not None else None

    def span(self, name: str) -> Scope:
        """Return a child of the span that is open now, for one `with` or `async with` block; its events have its id."""
        return open_span(self, name)

    @property
    def hooks(self) -> HookRegistry:
        return self._hooks

    @property
    def cancellation(self) -> CancellationToken:
        return self._cancellation

    @property
    def fragments(self) -> Mapping[str, Any]:
        """A read-only copy of the session's context fragments."""
        return self._fragments.view()

    @property
    def channels(self) -> dict[str, list[dict[str, Any]]]:
        return self._channels

    @property
    def _cleanup_fns(self) -> list[Callable[[], Any]]:
        return self._cleanups

    @property
    def approval_system(self) -> Any:
        return self._approval_system

    @approval_system.setter
    def approval_system(self, system: Any) -> None:
        self._approval_system = system
        self._has_approval_provider = system is not None

    @property
    def display_system(self) -> Any:
        return self._display_system

    @display_system.setter
    def display_system(self, system: Any) -> None:
        self._display_system = system
        self._has_display_service |= system is not None

    @property
    def session_state(self) -> dict[str, Any]:
        """Scratch space for apps."""
        return self._state

    @session_state.setter
    def session_state(self, state: dict[str, Any]) -> None:
        if not isinstance(state, dict):
            raise TypeError(f"session_state must be a dict, got {type(state).__name__}")
        self._state = state

    def _session_option(self, name: str) -> Any:
        """Read `config["session"][name]`, whatever shape the config has."""
        config = self._config
        if not isinstance(config, dict) and hasattr(config, "model_dump"):
            config = config.model_dump()
        section = config.get("session") if isinstance(config, dict) else None
        return section.get(name) if isinstance(section, dict) else None

    def _seconds(self, name: str) -> float | None:
        """Read a deadline from the session section; raise ValueError when it is not a positive number."""
        value = self._session_option(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ValueError(f"Configuration session.{name} must be a positive number of seconds, got {value!r}")
        return value

    @property
    def injection_budget_per_turn(self) -> int | None:
        """How many tokens hooks may inject per turn; None for no limit."""
        budget: int | None = self._session_option("injection_budget_per_turn")
        return budget

    @property
    def injection_size_limit(self) -> int | None:
        """How many characters one injection may have; None for no limit."""
        limit: int | None = self._session_option("injection_size_limit")
        return limit

    # -- mount points --

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Mount `module` at once; awaiting the result adds nothing.

        Raises ValueError for an unknown mount point, for `hooks`, and for a named point without a name; TypeError for a
        name that is not a string.
        """
        self._check_point(mount_point)
        if mount_point == "hooks":
            raise ValueError("Hooks should be registered directly with the HookRegistry")
        key: Any = mount_point
        mounted, mounted_by = self.mount_points, self._mounted_by
        if mount_point in _NAMED:
            key = name or getattr(module, "name", None)
            if not key:
                raise ValueError(f"Name required for {mount_point}")
            if not isinstance(key, str):
                raise TypeError(f"Name for {mount_point} must be a string, got {type(key).__name__} from {module!r}")
            mounted, mounted_by = mounted[mount_point], mounted_by[mount_point]
        elif mount_point not in _SINGLE:
            return _done()
        self._ledger.put(mounted, key, module)
        scope = scope_of(self)
        mounted_by[key] = scope.module if scope is not None else None
        return _done()

    def acting(self, mount_point: str, name: str | None = None) -> AbstractContextManager[Any]:
        """Attribute events emitted in a `with` block to the object mounted there, for code that calls it directly.

        Orchestrators open one around a tool or provider; the kernel does so around the orchestrator and every hook.
        """
        module = self._mounted_by.get(mount_point)
        if isinstance(module, dict):
            module = module.get(name)
        return acting(self, _COMPONENTS.get(mount_point, "app"), module)

    def mounted_by(self, mount_point: str, name: str | None = None) -> str | None:
        """Return the id of the module that mounted an object; None if an app did, or if there is none."""
        module = self._mounted_by.get(mount_point)
        found = module.get(name) if isinstance(module, dict) else module
        return found if isinstance(found, str) else None

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return the object mounted at a single point; of a named point the live dict, or one entry of it, or None."""
        try:
            mounted = self.mount_points[mount_point]
        except KeyError:
            raise ValueError(f"Unknown mount point: {mount_point}") from None
        if name is not None and mount_point in _NAMED:
            return mounted.get(name)
        return mounted if mount_point in self.MOUNT_POINTS else None

    def unmount(self, mount_point: str, name: str | None = None) -> Coroutine[Any, Any, None]:
        """Unmount at once; a missing name is ignored.

        Raises ValueError for an unknown mount point and for a named point without a name.
        """
        self._check_point(mount_point)
        if mount_point in _SINGLE:
            self.mount_points[mount_point] = None
        elif mount_point in _NAMED:
            if name is None:
                raise ValueError(f"Name required to unmount from {mount_point}")
            self.mount_points[mount_point].pop(name, None)
        return _done()

    def _check_point(self, mount_point: str) -> None:
        if mount_point not in self.mount_points:
            raise ValueError(f"Unknown mount point: {mount_point}")

    # -- capabilities and contributions --

    def register_capability(self, name: str, value: Any) -> None:
        """Register `value` under `name`, replacing an earlier one; raise TypeError for a name that is not a string."""
        try:
            # Adding to it checks the name: isinstance() would cost more than storing the value does.
            if current_scope() is None:  # not registered by a module: nothing to undo later
                self._capabilities[name + ""] = value
            else:
                self._ledger.put(self._capabilities, name + "", value)
        except TypeError:
            raise TypeError(f"A capability's name must be a string, got {type(name).__name__}") from None

    def get_capability(self, name: str) -> Any:
        """Return the value registered under `name`, or None."""
        try:
            return self._capabilities[name]
        except (KeyError, TypeError):  # or a name that is not even hashable
            return None

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Add a contributor to `channel`; duplicates are allowed."""
        contributors = self._channels.setdefault(channel, [])
        self._ledger.note(append(contributors, {"name": name, "callback": callback}))

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Call the contributors of `channel` in order of registration and return their results without None.

        A contributor that fails is logged and skipped.
        """
        collected: list[Any] = []
        with open_module(self, None):
            for contributor in list(self._channels.get(channel, ())):
                try:
                    given = begin(contributor["callback"])
                    if type(given) not in PLAIN:
                        given = await call(running_task(), None, maybe_await, given)
                except Exception as error:
                    logger.warning(
                        "Contributor '%s' on channel '%s' failed: %s", contributor["name"], channel, describe(error)
                    )
                else:
                    if given is not None:
                        collected.append(given)
        return collected

    def register_cleanup(self, cleanup_fn: Any) -> None:
        """Add a function to run when the session ends; anything that cannot be called is ignored."""
        if callable(cleanup_fn):
            scope = scope_of(self)
            cleanup = cleanup_fn
            if scope is not None and scope.module is not None:
                cleanup = partial(_clean_up_as, self, scope.component, scope.module, cleanup_fn)
            self._cleanups.append(cleanup)
            self._ledger.note(lambda: self._clean_up_early(cleanup))

    async def _clean_up_early(self, cleanup: Callable[[], Any]) -> None:
        if remove_identical(self._cleanups, cleanup):
            await run_all([cleanup])

    async def cleanup(self) -> None:
        """Run every cleanup function once, the newest first, whatever the others do.

        Exceptions are logged. The first KeyboardInterrupt, SystemExit or CancelledError is raised after all have run.
        """
        functions = self._cleanups[::-1]
        self._cleanups.clear()
        self._ledger.clear()
        with acting(self, "kernel"):
            await run_all([*self._fragments.announcements(), *functions])

    def reset_turn(self) -> None:
        self._current_turn_injections = 0

    async def request_cancel(self, immediate: bool = False) -> None:
        """Ask the session to stop, after the current work or at once; emits nothing."""
        if immediate:
            self._cancellation.request_immediate()
        else:
            self._cancellation.request_graceful()

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "unknown") -> HookResult:
        """Inject, show or ask as `result` says; return the part left to the orchestrator. See `_verdicts.carry_out`."""
        return await _verdicts.carry_out(self, result, event, hook_name)

    def to_dict(self) -> dict[str, Any]:
        """Return a summary of what is mounted and registered."""
        return {
            "tools": list(self.mount_points.get("tools") or ()),
            "providers": list(self.mount_points.get("providers") or ()),
            "has_orchestrator": self.mount_points.get("orchestrator") is not None,
            "has_context": self.mount_points.get("context") is not None,
            "capabilities": list(self._capabilities),
            "has_approval_provider": self._has_approval_provider,
            "has_display_service": self._has_display_service,
        }

    # -- authorization and log --

    def register_policy(self, name: str, fn: Policy, priority: int = 0) -> Callable[[], None]:
        """Ask `fn(action, details)` in every authorization; return a function that removes it.

        Raises TypeError or ValueError for a name, function or priority that cannot be used.
        """
        unregister = append(self._policies, registered_policy(name, fn, priority))
        self._ledger.note(unregister)
        return unregister

    async def authorize(self, action: str, details: Mapping[str, Any] | None = None) -> Authorization:
        """Ask the policies whether `action` may happen; unless one allows it, it may not.

        Raises TypeError for an action that is not a string and details that are not a mapping.
        """
        with acting(self, "kernel"):
            return await authorization.authorize(self, self._policies, action, details)

    def add_log_processor(self, fn: Processor) -> None:
        """Add a function that every record passes before any sink; returning None drops the record."""
        self._ledger.note(append(self._log_pipe.processors, fn))

    def add_log_sink(self, fn: Sink) -> None:
        """Add a function that takes finished records; apps decide where records go."""
        self._ledger.note(append(self._log_pipe.sinks, fn))

    @property
    def log_sinks(self) -> tuple[Sink, ...]:
        return tuple(self._log_pipe.sinks)

    def log(
        self, level: str | int | None = None, message: str = "", /, *, event: str = "log:entry", **data: Any
    ) -> None:
        """Hand one record of schema v1 to the sinks; without a sink nothing happens.

        Level and message may be given by position, so that an event's payload may have keys of those names. Raises
        TypeError for an event that is not a string, and no error of a processor or sink.
        """
        if not self._log_pipe.sinks:
            return
        if level is None:
            level, message = data.pop("level", "INFO"), message or data.pop("message", "")
        scope = scope_of(self)
        known = {"session_id": self._session_id or None, "parent_id": self._parent_id, "component": "app"}
        if scope is not None:
            known |= {"component": scope.component, "module": scope.module, **scope.ids}
        self._log_pipe.write(build_record(level, message, event, known, data))


async def _clean_up_as(owner: ModuleCoordinator, component: str, module: str, cleanup: Callable[[], Any]) -> None:
    with acting(owner, component, module):
        await maybe_await(cleanup())


async def _done() -> None:
    """Give callers of `mount()` and `unmount()` something to await."""
