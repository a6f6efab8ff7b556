"""Emit events to the registered handlers, in order, and return one verdict.

A handler cannot harm the others: each gets its own JSON-clean copy, its errors are logged and skipped, its time can be
limited, and only a valid verdict counts. See `docs/contracts/hooks-and-verdicts.md`.
"""

from __future__ import annotations

import logging
import operator
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from amplifier_core import events
from amplifier_core._verdicts import INVALID, Fold, InvalidVerdict, plain_result, read_verdict
from amplifier_core.bounded_call import FAULTS, DeadlineExceeded, call, require_plain, running_task
from amplifier_core.correlation import CORRELATED_EVENTS, REQUEST_ID_FIELD, resolve_request_id
from amplifier_core.data import clean, copier, isolate, reason
from amplifier_core.models import ContextInjection, HookResult
from amplifier_core.trace import acting, scope_of, timestamp

__all__ = ["ContextInjection", "HookRegistry", "HookResult", "Outcome"]

logger = logging.getLogger(__name__)

#: A handler registered for this name is called for every event, after the event's own handlers of the same priority.
EVERY_EVENT = "*"


#: The last verdict that denied an event in this task, and the name of the handler it came from.
_denial: ContextVar[tuple[HookResult, str] | None] = ContextVar("amplifier_denial", default=None)


class Outcome(NamedTuple):
    """Who emitted an event and how the handlers decided, for observers."""

    #: continue, deny, ask_user or inject_context; cancelled when the emit was stopped before all handlers had run
    action: str
    #: The name of the handler that denied or asked.
    decided_by: str | None
    reason: str | None
    #: kernel, orchestrator, provider, tool, hook, context or app
    component: str
    #: The id of the module that emitted the event; None for the kernel and the app.
    module: str | None


Observer = Callable[[str, Any, Outcome], object]


class _Registration:
    """A registered handler; calling this removes it, calling it again does nothing."""

    __slots__ = (
        "component", "event", "handler", "is_gate", "module", "name", "number", "priority", "registry", "scope_name",
        "timeout",
    )  # fmt: skip

    def __init__(
        self,
        registry: HookRegistry,
        event: str,
        handler: Any,
        priority: int,
        name: str,
        number: int,
        *,
        is_gate: bool,
        scope_name: str,
        timeout: float | Literal["session"] | None,
    ) -> None:
        self.registry = registry
        self.event = event
        self.handler = handler
        self.priority = priority
        self.name = name
        self.number = number
        #: Whether a failure of the handler denies the event.
        self.is_gate = is_gate
        #: The name of the scope it runs in: `hook:` and its name, or the event when it has none.
        self.scope_name = scope_name
        #: Who registered the handler: it runs in that name.
        self.component = "app"
        self.module: str | None = None
        #: Seconds the handler may take instead of the session's deadline; None for no limit.
        self.timeout = timeout

    def __call__(self) -> None:
        self.registry._remove(self)

    def __repr__(self) -> str:
        return f"<unregister {self.name!r}>"


