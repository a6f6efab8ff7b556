"""Approval systems of a session, asked one after the other, and the one for runs without a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.approval import ApprovalHandler, ApprovalSystem, put
from amplifier_core.events import PROVIDER_REQUEST
from amplifier_core.models import HookResult
from amplifier_foundation.approvals.answered_by import APP, NOBODY, AnsweredBy, person_at
from amplifier_foundation.approvals.open_calls import CallDetails, OpenCalls
from amplifier_foundation.approvals.pending_calls import (
    PendingCall,
    PendingCalls,
    PendingQuestion,
    RecordedAnswers,
    pending_call,
    question_of,
)
from amplifier_foundation.errors import FoundationError
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_core.approval_models import ApprovalRequest, ApprovalResponse

#: The answer that leaves the decision to the next approver; a reason may follow behind a colon.
ESCALATE: Final = "Escalate"
#: Emitted when an approver leaves a decision to the next.
APPROVAL_ESCALATED: Final = "approval:escalated"
#: Emitted when a call becomes pending.
APPROVAL_WAITING: Final = "approval:waiting"
#: Before other hooks on a request, which need not work for one that is not made.
_FIRST: Final = -1000


class Approver(FrozenStruct):
    """An approval system, by its name in the log."""

    name: str
    system: ApprovalSystem
    #: Who answers, unless the system's answer says it.
    by: AnsweredBy = field(default_factory=lambda: APP)


class Approvers(ApprovalHandler):
    """Ask approvers one after the other; the first that decides has decided.

    A decision that every approver leaves to the next is a denial. An approver that raises ends the chain, which denies
    too: a failed approver must not lead to asking another one.
    """

    def __init__(self, approvers: Sequence[Approver]) -> None:
        self._approvers = tuple(approvers)
        self._coordinator: Any = None

    def connect(self, coordinator: Any) -> None:
        """Become the approval system of a session."""
        self._coordinator = coordinator
        coordinator.register_contributor("observability.events", "app-approvers", lambda: [APPROVAL_ESCALATED])
        coordinator.approval_system = self

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the answer of the first approver that decides; the request's deadline covers all of them."""
        for number, approver in enumerate(self._approvers, 1):
            response = await put(approver.system, request)
            reason = escalation(response.text)
            if reason is None:
                return response.model_copy(update={"answered_by": response.answered_by or approver.by})
            rest = self._approvers[number:]
            data = {
                "approval_id": request.id,
                "question": request.prompt,
                "from": approver.name,
                "to": rest[0].name if rest else None,
                "reason": reason,
                "answered_by": dict(approver.by),
            }
            await self._coordinator.hooks.emit(APPROVAL_ESCALATED, data)
        from amplifier_core.approval_models import ApprovalResponse

        return ApprovalResponse(approved=False, reason="no approver decided", answered_by=NOBODY)


def escalation(answer: object) -> str | None:
    """Return why an answer leaves the decision to the next approver, empty without a reason; None if it decides."""
    if not isinstance(answer, str):
        return None
    word, _, reason = answer.partition(":")
    return reason.strip() if word.strip().lower() == ESCALATE.lower() else None


