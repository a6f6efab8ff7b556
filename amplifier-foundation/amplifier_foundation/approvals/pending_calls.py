"""Pending calls: tool calls that wait for a person's answer, stored in the folder of their session.

Any process may answer them (`amplifier approval`). They run when the session is resumed, exactly as they were shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, make_private, replace_file
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest
    from amplifier_foundation.approvals.open_calls import CallDetails

Answer = Literal["allow", "deny"]

FILE: Final = "waiting-calls.json"
#: Emitted for every answer to a pending call.
APPROVAL_ANSWERED: Final = "approval:answered"
_MODULE_ASK: Final = "module.ask"
_VERSION: Final = 1
_ID_LENGTH: Final = 8


class PendingCallsError(FoundationError):
    """The pending calls cannot be read, or an id does not name one of them."""

    code = "waiting_calls"


class CallNotFoundError(PendingCallsError):
    """An id does not name exactly one pending call."""

    code = "call_not_found"


class PendingQuestion(FrozenStruct):
    """One request about a call, and its answer."""

    prompt: str
    #: The action of a policy's request; `hook.ask` or `module.ask` for others.
    action: str
    answer: Answer | None = None
    #: The reason of the person who answered, their account, and when they answered.
    note: str = ""
    by: str = ""
    at: str = ""
    #: What else it is about, as JSON: a tool that finds out where a path leads asks again about the same action.
    about: str = ""
    #: Proves that call and question are still those that were answered.
    answered_digest: str = ""
    #: The request that was made first.
    approval_id: str = ""
    #: Of requests of hooks and modules: who asks, and on which event.
    source: str = ""
    subject: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Identify the question among those about its call; it stays the same when it is asked with a new id."""
        # A module may ask several questions about one call. Only their texts distinguish them, and stay the same when
        # they are asked again: the texts are compared, never interpreted.
        text = self.prompt if self.action == _MODULE_ASK else ""
        return (self.action, self.about, *filter(None, (self.source, self.subject, text)))


class PendingCall(FrozenStruct):
    """A tool call, exactly as it will run, with all questions about it."""

    tool_call_id: str
    tool_name: str
    tool_input: dict[str, Any]
    #: When it was asked about.
    asked: str
    questions: tuple[PendingQuestion, ...]

    @property
    def key(self) -> str:
        """Identify the call by its id, tool and input; raises TypeError for an input that is not JSON."""
        return json.dumps([self.tool_call_id, self.tool_name, self.tool_input], sort_keys=True)

    @property
    def id(self) -> str:
        """Return a short name for people to type, derived from `key`."""
        return _digest(self.key)[:_ID_LENGTH]

    @property
    def answer(self) -> Answer | None:
        """Return the answer to all questions together; one denial is enough, None while one is open."""
        answers = [question.answer for question in self.questions]
        if "deny" in answers:
            return "deny"
        return "allow" if answers and all(answers) else None

    def answered(self, answer: Answer, note: str = "", by: str = "") -> PendingCall:
        """Return the call with its open questions answered; a denial also replaces the approval of a whole call."""
        is_revoked = answer == "deny" and self.answer == "allow"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        questions = [
            question
            if question.answer and not is_revoked
            else replace(question, answer=answer, note=note, by=by, at=now, answered_digest=self._digest(question))
            for question in self.questions
        ]
        return replace(self, questions=tuple(questions))

    def without_stale_approvals(self) -> PendingCall:
        """Return the call without approvals that were given to another call or question: these are asked again."""
        questions = [
            replace(one, answer=None, note="", by="", at="", answered_digest="")
            if one.answer == "allow" and one.answered_digest != self._digest(one)
            else one
            for one in self.questions
        ]
        return replace(self, questions=tuple(questions))

    def _digest(self, question: PendingQuestion) -> str:
        return _digest(json.dumps([self.key, question.prompt, *question.key]))