class HookRegistry:
    """Hold handlers by event and emit events to them."""

    SESSION_START = events.SESSION_START
    SESSION_END = events.SESSION_END
    PROMPT_SUBMIT = events.PROMPT_SUBMIT
    TOOL_PRE = events.TOOL_PRE
    TOOL_POST = events.TOOL_POST
    CONTEXT_PRE_COMPACT = events.CONTEXT_PRE_COMPACT
    ORCHESTRATOR_COMPLETE = events.ORCHESTRATOR_COMPLETE
    USER_NOTIFICATION = events.USER_NOTIFICATION

    def __init__(self) -> None:
        self._registered: dict[str, list[_Registration]] = {}
        #: event → its handlers in calling order, `*` included; dropped whenever a registration changes
        self._arranged: dict[str, tuple[_Registration, ...]] = {}
        self._observers: tuple[tuple[str, Observer], ...] = ()
        self._defaults: dict[str, Any] = {}
        self._count = 0
        #: Seconds each handler may take; None for no limit. The session sets it from `session.hook_timeout`.
        self._timeout: float | None = None
        #: The coordinator this registry belongs to; it owns the scope that handlers run in.
        self._owner: Any = None

    def register(
        self,
        event: str,
        handler: Callable[..., Any],
        priority: int = 0,
        name: str | None = None,
        *,
        on_error: Literal["continue", "deny"] = "continue",
        timeout: float | Literal["session"] | None = "session",
    ) -> Callable[[], None]:
        """Add `handler` for `event` and return a function that removes it again.

        Lower priorities run earlier, equal ones in order of registration. With `on_error="deny"` the handler is a
        gate: when it raises, times out or returns an invalid verdict, it denies the event, and the reason names it.
        `timeout` is for a handler that legitimately waits: seconds instead of the session's deadline for handlers, or
        None for no deadline. Raises TypeError for an event or name that is not a string or a priority that is not an
        integer, and ValueError for another `on_error` or an invalid `timeout`; the handler itself is not checked
        before it is called.
        """
        _require_text("event", event)
        if name is not None:
            _require_text("name", name)
        if on_error not in ("continue", "deny"):
            raise ValueError(f"on_error must be 'continue' or 'deny', got {on_error!r}")
        if timeout is not None and timeout != "session" and not (isinstance(timeout, int | float) and timeout > 0):
            raise ValueError(f"timeout must be a positive number of seconds, None or 'session', got {timeout!r}")
        self._count += 1
        owner = self._owner
        registration = _Registration(
            self,
            event,
            handler,
            operator.index(priority),
            name if name is not None else f"_auto_{event}_{uuid.uuid4()}",
            self._count,
            is_gate=on_error == "deny",
            scope_name=f"hook:{event if name is None else name}",
            timeout=timeout,
        )
        scope = scope_of(owner) if owner is not None else None
        if scope is not None:
            registration.component, registration.module = scope.component, scope.module
        handlers = self._registered.setdefault(event, [])
        handlers.append(registration)
        handlers.sort(key=_calling_order)
        self._arranged.clear()
        if owner is not None:
            owner._ledger.note(registration)
        return registration

    on = register

    def observe(self, observer: Observer, name: str = "observer") -> Callable[[], None]:
        """Call `observer(event, data, outcome)` after every event, denied ones too; return a function that removes it.

        A deny hides an event from the handlers after it; an observer decides nothing and sees every event.
        It gets its own copy of the data as the handlers left it, is called without being awaited, and must be quick.
        Its errors are logged. Raises TypeError for an observer that is not callable.
        """
        if not callable(observer):
            raise TypeError(f"observe: the observer must be callable, got {type(observer).__name__}")
        entry = (name, observer)
        self._observers = (*self._observers, entry)

        def remove() -> None:
            self._observers = tuple(one for one in self._observers if one is not entry)

        if self._owner is not None:
            self._owner._ledger.note(remove)
        return remove

    @staticmethod
    def denied_by(result: HookResult) -> str | None:
        """Return the name of the handler that denied with `result`, None when it is not this task's latest denial."""
        latest = _denial.get()
        return latest[1] if latest is not None and latest[0] is result else None

    def unregister(self, name: str) -> None:
        """Remove the most recent registration of that name; an unknown name is ignored."""
        named = [entry for entries in self._registered.values() for entry in entries if entry.name == name]
        if named:
            self._remove(max(named, key=lambda entry: entry.number))

    def detach(self, module: str) -> Callable[[], None]:
        """Remove every handler that a module registered and return a function that puts them back in their places."""
        removed = [entry for entries in self._registered.values() for entry in entries if entry.module == module]
        for entry in removed:
            self._remove(entry)

        def attach() -> None:
            while removed:
                entry = removed.pop()
                handlers = self._registered.setdefault(entry.event, [])
                handlers.append(entry)
                handlers.sort(key=_calling_order)
            self._arranged.clear()

        return attach

    def list_handlers(self, event: str | None = None) -> dict[str, list[str]]:
        """Return handler names in calling order by event, or for one event, known or not."""
        if event is not None:
            return {event: [entry.name for entry in self._registered.get(event, ())]}
        return {known: [entry.name for entry in entries] for known, entries in self._registered.items()}

    def set_default_fields(self, **defaults: Any) -> None:
        """Replace the fields that every event carries unless its emitter sets them."""
        self._defaults = defaults

    async def emit(self, event: str, data: Any) -> HookResult:
        """Call every handler of `event`, one after the other, and return their combined verdict.

        The handlers are those registered when the emit starts. A deny ends it at once; a modification replaces the
        data for the handlers after it. The result shares no data with handlers or caller. Raises TypeError for an event
        that is not a string, and no error of a handler; cancellation of the caller's task, KeyboardInterrupt and
        SystemExit pass through.
        """
        handlers = self._arranged.get(event)
        if handlers is None:
            handlers = self._arrange(event)
        if event in CORRELATED_EVENTS:
            data = _correlated(event, data)
        fields = data if type(data) is dict else _fields(data)
        if not handlers:
            if self._observers:
                _, fresh = self._stamp(data, fields, len(self._observers))
                self._show(event, fresh, None, is_complete=True)
            return plain_result({} if fields is None else clean(fields))
        task = running_task()
        current, fresh = self._stamp(data, fields, len(handlers) + len(self._observers))
        owner = self._owner
        folding: Fold | None = None
        is_complete = False
        try:
            for entry in handlers:
                timeout = self._timeout if entry.timeout == "session" else entry.timeout
                try:
                    if owner is None:
                        returned = await call(task, timeout, entry.handler, event, fresh())
                    else:
                        with acting(owner, entry.component, entry.module, entry.scope_name):
                            returned = await call(task, timeout, entry.handler, event, fresh())
                    if returned is None or (
                        type(returned) is HookResult and getattr(returned, "action", None) == "continue"
                    ):
                        continue
                    verdict = read_verdict(returned)
                except Exception as error:
                    verdict = self._failed(event, entry, error)
                if verdict is None or verdict.action == "continue":
                    continue
                folding = folding or Fold(event)
                folding.add(entry.name, verdict)
                if folding.denied is not None:
                    _denial.set((folding.denied, entry.name))
                    break
                if verdict.action == "modify" and verdict.data is not None:
                    current = verdict.data
                    fresh = copier(current)
            is_complete = True
        finally:
            if self._observers:
                self._show(event, fresh, folding, is_complete=is_complete)
        verdict = folding.outcome() if folding is not None else None
        return plain_result(fresh() if current is None else current) if verdict is None else verdict

    def _show(self, event: str, fresh: Callable[[], Any], folding: Fold | None, *, is_complete: bool) -> None:
        """Call the observers; one that fails is logged."""
        emitter = scope_of(self._owner)
        component, module = (emitter.component, emitter.module) if emitter is not None else ("app", None)
        action, decided_by, reason = folding.summary() if folding is not None else ("continue", None, None)
        if not is_complete:
            action, decided_by, reason = "cancelled", None, None
        outcome = Outcome(action, decided_by, reason, component, module)
        for name, observer in self._observers:
            try:
                require_plain(observer(event, fresh(), outcome))
            except FAULTS as error:
                _log_failure(event, name, error)

    async def emit_and_collect(self, event: str, data: Any, timeout: float = 1.0) -> list[dict[str, Any]]:
        """Give every handler the plain data and return the `data` dicts of their results, in order.

        Each has `timeout` seconds; late and failing ones are logged and skipped, a deny stops none. Raises TypeError
        for an event that is not a string or a timeout that is not a number.
        """
        if not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout must be a number of seconds, got {type(timeout).__name__}")
        handlers = self._arranged.get(event) or self._arrange(event)
        task = running_task()
        fields = _fields(data)
        fresh = copier(clean(data if fields is None else fields))
        answers: list[dict[str, Any]] = []
        for entry in handlers:
            try:
                owner = self._owner
                with nullcontext() if owner is None else acting(owner, entry.component, entry.module, entry.scope_name):
                    result = read_verdict(await call(task, timeout, entry.handler, event, fresh()))
            except DeadlineExceeded:
                logger.warning("Hook handler timeout for event '%s' (handler '%s')", event, entry.name)
            except Exception as error:
                _log_failure(event, entry.name, error)
            else:
                if result is not None and result.data is not None:
                    answers.append(result.data)
        return answers

    def _failed(self, event: str, entry: _Registration, error: Exception) -> HookResult | None:
        """Log the failure of a handler and return the verdict it amounts to."""
        _log_failure(event, entry.name, error)
        if entry.is_gate:
            return HookResult(action="deny", reason=f"Gate '{entry.name}' failed: {reason(error)}")
        if isinstance(error, InvalidVerdict):
            return HookResult(action="deny", reason=INVALID)
        return None

    def _stamp(self, data: Any, fields: dict[str, Any] | None, times: int) -> tuple[Any, Callable[[], Any]]:
        """Return the event's data with the default fields, ids and time, and a copier of what handlers get."""
        if fields is None:
            return {}, copier(clean(data), times)
        scope = scope_of(self._owner) if self._owner is not None else None
        merged = {**self._defaults, **fields} if scope is None else {**self._defaults, **scope.ids, **fields}
        merged["timestamp"] = timestamp()
        return isolate(merged, times)

    def _arrange(self, event: str) -> tuple[_Registration, ...]:
        _require_text("event", event)
        own = self._registered.get(event)
        every = self._registered.get(EVERY_EVENT, [])
        if not own:
            return tuple(every)  # and not kept: made-up event names must not fill the memory of a long session
        arranged = tuple(sorted([*own, *every], key=_calling_order) if every is not own else own)
        self._arranged[event] = arranged
        return arranged

    def _remove(self, registration: _Registration) -> None:
        entries = self._registered.get(registration.event, [])
        if registration in entries:
            entries.remove(registration)
            self._arranged.clear()


def _calling_order(entry: _Registration) -> tuple[int, bool, int]:
    return entry.priority, entry.event == EVERY_EVENT, entry.number


def _require_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, got {type(value).__name__}")


def _fields(data: Any) -> dict[str, Any] | None:
    """Return the payload as a dict, or None when it is not one and handlers get it as it is."""
    if isinstance(data, dict):
        return data
    dump = getattr(data, "model_dump", None)
    if dump is None:
        return None
    try:
        dumped = dump(mode="json")
    except Exception:
        dumped = dump()  # no pydantic model, or one that JSON mode cannot take: the plain dump is cleaned instead
    return dumped if isinstance(dumped, dict) else None


def _correlated(event: str, data: Any) -> Any:
    fields = _fields(data)
    if fields is None:
        return data
    explicit = fields.get(REQUEST_ID_FIELD)
    request_id = resolve_request_id(event, explicit if isinstance(explicit, str) else None)
    return fields if request_id is None else {**fields, REQUEST_ID_FIELD: request_id}


def _log_failure(event: str, name: str, error: BaseException) -> None:
    logger.error("Hook handler error for event '%s' (handler '%s'): %s", event, name, reason(error), exc_info=error)
