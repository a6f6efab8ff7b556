"""Answer for a person who is not there: with what they said before, else the call waits and the turn ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from amplifier_core.events import APPROVAL_REQUIRED, PROVIDER_REQUEST, TOOL_PRE
from amplifier_core.models import HookResult
from amplifier_core.trace import current_scope
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.permissions.answered_by import note_answer, person_at
from amplifier_foundation.sessions.answered_calls import RecordedAnswers, more_details, waiting_call
from amplifier_foundation.sessions.waiting_calls import WaitingCall, WaitingCalls, WaitingQuestion

#: Said when a call is kept until somebody has answered.
APPROVAL_WAITING: Final = "approval:waiting"
#: Before hooks that mask secrets in what they pass on: what waits must be what will run.
_FIRST: Final = -1000
_CALLS_KNOWN: Final = 100


class Unattended:
    """Be the approval system of a session that runs alone.

    A question that was answered before, about the same call with the same input, has that answer, once. Any other is a
    no, and its call waits; the calls beside it run to their end, and the model is not asked again.
    """

    def __init__(
        self, waiting: WaitingCalls, scrub: Callable[[Any], Any], why: str = "nobody is here to allow it"
    ) -> None:
        """Keep calls in `waiting`; one whose input `scrub` would change holds a secret, and is not written down.

        `why` tells the model for what reason a call waits.
        """
        self._why = why
        self._waiting = waiting
        self._scrub = scrub
        self._coordinator: Any = None
        self._calls: dict[str, dict[str, Any]] = {}
        #: Action and further details of what is asked, by span and question.
        self._asking: dict[tuple[str, str], tuple[str, str]] = {}
        self._answers = RecordedAnswers()
        #: The calls that wait because of this run.
        self.asked: dict[str, WaitingCall] = {}
        #: Why calls cannot wait, in words.
        self.lost: list[str] = []

    def connect(self, coordinator: Any) -> None:
        """Hear what the questions of a session are about; who asks, the app decides."""
        self._coordinator = coordinator
        hooks = coordinator.hooks
        hooks.register(TOOL_PRE, self._on_call, priority=_FIRST, name="app-unattended")
        hooks.register(APPROVAL_REQUIRED, self._on_required, priority=_FIRST, name="app-unattended")
        hooks.register(PROVIDER_REQUEST, self._before_request, priority=_FIRST, name="app-unattended")
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

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return an answer that was given before, else a no."""
        scope = current_scope()
        if scope is not None and scope.owner is not self._coordinator:
            # A child asks, inside the call that started it: a yes to that one would allow whatever the child does next.
            self._lose(prompt, "asked by an agent, whose calls cannot wait")
            return f"Deny: {self._why}, and a call of an agent cannot wait"
        span = str(self._coordinator.span_id)
        call = self._calls.get(span)
        if call is None:
            self._lose(prompt, "not about a tool call, so that it cannot wait")
            return "Deny: nobody is here to answer"
        action, about = self._asking.pop((span, prompt), ("", ""))
        said = self._answers.take(call, prompt, about)
        if said is not None:
            note_answer(person_at("approval", said.by, said.at))
            return _consent(options) if said.answer == "allow" else f"Deny: {said.note or 'not allowed'}"
        if not await self._is_kept(call, WaitingQuestion(prompt, action, about=about)):
            return f"Deny: {self._why}, and the call cannot wait"
        return f"Deny: {self._why}; the call waits for an answer, and does not have to be made again"

    async def _is_kept(self, call: dict[str, Any], question: WaitingQuestion) -> bool:
        """Let a call wait; return False, and remember why, when it cannot."""
        shown = {key: self._scrub(call[key]) for key in ("tool_name", "tool_input")}
        texts = [question.prompt, question.about]
        if shown["tool_input"] != call["tool_input"] or [self._scrub(text) for text in texts] != texts:
            self._lose(question.prompt, "it holds a secret, which is not written down")
            return False
        asked = (question.prompt, question.about)
        before = [one for one in self._answers.questions(call) if (one.prompt, one.about) != asked]
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            waiting = waiting_call(call, now, (*before, question))
            self._waiting.add(waiting)
        except (FoundationError, OSError, ValueError, TypeError) as error:
            self._lose(question.prompt, f"it cannot be kept: {error}")
            return False
        self.asked[waiting.key] = waiting
        about = {"waiting_id": waiting.id, "tool_call_id": waiting.tool_call_id, **shown}
        about |= {"about": question.about} if question.about else {}
        await self._coordinator.hooks.emit(APPROVAL_WAITING, {**about, "question": question.prompt})
        return True

    def _lose(self, prompt: str, why: str) -> None:
        self.lost.append(f"{self._scrub(prompt)} ({why})")

    def _on_call(self, event: str, data: dict[str, Any]) -> None:
        details = {key: data.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
        if isinstance(details["tool_input"], dict) and isinstance(details["tool_call_id"], str):
            kept = dict(list(self._calls.items())[-_CALLS_KNOWN:])
            self._calls = {**kept, str(data.get("span_id")): details}

    def _on_required(self, event: str, data: dict[str, Any]) -> None:
        span, action = str(data.get("span_id")), str(data.get("action"))
        details, call = data.get("details"), self._calls.get(span)
        kept = dict(list(self._asking.items())[-_CALLS_KNOWN:])  # who is asked before may have answered
        self._asking = {**kept, (span, f"Allow {action}? {data.get('reason')}"): (action, more_details(details))}
        if not isinstance(details, dict) or call is None or details.get("tool_call_id") != call["tool_call_id"]:
            return
        if isinstance(details.get("tool_input"), dict):
            self._calls[span] = {**call, "tool_input": details["tool_input"]}  # as hooks have left it

    def _before_request(self, event: str, data: dict[str, Any]) -> HookResult:
        if self.must_stop:
            return HookResult(action="deny", reason="calls wait for somebody to allow them")
        return HookResult(action="continue")


def _consent(options: list[str]) -> str:
    return next((option for option in options if option.strip().lower() in ("allow", "allow once")), "Allow")
