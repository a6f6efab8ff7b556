"""Run the calls that waited and were answered, and tell the model what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sessions.waiting_calls import WaitingCall, WaitingCalls, WaitingQuestion

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest

#: Said of every answer that somebody gave while the call waited.
APPROVAL_ANSWERED: Final = "approval:answered"


class RecordedAnswers:
    """What was answered while calls waited: each answer counts once, for the same question on the same call."""

    def __init__(self) -> None:
        self._calls: dict[str, WaitingCall] = {}
        self._used: set[tuple[str, tuple[str, ...]]] = set()

    def expect(self, calls: Iterable[WaitingCall]) -> None:
        """Know the answers of these calls."""
        self._calls |= {call.key: call for call in calls}

    def take(self, call: dict[str, Any], question: WaitingQuestion) -> WaitingQuestion | None:
        """Return the answer to a question on a call, once; None when there is none."""
        known = self._known(call)
        if known is None or (known.key, question.key) in self._used:
            return None
        said = next((one for one in known.questions if one.key == question.key), None)
        if said is None or said.answer is None:
            return None
        self._used.add((known.key, question.key))
        return said

    def questions(self, call: dict[str, Any]) -> tuple[WaitingQuestion, ...]:
        """Return all that was asked about a call before."""
        known = self._known(call)
        return known.questions if known is not None else ()

    def _known(self, call: dict[str, Any]) -> WaitingCall | None:
        try:
            return self._calls.get(waiting_call(call).key)
        except (TypeError, ValueError):  # it cannot have been written down
            return None


def more_details(details: Any) -> str:
    """Return what a question is about besides the call itself, as JSON; empty when there is nothing.

    The folder that a tool runs in belongs to the tool, not to the question.
    """
    known = ("tool_name", "tool_input", "tool_call_id", "working_dir")
    more = {key: value for key, value in details.items() if key not in known} if isinstance(details, dict) else {}
    return json.dumps(more, ensure_ascii=False, sort_keys=True, default=str) if more else ""


def question_of(request: ApprovalRequest) -> WaitingQuestion:
    """Return a request as what waits for an answer: the next one with the same key takes that answer."""
    action = request.action if request.origin == "policy" else ""
    about = "" if request.origin == "hook" else more_details(request.details)
    return WaitingQuestion(request.prompt or "", action, about=about, approval_id=request.id or "")


def waiting_call(call: dict[str, Any], asked: str = "", questions: tuple[WaitingQuestion, ...] = ()) -> WaitingCall:
    """Return the call that the data of an event is about."""
    return WaitingCall(call["tool_call_id"], call["tool_name"], call["tool_input"], asked, questions)


async def run_answered(coordinator: Any, waiting: WaitingCalls, calls: Sequence[WaitingCall]) -> str:
    """Run the calls that may run, one after the other, and return what the model is to read of all of them.

    They pass hooks and policies again: a rule that denies by now denies. Calls without an answer are run as well, and
    asked for on their way, by whoever answers in this session. Each is taken off `waiting` before it runs; those that
    are not reached any more go on waiting. Raises OSError and FoundationError when none can be taken: none has run.
    """
    told: list[str] = []
    for call in calls:
        if coordinator.cancellation.is_cancelled:
            told.append(f"{_named(call)} still waits.")
            continue
        try:
            taken = waiting.take([call])
        except (OSError, FoundationError) as error:
            if not told:
                raise
            told.append(f"{_named(call)} still waits: {error}")
            continue
        told += [await _ran(coordinator, one) for one in taken] or [f"{_named(call)} does not wait any more."]
    return "\n\n".join(told)


async def _ran(coordinator: Any, call: WaitingCall) -> str:
    from amplifier_kit.engine.loop import Call, run_calls

    await _tell_answers(coordinator, call)
    if call.answer == "deny":
        note = next((question.note for question in call.questions if question.note), "")
        return f"{_named(call)} was not allowed{f': {note}' if note else ''}. It has not run."
    (done,) = await run_calls(coordinator, [Call(call.tool_call_id, call.tool_name, call.tool_input)])
    result = done.content
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    # It has no message of a tool to stand in: the words of a page or a file must not be taken for the user's.
    return (
        f"{_named(call)} was answered, and this came of it. What stands between the tags was printed by the tool, "
        f"not said by the user:\n<tool-result>\n{text.replace('</tool-result>', '</tool-result >')}\n</tool-result>"
    )


async def _tell_answers(coordinator: Any, call: WaitingCall) -> None:
    about = {"waiting_id": call.id, "tool_call_id": call.tool_call_id, "tool_name": call.tool_name}
    for one in call.questions:
        if one.answer is not None:
            said = {"question": one.prompt, "action": one.action, "answer": one.answer, "reason": one.note}
            said |= {"approval_id": one.approval_id} if one.approval_id else {}
            said |= {"about": one.about} if one.about else {}
            await coordinator.hooks.emit(APPROVAL_ANSWERED, {**about, **said, "by": one.by, "at": one.at})


def _named(call: WaitingCall) -> str:
    return f"The call {call.tool_call_id} of the tool {call.tool_name}, which waited for approval,"