class PendingCalls:
    """The pending calls in the folder of a session; several processes may use them at once.

    Methods raise PendingCallsError for a file that cannot be read, and leave it as it is.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def list(self) -> tuple[PendingCall, ...]:
        """Return the calls in the order they were asked about."""
        try:
            data = json.loads(self.path.read_bytes())
            if data["version"] == _VERSION:
                return _parse(data["calls"])
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = f"{type(error).__name__}: {error}"
            message = f"{self.path}: cannot be read ({reason}): remove it to forget the pending calls"
            raise PendingCallsError(message) from error
        raise PendingCallsError(f"{self.path}: written by another version of this program; use that, or remove it")

    def add(self, call: PendingCall) -> None:
        """Store a call, in place of the same call with other questions."""
        self._change(lambda calls: [*(one for one in calls if one.key != call.key), call])

    def unanswered(self, ids: Sequence[str]) -> tuple[PendingCall, ...]:
        """Return the unanswered calls with these ids, or all for no ids; raises PendingCallsError for unknown ids."""
        return tuple(_select(_open(self.list()), ids))

    def answer(
        self,
        ids: Sequence[str],
        answer: Answer,
        note: str = "",
        by: str = "",
        *,
        shown: Sequence[PendingCall] | None = None,
    ) -> tuple[PendingCall, ...]:
        """Answer the unanswered calls with these ids, or all for no ids, and return them.

        With `shown`, the calls as the person saw them, only these are answered. Raises PendingCallsError and changes
        nothing if an id does not name one call, or a call has changed since it was shown.
        """

        def select(calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
            selected = _select(_open(calls), ids)
            changed = [call.id for call in selected if shown is not None and call not in shown]
            if changed:
                raise PendingCallsError(f"more is asked about {', '.join(changed)} by now: look at it again")
            return selected

        return self._answer(select, answer, note, by)

    def deny(self, ids: Sequence[str], note: str = "", by: str = "") -> tuple[PendingCall, ...]:
        """Deny the calls with these ids, including approved ones that have not run yet, and return them.

        Without ids, deny all unanswered calls, or all approved ones if none is unanswered. Raises as `answer`.
        """

        def select(calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
            not_denied = [call for call in calls if call.answer != "deny"]
            return _select(not_denied if ids else _open(calls) or not_denied, ids)

        return self._answer(select, "deny", note, by)

    def _answer(
        self, select: Callable[[Sequence[PendingCall]], Sequence[PendingCall]], answer: Answer, note: str, by: str
    ) -> tuple[PendingCall, ...]:
        answered: list[PendingCall] = []

        def change(calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
            selected = select(calls)
            changed = [call.answered(answer, note, by) if call in selected else call for call in calls]
            answered.extend(after for before, after in zip(calls, changed, strict=True) if before in selected)
            return changed

        self._change(change)
        return tuple(answered)

    def take(self, calls: Iterable[PendingCall]) -> tuple[PendingCall, ...]:
        """Remove calls before they run, so that each runs at most once; return those that were still pending."""
        keys = {call.key for call in calls}
        taken: list[PendingCall] = []

        def change(stored: Sequence[PendingCall]) -> Sequence[PendingCall]:
            taken.extend(call for call in stored if call.key in keys)
            return [call for call in stored if call.key not in keys]

        self._change(change)
        return tuple(taken)

    def _change(self, change: Callable[[Sequence[PendingCall]], Sequence[PendingCall]]) -> None:
        make_private(self.path.parent)
        with locked(self.path.with_suffix(".lock")):
            calls = change(self.list())
            if not calls:
                self.path.unlink(missing_ok=True)
                return
            data = {"version": _VERSION, "calls": [asdict(call) for call in calls]}
            replace_file(self.path, json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))


def _parse(data: Any) -> tuple[PendingCall, ...]:
    from pydantic import ConfigDict, TypeAdapter

    parsed = TypeAdapter(tuple[PendingCall, ...], config=ConfigDict(extra="forbid")).validate_python(data)
    if not all(call.questions for call in parsed):
        raise ValueError("a call without questions")
    return tuple(call.without_stale_approvals() for call in parsed)


def _open(calls: Sequence[PendingCall]) -> Sequence[PendingCall]:
    return [call for call in calls if call.answer is None]


def _select(calls: Sequence[PendingCall], ids: Sequence[str]) -> Sequence[PendingCall]:
    """Return the calls that ids, or unambiguous prefixes of ids, name; all for no ids."""
    if not ids:
        return calls
    selected: list[PendingCall] = []
    for one in ids:
        found = [call for call in calls if one and call.id.startswith(one)]
        if len(found) != 1:
            known = ", ".join(call.id for call in calls) or "none"
            raise CallNotFoundError(f"{one!r} does not name one pending call; pending calls: {known}")
        selected += found
    return selected


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


# -- answers, when the session is resumed --


class RecordedAnswers:
    """The answers to pending calls; each is used once, for the same question about the same call."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingCall] = {}
        self._used: set[tuple[str, tuple[str, ...]]] = set()

    def expect(self, calls: Iterable[PendingCall]) -> None:
        """Use the answers of these calls."""
        self._calls |= {call.key: call for call in calls}

    def take(self, call: CallDetails, question: PendingQuestion) -> PendingQuestion | None:
        """Return the answered question, once; None when the person has to be asked.

        A hook's or module's request is whatever its text says: one that says something else by now was not approved.
        """
        pending = self._find(call)
        if pending is None or (pending.key, question.key) in self._used:
            return None
        recorded = next((one for one in pending.questions if one.key == question.key), None)
        if recorded is None or recorded.answer is None:
            return None
        if recorded.answer == "allow" and recorded.source and recorded.prompt != question.prompt:
            return None
        self._used.add((pending.key, question.key))
        return recorded

    def questions(self, call: CallDetails) -> tuple[PendingQuestion, ...]:
        """Return all earlier questions about a call."""
        pending = self._find(call)
        return pending.questions if pending is not None else ()

    def _find(self, call: CallDetails) -> PendingCall | None:
        try:
            return self._calls.get(pending_call(call).key)
        except (TypeError, ValueError):  # not JSON, so it cannot have been stored
            return None