class Unattended(ApprovalHandler):
    """Answer while no person is present: with a recorded answer, else deny and store the call as pending.

    Other calls of the same turn run to their end, but the model is not called again before an answer.
    """

    def __init__(
        self,
        calls: PendingCalls,
        scrub: Callable[[Any], Any],
        why: str = "no one is present to allow it",
        asker: Callable[[ApprovalRequest], str] = lambda request: "an agent",
    ) -> None:
        """Store calls in `calls`; one whose input `scrub` would change holds a secret and is not stored.

        `why` is the reason that the model reads for a pending call. `asker` names the child session of a request.
        """
        self._store = calls
        self._scrub = scrub
        self._why = why
        self._asker = asker
        self._coordinator: Any = None
        self._open_calls = OpenCalls()
        self._answers = RecordedAnswers()
        #: The calls that became pending in this run, by key.
        self.pending: dict[str, PendingCall] = {}
        #: Requests that were denied because they could not become pending, each with the reason.
        self.refused: list[str] = []

    def connect(self, coordinator: Any) -> None:
        """Listen to a session; the app decides whether this is its approval system."""
        self._coordinator = coordinator
        self._open_calls.connect(coordinator)
        coordinator.hooks.register(PROVIDER_REQUEST, self._before_request, priority=_FIRST, name="app-unattended")
        coordinator.register_contributor("observability.events", "app-unattended", lambda: [APPROVAL_WAITING])

    def expect(self, calls: Iterable[PendingCall]) -> None:
        """Use the recorded answers of these calls."""
        self._answers.expect(calls)

    def start_turn(self) -> None:
        """Let the model be called again; pending calls stay pending."""
        self.pending.clear()
        self.refused.clear()

    @property
    def must_stop(self) -> bool:
        """Whether this turn needs a decision that only a person can make."""
        return bool(self.pending or self.refused)

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return the recorded answer, else a denial."""
        prompt = request.prompt or ""
        if request.session_id not in (None, self._coordinator.session_id):
            # A child asks inside the call that started it: approving that call would allow whatever the child does.
            self._refuse(prompt, f"asked by {self._asker(request)}, whose calls cannot wait")
            return _denial(f"{self._why}, and a call of an agent cannot wait")
        call = self._open_calls.about(request)
        if call is None:
            self._refuse(prompt, "not about a tool call, so that it cannot wait")
            return _denial("no one is present to answer")
        question = question_of(request)
        recorded = self._answers.take(call, question)
        if recorded is not None:
            by = person_at("approval", recorded.by, recorded.at)
            if recorded.answer == "allow":
                from amplifier_core.approval_models import ApprovalResponse

                return ApprovalResponse(approved=True, answer="Allow", answered_by=by)
            return _denial(recorded.note or "not allowed", by)
        if not await self._keep(call, question):
            return _denial(f"{self._why}, and the call cannot wait")
        return _denial(f"{self._why}; the call waits for an answer, and does not have to be made again")

    async def _keep(self, call: CallDetails, question: PendingQuestion) -> bool:
        """Store a call as pending; return False, with the reason in `refused`, when that is impossible."""
        shown = {key: self._scrub(call[key]) for key in ("tool_name", "tool_input")}
        texts = [question.prompt, question.about]
        if shown["tool_input"] != call["tool_input"] or [self._scrub(text) for text in texts] != texts:
            self._refuse(question.prompt, "it holds a secret, which is not written to disk")
            return False
        earlier = [one for one in self._answers.questions(call) if one.key != question.key]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            pending = pending_call(call, now, (*earlier, question))
            self._store.add(pending)
        except (FoundationError, OSError, ValueError, TypeError) as error:
            self._refuse(question.prompt, f"it cannot be stored: {error}")
            return False
        self.pending[pending.key] = pending
        data = {
            "waiting_id": pending.id,
            "approval_id": question.approval_id,
            "tool_call_id": pending.tool_call_id,
            **shown,
            **({"about": question.about} if question.about else {}),
            "question": question.prompt,
        }
        await self._coordinator.hooks.emit(APPROVAL_WAITING, data)
        return True

    def _refuse(self, prompt: str, why: str) -> None:
        self.refused.append(f"{self._scrub(prompt)} ({why})")

    def _before_request(self, event: str, data: dict[str, Any]) -> HookResult:
        if self.must_stop:
            return HookResult(action="deny", reason="calls wait for approval")
        return HookResult(action="continue")


def _denial(reason: str, by: AnsweredBy | None = None) -> ApprovalResponse:
    from amplifier_core.approval_models import ApprovalResponse

    return ApprovalResponse(approved=False, answer=f"Deny: {reason}", answered_by=by)
