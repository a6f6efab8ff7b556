"""Let the approval system of a session be its approval provider as well: what is asked about a call is asked once.

Modules of the published kind hold calls on `tool:pre` and ask the provider that is registered with them; the kernel
asks the approval system, afterwards. To the person that is one question.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

from amplifier_core import ApprovalRequest, ApprovalResponse
from amplifier_core.approval import ApprovalHandler, ApprovalSystem, ApprovalTimeoutError, put
from amplifier_core.bounded_call import running_task, unhurried
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, TOOL_ERROR, TOOL_POST, TOOL_PRE
from amplifier_core.models import HookResult
from amplifier_foundation.permissions.answered_by import APP, KEY, AnsweredBy
from amplifier_kit.awaitable import maybe_await

_OPTIONS: Final = ("Allow", "Deny")
_FOR_GOOD: Final = "allow always"
_CALL: Final = ("tool_call_id", "tool_name", "tool_input")
#: Before hooks that change or mask what they pass on; behind whoever says by whom it was decided; after all others.
_FIRST: Final = -1000
_SECOND: Final = -999
_LAST: Final = 10_000
#: What becomes of a call whose question is open, and who has decided that.
_OPEN: Final[tuple[str, AnsweredBy]] = ("approval needed: nobody answered", {"kind": "nobody"})
_LATE: Final[tuple[str, AnsweredBy]] = ("approval timeout: nobody answered in time", {"kind": "timeout"})
#: Seconds that an approval system past its time gets to take its question away.
_GRACE: Final = 1.0

_Side = Literal["kernel", "provider"]


class LateError(ApprovalTimeoutError, TimeoutError):
    """Nobody answered in time, in both words that modules know for it."""


class _Said(NamedTuple):
    """What was answered, and by whom."""

    is_yes: bool
    words: str
    by: AnsweredBy

    @property
    def reason(self) -> str:
        return f"{'approved' if self.is_yes else 'not approved'}: {self.words}"


@dataclass
class _Call:
    """A call on its way through hooks and policies."""

    span: str
    tool_name: str
    tool_input: Mapping[str, Any]
    #: What makes it the same call with the same input; None when that cannot be told.
    key: str | None
    #: Whether hooks hear of it just now: then a module may ask about it.
    is_in_hooks: bool = True
    #: A yes, by who was asked for it: it spares the question of the other one, once.
    granted: dict[_Side, _Said] = field(default_factory=dict)
    #: A no to either is one to both.
    refused: _Said | None = None
    #: Why the provider has no answer: no time, a failure, or a question that is still open.
    unanswered: str = ""
    #: Whose answer the module will tell of.
    by: AnsweredBy | None = None


class ApprovalProvider:
    """Ask as `AskedOnce` does."""

    def __init__(self, desk: AskedOnce) -> None:
        self._desk = desk

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return what the person says; raise LateError when they do not in time, else what asking them raises."""
        return await self._desk.answer(request)


