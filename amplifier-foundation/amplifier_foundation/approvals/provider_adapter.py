"""Adapt the approval system of a session to modules that want a published approval provider.

Such modules hold calls on `tool:pre` and ask the provider that is registered with them; the kernel asks the approval
system afterwards. To the person that is one question: one answer serves both.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import uuid4
from weakref import WeakKeyDictionary

from amplifier_core import ApprovalRequest, ApprovalResponse
from amplifier_core.approval import ApprovalHandler, ApprovalSystem, ApprovalTimeoutError, put
from amplifier_core.bounded_call import call, running_task, unhurried
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, TOOL_ERROR, TOOL_POST, TOOL_PRE
from amplifier_core.models import HookResult
from amplifier_foundation.approvals.answered_by import APP, AnsweredBy
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.named_tuple import NamedTuple

_NAME: Final = "app-approval-provider"
_OPTIONS: Final = ("Allow", "Deny")
_CALL: Final = ("tool_call_id", "tool_name", "tool_input")
#: Before hooks that change or mask the input; before those that read who decided; after all others.
_FIRST: Final = -1000
_SECOND: Final = -999
_LAST: Final = 10_000
#: Why a call has no answer yet, and who decided that, while the person is being asked.
_OPEN: Final[tuple[str, AnsweredBy]] = ("approval needed: no answer yet", {"kind": "nobody"})
_LATE: Final[tuple[str, AnsweredBy]] = ("approval timeout: no answer came in time", {"kind": "timeout"})

_Side = Literal["kernel", "provider"]


async def offer_provider(coordinator: Any) -> None:
    """Register the session's approval system with a module that wants a provider, if there are both."""
    system, register = coordinator.approval_system, coordinator.get_capability("approval.register_provider")
    if system is None or not callable(register):
        return
    try:
        await ProviderAdapter(coordinator, system).connect(register)
    except Exception as error:  # without a provider such a module denies
        coordinator.log("WARNING", f"approval.register_provider takes no provider: {type(error).__name__}: {error}")


class NoAnswerError(ApprovalTimeoutError, TimeoutError):
    """No answer came in time; both of the types that published modules catch."""


class _Answer(NamedTuple):
    approved: bool
    text: str
    by: AnsweredBy

    @classmethod
    def of(cls, response: ApprovalResponse) -> _Answer:
        return cls(response.approved, response.text, response.answered_by or APP)

    @property
    def reason(self) -> str:
        return f"{'approved' if self.approved else 'not approved'}: {self.text}"

    def for_provider(self, *, may_remember: bool) -> ApprovalResponse:
        remember = may_remember and self.approved and self.text.lower() == "allow always"
        return ApprovalResponse(approved=self.approved, reason=self.reason, remember=remember)


@dataclass
class _Call:
    """A tool call on its way through hooks and policies."""

    span: str
    tool_name: str
    tool_input: Mapping[str, Any]
    #: Identifies the call with this input; None for an input that is not JSON.
    key: str | None
    #: Whether hooks look at it now, so that a module may ask about it.
    is_in_hooks: bool = True
    #: An approval, by who asked for it: it saves the other one its question, once.
    granted: dict[_Side, _Answer] = field(default_factory=dict)
    #: A denial to either counts for both.
    refused: _Answer | None = None
    #: Why the provider has no answer: a timeout, a failure, or a question that is still open.
    unanswered: str = ""
    #: Who gave the answer that the module is about to report.
    by: AnsweredBy | None = None

    def keep(self, side: _Side, answer: _Answer) -> None:
        if answer.approved:
            self.granted[side] = answer
        else:
            self.refused = answer


class _Provider:
    """The published `ApprovalProvider` that modules get."""

    def __init__(self, adapter: ProviderAdapter) -> None:
        self._adapter = adapter

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the person's answer; raise NoAnswerError on a timeout, else what the approval system raises."""
        return await self._adapter.answer(request)


