"""Answer for a person who is not there: with what they said before, else the call waits and the turn ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from amplifier_core import ApprovalRequest, ApprovalResponse
from amplifier_core.approval import ApprovalHandler
from amplifier_core.events import PROVIDER_REQUEST
from amplifier_core.models import HookResult
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.permissions.answered_by import AnsweredBy, person_at
from amplifier_foundation.sessions.answered_calls import RecordedAnswers, question_of, waiting_call
from amplifier_foundation.sessions.open_calls import OpenCalls
from amplifier_foundation.sessions.waiting_calls import WaitingCall, WaitingCalls, WaitingQuestion

#: Said when a call is kept until somebody has answered.
APPROVAL_WAITING: Final = "approval:waiting"
#: Before other hooks of a request: none of them has to work for one that is not made.
_FIRST: Final = -1000


class Unattended(ApprovalHandler):
    """Be the approval system of a session that runs alone.

    A question that was answered before, about the same call with the same input, has that answer, once. Any other is a
    no, and its call waits; the calls beside it run to their end, and the model is not asked again.
    """

    def __init__(
        self,
        waiting: WaitingCalls,
        scrub: Callable[[Any], Any],
        why: str = "nobody is here to allow it",
        asker: Callable[[ApprovalRequest], str] = lambda request: "an agent",
    ) -> None:
        """Keep calls in `waiting`; one whose input `scrub` would change holds a secret, and is not written down.

        `why` is the reason that the model reads of a call that waits. `asker` names the child session of a request.
        """
        self._asker = asker
        self._why = why
        self._waiting = waiting
        self._scrub = scrub
        self._coordinator: Any = None
        self._calls = OpenCalls()
        self._answers = RecordedAnswers()
        #: The calls that wait because of this run.
        self.asked: dict[str, WaitingCall] = {}
        #: Why calls cannot wait, in words.
        self.lost: list[str] = []

    def connect(self, coordinator: Any) -> None:
        """Hear the calls of a session; whether this is its approval system, the app decides."""
        self._coordinator = coordinator
        self._calls.connect(coordinator)
        coordinator.hooks.register(PROVIDER_REQUEST, self._before_request, priority=_FIRST, name="app-unattended")
        coordinator.register_contributor("observability.events", "app-unattended", lambda: [APPROVAL_WAITING])

    def expect(self, calls: Iterable[WaitingCall]) -> None:
        """Answer the questions of these calls as they were answered before."""
        self._answers.expect(calls)

    def start_turn(self) -> None:
        """Begin anew: what waits goes on waiting, and the model may be asked again."""
        self.asked.clear()
        self.lost.clear()

    @property
    def must_stop(self) -> bool:
        """Tell whether there is something that only a person can decide."""
        return bool(self.asked or self.lost)

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return an answer that was given before, else a no."""
        prompt = request.prompt or ""
        if request.session_id not in (None, self._coordinator.session_id):
            # A child asks, inside the call that started it: a yes to that one would allow whatever the child does next.
            self._lose(prompt, f"asked by {self._asker(request)}, whose calls cannot wait")
            return _refusal(f"{self._why}, and a call of an agent cannot wait")
        call = self._calls.about(request)
        if call is None:
            self._lose(prompt, "not about a tool call, so that it cannot wait")
            return _refusal("nobody is here to answer")
        question = question_of(request)
        said = self._answers.take(call, question)
        if said is not None:
            by = person_at("approval", said.by, said.at)
            if said.answer == "allow":
                return ApprovalResponse(approved=True, answer="Allow", answered_by=by)
            return _refusal(said.note or "not allowed", by)
        if not await self._is_kept(call, question):
            return _refusal(f"{self._why}, and the call cannot wait")
        return _refusal(f"{self._why}; the call waits for an answer, and does not have to be made again")

    async def _is_kept(self, call: dict[str, Any], question: WaitingQuestion) -> bool:
        """Let a call wait; return False, and remember why, when it cannot."""
        shown = {key: self._scrub(call[key]) for key in ("tool_name", "tool_input")}
        texts = [question.prompt, question.about]
        if shown["tool_input"] != call["tool_input"] or [self._scrub(text) for text in texts] != texts:
            self._lose(question.prompt, "it holds a secret, which is not written down")
            return False
        before = [one for one in self._answers.questions(call) if one.key != question.key]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            waiting = waiting_call(call, now, (*before, question))
            self._waiting.add(waiting)
        except (FoundationError, OSError, ValueError, TypeError) as error:
            self._lose(question.prompt, f"it cannot be kept: {error}")
            return False
        self.asked[waiting.key] = waiting
        about = {"waiting_id": waiting.id, "approval_id": question.approval_id, "tool_call_id": waiting.tool_call_id}
        about |= shown
        about |= {"about": question.about} if question.about else {}
        await self._coordinator.hooks.emit(APPROVAL_WAITING, {**about, "question": question.prompt})
        return True

    def _lose(self, prompt: str, why: str) -> None:
        self.lost.append(f"{self._scrub(prompt)} ({why})")

    def _before_request(self, event: str, data: dict[str, Any]) -> HookResult:
        if self.must_stop:
            return HookResult(action="deny", reason="calls wait for somebody to allow them")
        return HookResult(action="continue")


def _refusal(reason: str, by: AnsweredBy | None = None) -> ApprovalResponse:
    return ApprovalResponse(approved=False, answer=f"Deny: {reason}", answered_by=by)