class AskedOnce(ApprovalHandler):
    """Be the approval system of a session in place of the one it has, and answer its provider's questions too.

    A call whose provider was not given a yes does not run, whatever the module makes of that: one that fails over it
    would let the call pass.
    """

    def __init__(self, coordinator: Any, system: ApprovalSystem) -> None:
        self._coordinator, self._system = coordinator, system
        #: The calls that hooks and policies hear of, by the task that runs them.
        self._calls: WeakKeyDictionary[asyncio.Task[Any], _Call] = WeakKeyDictionary()

    async def connect(self, register_provider: Callable[[Any], object]) -> None:
        """Be asked by the kernel, and by the module that takes a provider."""
        hooks = self._coordinator.hooks
        hooks.register(TOOL_PRE, self._on_call, priority=_FIRST, name="app-approval-provider")
        hooks.register(TOOL_PRE, self._before_run, priority=_LAST, name="app-approval-provider", on_error="deny")
        for event in (APPROVAL_GRANTED, APPROVAL_DENIED):
            hooks.register(event, self._on_decided, priority=_SECOND, name="app-approval-provider")
        for event in (TOOL_POST, TOOL_ERROR):
            hooks.register(event, self._on_closed, priority=_FIRST, name="app-approval-provider")
        self._coordinator.approval_system = self
        await maybe_await(register_provider(ApprovalProvider(self)))

    # -- who asks --

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer the kernel: as the provider was answered about the same call, else as the approval system does."""
        task = running_task()
        call = self._calls.get(task) if task is not None else None
        # What only the tool can see is another question.
        is_about_call = request.origin == "policy" and request.details.keys() == set(_CALL)
        if call is None or call.key is None or not is_about_call or _key(request.details) != call.key:
            return await put(self._system, request)
        if (said := call.refused or call.granted.pop("provider", None)) is not None:
            words = _OPTIONS[0] if said.is_yes else said.words
            return ApprovalResponse(approved=said.is_yes, answer=words, answered_by=said.by)
        response = await put(self._system, request)
        _keep(call, "kernel", _said(response))
        return response

    async def answer(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer the provider: as the kernel was answered about the same call, else as the approval system does."""
        task, call = self._call_of(request.tool_name)
        if call is None:
            return _response(await self._put(request, {}, task))
        said = call.refused
        if said is None and not _is_other_input(request.details, call.tool_input):
            said = call.granted.pop("kernel", None)
        if said is not None:
            call.by = said.by
            # What the kernel's question lets hold for good is the rule that it shows: a module shows none.
            return ApprovalResponse(approved=said.is_yes, reason=said.reason)
        # Modules that keep the time themselves take the question back when it is over.
        call.unanswered, call.by = _LATE if math.isfinite(self._limit(request)) else _OPEN
        try:
            said = await self._put(request, call.tool_input, task)
        except LateError:
            call.unanswered, call.by = _LATE
            raise
        except Exception as error:
            call.unanswered = f"the approval system failed: {error or type(error).__name__}"
            call.by = {"kind": "failure"}
            raise
        call.unanswered, call.by = "", said.by
        _keep(call, "provider", said)
        return _response(said)

    async def _put(self, request: ApprovalRequest, known: Mapping[str, Any], task: asyncio.Task[Any] | None) -> _Said:
        """Put a request of a module to the approval system, in a task of its own, for as long as there is time.

        Meanwhile the deadline of hooks does not run in `task`: a person may think longer.
        """
        limit = self._limit(request)
        asking = asyncio.ensure_future(self._asked(self._identified(request, known, limit)))
        try:
            with unhurried(task):
                await asyncio.wait({asking}, timeout=limit if math.isfinite(limit) else None)
        finally:
            asking.cancel()  # also when the session is stopped; one that is done stays as it is
        if not asking.done():
            late, _ = await asyncio.wait({asking}, timeout=_GRACE)
            _ = [one.exception() for one in late if not one.cancelled()]  # nobody waits for that any more
            raise LateError(f"no answer within {limit:g} s")
        if asking.cancelled():
            raise RuntimeError("the question was taken back")
        return asking.result()

    async def _asked(self, request: ApprovalRequest) -> _Said:
        try:
            return _said(await put(self._system, request))
        except (ApprovalTimeoutError, TimeoutError) as error:
            raise LateError(str(error)) from error

    def _identified(self, request: ApprovalRequest, known: Mapping[str, Any], limit: float) -> ApprovalRequest:
        """Return a module's request with what the kernel would have set, and with the call as far as it is known.

        What the module says of it that the call does not show is shown beside it.
        """
        shown = {"tool_name": request.tool_name, "tool_input": dict(known), **known}
        more = {
            key: value
            for key, value in request.details.items()
            if key != "tool_call_id" and (key not in shown or shown[key] != value)
        }
        told = f" {json.dumps(more, sort_keys=True, ensure_ascii=False, default=str)}" if more else ""
        asked = f"Allow {request.action}? {request.tool_name} needs approval, risk: {request.risk_level}{told}"
        return request.model_copy(
            update={
                "id": request.id or uuid4().hex,
                "session_id": self._coordinator.session_id,
                "span_id": self._coordinator.span_id,
                "origin": "module",
                "details": {"tool_name": request.tool_name, "tool_input": dict(known)} if known else {},
                "prompt": asked,
                "options": list(_OPTIONS),
                "default": "deny",
                "timeout": limit if math.isfinite(limit) else None,
            }
        )

    def _limit(self, request: ApprovalRequest) -> float:
        """Return how long there is to answer: as long as the module says, and the session."""
        session = self._coordinator.config.get("session")
        of_session = session.get("approval_timeout") if isinstance(session, Mapping) else None
        return min(limit for limit in (request.timeout, of_session, math.inf) if limit is not None)

    # -- what it is about --

    def _call_of(self, tool_name: object) -> tuple[asyncio.Task[Any] | None, _Call | None]:
        """Return the call that a module speaks of, with the task that runs it: the module may have one of its own."""
        task, span = running_task(), str(self._coordinator.span_id)
        meant = {
            one: call
            for one, call in self._calls.items()
            if call.is_in_hooks and (call.span, call.tool_name) == (span, tool_name)
        }
        if len(meant) == 1:
            return next(iter(meant.items()))
        return task, meant.get(task) if task is not None else None

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        if (task := running_task()) is not None:
            given = data.get("tool_input")
            tool_input = given if isinstance(given, Mapping) else {}
            self._calls[task] = _Call(str(data.get("span_id")), str(data.get("tool_name")), tool_input, _key(data))

    def _before_run(self, event: str, data: dict[str, Any]) -> HookResult | None:
        task = running_task()
        call = self._calls.get(task) if task is not None else None
        if call is None:
            return None
        call.is_in_hooks = False
        reason = call.refused.reason if call.refused is not None else call.unanswered
        return HookResult(action="deny", reason=reason) if reason else None

    def _on_closed(self, event: str, data: dict[str, Any]) -> None:
        if (task := running_task()) is not None:
            self._calls.pop(task, None)

    def _on_decided(self, event: str, data: dict[str, Any]) -> HookResult | None:
        """Let what a module reports of its decision say who has made it."""
        if data.get("origin") is not None:  # the kernel has said it
            return None
        _, call = self._call_of(data.get("tool_name"))
        if call is None or call.by is None:
            return None
        by, call.by = call.by, None
        return HookResult(action="modify", data={**data, KEY: dict(by)})


def _keep(call: _Call, side: _Side, said: _Said) -> None:
    if said.is_yes:
        call.granted[side] = said
    else:
        call.refused = said


def _said(response: ApprovalResponse) -> _Said:
    return _Said(response.approved, response.text, response.answered_by or APP)


def _response(said: _Said) -> ApprovalResponse:
    remember = said.is_yes and said.words.lower() == _FOR_GOOD
    return ApprovalResponse(approved=said.is_yes, reason=said.reason, remember=remember)


def _is_other_input(details: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Tell whether a module asks about another input than the call came with: a hook has changed it since."""
    return details.get("tool_input", known) != known or any(details.get(key, known[key]) != known[key] for key in known)


def _key(data: Mapping[str, Any]) -> str | None:
    """Return what makes it the same call with the same input, None when that cannot be told."""
    try:
        return json.dumps([data[name] for name in _CALL], sort_keys=True)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