class ProviderAdapter(ApprovalHandler):
    """Replace the approval system of a session, and answer the requests of its provider too.

    A call whose provider got no approval does not run, whatever the module does: one that crashes over it would let
    the call pass.
    """

    def __init__(self, coordinator: Any, system: ApprovalSystem) -> None:
        self._coordinator, self._system = coordinator, system
        #: The calls in progress, by the task that runs them.
        self._calls: WeakKeyDictionary[asyncio.Task[Any], _Call] = WeakKeyDictionary()

    async def connect(self, register_provider: Callable[[Any], object]) -> None:
        """Become the approval system of the session, and the provider of the module."""
        register = self._coordinator.hooks.register
        register(TOOL_PRE, self._on_call, priority=_FIRST, name=_NAME)
        register(TOOL_PRE, self._before_run, priority=_LAST, name=_NAME, on_error="deny")
        for event in (APPROVAL_GRANTED, APPROVAL_DENIED):
            register(event, self._on_decided, priority=_SECOND, name=_NAME)
        for event in (TOOL_POST, TOOL_ERROR):
            register(event, self._on_closed, priority=_FIRST, name=_NAME)
        self._coordinator.approval_system = self
        await maybe_await(register_provider(_Provider(self)))

    # -- requests --

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer the kernel: as the provider was answered about the same call, else as the approval system does."""
        known = self._current_call()
        # A request with more details is about something that only the tool can see: another question.
        is_about_call = request.origin == "policy" and request.details.keys() == set(_CALL)
        if known is None or known.key is None or not is_about_call or _key(request.details) != known.key:
            return await put(self._system, request)
        if (answer := known.refused or known.granted.pop("provider", None)) is not None:
            text = _OPTIONS[0] if answer.approved else answer.text
            return ApprovalResponse(approved=answer.approved, answer=text, answered_by=answer.by)
        response = await put(self._system, request)
        known.keep("kernel", _Answer.of(response))
        return response

    async def answer(self, request: ApprovalRequest) -> ApprovalResponse:
        """Answer the provider: as the kernel was answered about the same call, else as the approval system does."""
        task, known = self._call_of(request.tool_name)
        if known is None:
            return (await self._ask(request, {}, task)).for_provider(may_remember=True)
        answer = known.refused
        if answer is None and not _is_other_input(request.details, known.tool_input):
            answer = known.granted.pop("kernel", None)
        if answer is not None:
            known.by = answer.by
            # "Always" to the kernel's question allows the rule that was shown with it; a module's question shows none.
            return answer.for_provider(may_remember=False)
        # A module with its own deadline cancels this: then the reason is here already.
        known.unanswered, known.by = _OPEN if self._timeout(request) is None else _LATE
        try:
            answer = await self._ask(request, known.tool_input, task)
        except NoAnswerError:
            known.unanswered, known.by = _LATE
            raise
        except Exception as error:
            known.unanswered = f"the approval system failed: {error or type(error).__name__}"
            known.by = {"kind": "failure"}
            raise
        known.unanswered, known.by = "", answer.by
        known.keep("provider", answer)
        return answer.for_provider(may_remember=True)

    async def _ask(self, request: ApprovalRequest, tool_input: Mapping[str, Any], task: Any) -> _Answer:
        """Put a module's request to the approval system; the deadline of hooks in `task` does not run meanwhile."""
        request = self._complete(request, tool_input)
        try:
            with unhurried(task):
                return _Answer.of(await call(running_task(), request.timeout, put, self._system, request))
        except (ApprovalTimeoutError, TimeoutError) as error:
            raise NoAnswerError(str(error)) from error

    def _complete(self, request: ApprovalRequest, tool_input: Mapping[str, Any]) -> ApprovalRequest:
        """Return a module's request with the fields that the kernel sets, and the call as far as it is known.

        Details that the call does not show are shown in the prompt.
        """
        shown = {"tool_name": request.tool_name, "tool_input": dict(tool_input), **tool_input}
        extra = {
            key: value
            for key, value in request.details.items()
            if key != "tool_call_id" and (key not in shown or shown[key] != value)
        }
        more = f" {json.dumps(extra, sort_keys=True, ensure_ascii=False, default=str)}" if extra else ""
        return request.model_copy(
            update={
                "id": request.id or uuid4().hex,
                "session_id": self._coordinator.session_id,
                "span_id": self._coordinator.span_id,
                "origin": "module",
                "details": {"tool_name": request.tool_name, "tool_input": dict(tool_input)} if tool_input else {},
                "prompt": f"Allow {request.action}? {request.tool_name} needs approval, "
                f"risk: {request.risk_level}{more}",
                "options": list(_OPTIONS),
                "default": "deny",
                "timeout": self._timeout(request),
            }
        )

    def _timeout(self, request: ApprovalRequest) -> float | None:
        """Return the shorter of the timeouts of the module and of the session; None without a finite one."""
        session = self._coordinator.config.get("session")
        of_session = session.get("approval_timeout") if isinstance(session, Mapping) else None
        timeouts = (request.timeout, of_session)
        return min((one for one in timeouts if one is not None and math.isfinite(one)), default=None)

    # -- calls --

    def _current_call(self) -> _Call | None:
        task = running_task()
        return self._calls.get(task) if task is not None else None

    def _call_of(self, tool_name: object) -> tuple[asyncio.Task[Any] | None, _Call | None]:
        """Return the call that a module asks about, with the task that runs it; the module may use another task."""
        task, span = running_task(), str(self._coordinator.span_id)
        candidates = {
            one: known
            for one, known in self._calls.items()
            if known.is_in_hooks and (known.span, known.tool_name) == (span, tool_name)
        }
        if len(candidates) == 1:
            return next(iter(candidates.items()))
        return task, candidates.get(task) if task is not None else None

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        if (task := running_task()) is not None:
            given = data.get("tool_input")
            tool_input = given if isinstance(given, Mapping) else {}
            self._calls[task] = _Call(str(data.get("span_id")), str(data.get("tool_name")), tool_input, _key(data))

    def _before_run(self, event: str, data: dict[str, Any]) -> HookResult | None:
        known = self._current_call()
        if known is None:
            return None
        known.is_in_hooks = False
        reason = known.refused.reason if known.refused is not None else known.unanswered
        return HookResult(action="deny", reason=reason) if reason else None

    def _on_closed(self, event: str, data: dict[str, Any]) -> None:
        if (task := running_task()) is not None:
            self._calls.pop(task, None)

    def _on_decided(self, event: str, data: dict[str, Any]) -> HookResult | None:
        """Add who decided to the event that a module emits about its decision."""
        if data.get("origin") is not None:  # the kernel's event says it already
            return None
        _, known = self._call_of(data.get("tool_name"))
        if known is None or known.by is None:
            return None
        by, known.by = known.by, None
        return HookResult(action="modify", data={**data, "answered_by": dict(by)})


def _is_other_input(details: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Return whether a module asks about another input than the call came with: a hook has changed it since."""
    return details.get("tool_input", known) != known or any(details.get(key, known[key]) != known[key] for key in known)


def _key(data: Mapping[str, Any]) -> str | None:
    try:
        return json.dumps([data[name] for name in _CALL], sort_keys=True)
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