def extra_details(details: Any) -> str:
    """Return what a request is about besides the call itself, as JSON; empty if nothing.

    The folder that a tool runs in belongs to the tool, not to the request.
    """
    call = ("tool_name", "tool_input", "tool_call_id", "working_dir")
    extra = {key: value for key, value in details.items() if key not in call} if isinstance(details, dict) else {}
    return json.dumps(extra, ensure_ascii=False, sort_keys=True, default=str) if extra else ""


def question_of(request: ApprovalRequest) -> PendingQuestion:
    """Return a request as a question that can be stored; a later request with the same key takes its answer."""
    prompt, identity = request.prompt or "", request.id or ""
    if request.origin == "policy":
        about = extra_details(request.details)
        return PendingQuestion(prompt, request.action, about=about, approval_id=identity)
    origin = request.origin or "module"
    return PendingQuestion(
        prompt,
        f"{origin}.ask",
        about="" if origin == "hook" else extra_details(request.details),
        approval_id=identity,
        source=request.source or origin,
        subject=request.subject or "",
    )


def pending_call(call: CallDetails, asked: str = "", questions: tuple[PendingQuestion, ...] = ()) -> PendingCall:
    """Return a call as one that can be stored."""
    return PendingCall(call["tool_call_id"], call["tool_name"], call["tool_input"], asked, questions)


async def run_answered(coordinator: Any, pending: PendingCalls, calls: Sequence[PendingCall]) -> str:
    """Run calls one after the other and return what the model is to read about all of them.

    They pass hooks and policies again, so that a rule that denies by now denies. Unanswered calls run too, and the
    session's approval system is asked about them. Each is removed from `pending` before it runs; calls that are not
    reached stay pending. Raises OSError and FoundationError when not even the first can be removed: none has run.
    """
    texts: list[str] = []
    for call in calls:
        if coordinator.cancellation.is_cancelled:
            texts.append(f"{_named(call)} is still pending.")
            continue
        try:
            taken = pending.take([call])
        except (OSError, FoundationError) as error:
            if not texts:
                raise
            texts.append(f"{_named(call)} is still pending: {error}")
            continue
        texts += [await _run(coordinator, one) for one in taken] or [f"{_named(call)} is no longer pending."]
    return "\n\n".join(texts)


async def _run(coordinator: Any, call: PendingCall) -> str:
    from amplifier_kit.engine.loop.reply import Call
    from amplifier_kit.engine.loop.tool_calls import run_calls

    await _report_answers(coordinator, call)
    if call.answer == "deny":
        note = next((question.note for question in call.questions if question.note), "")
        return f"{_named(call)} was not allowed{f': {note}' if note else ''}. It has not run."
    (done,) = await run_calls(coordinator, [Call(call.tool_call_id, call.tool_name, call.tool_input)])
    result = done.content
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
    # There is no tool message for it: the contents of a page or a file must not be mistaken for the user's words.
    return (
        f"{_named(call)} was answered and has run. The text between the tags was printed by the tool, "
        f"not written by the user:\n<tool-result>\n{text.replace('</tool-result>', '</tool-result >')}\n</tool-result>"
    )


async def _report_answers(coordinator: Any, call: PendingCall) -> None:
    for one in call.questions:
        if one.answer is not None:
            data = {
                "waiting_id": call.id,
                "tool_call_id": call.tool_call_id,
                "tool_name": call.tool_name,
                "question": one.prompt,
                "action": one.action,
                "answer": one.answer,
                "reason": one.note,
                **({"approval_id": one.approval_id} if one.approval_id else {}),
                **({"about": one.about} if one.about else {}),
                "by": one.by,
                "at": one.at,
            }
            await coordinator.hooks.emit(APPROVAL_ANSWERED, data)


def _named(call: PendingCall) -> str:
    return f"The call {call.tool_call_id} of the tool {call.tool_name}, which waited for approval,"
