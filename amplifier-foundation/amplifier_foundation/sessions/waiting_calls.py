"""Tool calls that nobody was there to allow: kept with the session, to be answered later by another process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.files import locked, make_private, replace_file

Answer = Literal["allow", "deny"]

FILE: Final = "waiting-calls.json"
_VERSION: Final = 1
_ID_LENGTH: Final = 8


class WaitingCallsError(FoundationError):
    """The calls that wait cannot be read, or none is meant."""

    code = "waiting_calls"


@dataclass(frozen=True)
class WaitingQuestion:
    """One thing that somebody must say yes or no to."""

    #: The sentence that is shown.
    prompt: str
    #: What is to be done; empty when a hook asks for a reason of its own.
    action: str
    answer: Answer | None = None
    #: Why, in the words of whoever answered.
    note: str = ""
    #: Who answered, and when.
    by: str = ""
    at: str = ""
    #: What else it is about, as JSON: a tool that finds out where a path leads asks again, in the same words.
    about: str = ""
    #: What the answer is for: the call and the question as they were when it was given.
    answered_digest: str = ""
    #: The request that was asked with.
    approval_id: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Return what makes it the same question on the same call when that is asked again, with another id.

        A policy asks about an action. A hook names none: there the prompt is all that was consented to.
        """
        return (self.action, self.about) if self.action else ("", self.about, self.prompt)


@dataclass(frozen=True)
class WaitingCall:
    """One call, exactly as it will run, with all that is asked about it."""

    tool_call_id: str
    tool_name: str
    tool_input: dict[str, Any]
    asked: str
    questions: tuple[WaitingQuestion, ...]

    @property
    def key(self) -> str:
        """Return all that tells it from other calls; raises TypeError for an input that JSON has no word for."""
        import json

        return json.dumps([self.tool_call_id, self.tool_name, self.tool_input], sort_keys=True)

    @property
    def id(self) -> str:
        """Return what to call it by: the same for the same call, and hardly ever for two."""
        import hashlib

        return hashlib.sha256(self.key.encode()).hexdigest()[:_ID_LENGTH]

    @property
    def answer(self) -> Answer | None:
        """Return what was answered to all that is asked: one no is enough for a no."""
        answers = [question.answer for question in self.questions]
        if "deny" in answers:
            return "deny"
        return "allow" if answers and all(answers) else None

    def answered(self, answer: Answer, note: str = "", by: str = "") -> WaitingCall:
        """Return the call with an answer to everything that had none; a no takes the place of a yes to all of it."""
        is_taken_back = answer == "deny" and self.answer == "allow"
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        questions = [
            question
            if question.answer and not is_taken_back
            else replace(question, answer=answer, note=note, by=by, at=now, answered_digest=self._digest(question))
            for question in self.questions
        ]
        return replace(self, questions=tuple(questions))

    def without_strange_answers(self) -> WaitingCall:
        """Return the call without a yes that was given to another call or question: that is asked again."""
        questions = [
            replace(one, answer=None, note="", by="", at="", answered_digest="")
            if one.answer == "allow" and one.answered_digest != self._digest(one)
            else one
            for one in self.questions
        ]
        return replace(self, questions=tuple(questions))

    def _digest(self, question: WaitingQuestion) -> str:
        import hashlib
        import json

        asked = json.dumps([self.key, question.prompt, question.action, question.about])
        return hashlib.sha256(asked.encode()).hexdigest()


class WaitingCalls:
    """The calls that wait in the folder of a session. Safe for several processes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def list(self) -> tuple[WaitingCall, ...]:
        """Return the calls in the order they were asked; raises WaitingCallsError for a file that cannot be read."""
        import json

        try:
            data = json.loads(self.path.read_bytes())
            return tuple(map(_call, data["calls"])) if data["version"] == _VERSION else _unknown(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise WaitingCallsError(
                f"{self.path}: cannot be read ({why}): remove it, and what waited is forgotten"
            ) from error

    def add(self, call: WaitingCall) -> None:
        """Keep a call; one that is kept already gets the questions of the new one."""
        self._change(lambda kept: [*(one for one in kept if one.key != call.key), call])

    def meant(self, wanted: Sequence[str]) -> tuple[WaitingCall, ...]:
        """Return the calls without an answer that some ids name, or all for none; raises as `answer`."""
        return tuple(_meant(_open(self.list()), wanted))

    def answer(
        self,
        wanted: Sequence[str],
        answer: Answer,
        note: str = "",
        by: str = "",
        *,
        shown: Sequence[WaitingCall] | None = None,
    ) -> tuple[WaitingCall, ...]:
        """Answer the calls of some ids, or all for none, and return those that had no answer until now.

        With `shown`, nothing else is answered: whoever answers has seen these. Raises WaitingCallsError for an id that
        does not name one call, and for a call that is not as it was shown, and changes nothing then.
        """

        def meant(kept: Sequence[WaitingCall]) -> Sequence[WaitingCall]:
            found = _meant(_open(kept), wanted)
            changed = [call.id for call in found if shown is not None and call not in shown]
            if changed:
                raise WaitingCallsError(f"more is asked about {', '.join(changed)} by now: look at it again")
            return found

        return self._answered(meant, answer, note, by)

    def deny(self, wanted: Sequence[str], note: str = "", by: str = "") -> tuple[WaitingCall, ...]:
        """Deny the calls of some ids, also those that were allowed and have not run yet; return those that change.

        For no id it is all that have no answer, and where all have one, those that were allowed. Raises as `answer`.
        """

        def meant(kept: Sequence[WaitingCall]) -> Sequence[WaitingCall]:
            not_denied = [call for call in kept if call.answer != "deny"]
            return _meant(not_denied if wanted else _open(kept) or not_denied, wanted)

        return self._answered(meant, "deny", note, by)

    def _answered(
        self, choose: Callable[[Sequence[WaitingCall]], Sequence[WaitingCall]], answer: Answer, note: str, by: str
    ) -> tuple[WaitingCall, ...]:
        answered: list[WaitingCall] = []

        def change(kept: Sequence[WaitingCall]) -> Sequence[WaitingCall]:
            meant = choose(kept)
            changed = [call.answered(answer, note, by) if call in meant else call for call in kept]
            answered.extend(after for before, after in zip(kept, changed, strict=True) if before in meant)
            return changed

        self._change(change)
        return tuple(answered)

    def take(self, calls: Iterable[WaitingCall]) -> tuple[WaitingCall, ...]:
        """Let calls wait no more, and return those that did, as they are now: they run now, at most once."""
        keys = {call.key for call in calls}
        taken: list[WaitingCall] = []

        def change(kept: Sequence[WaitingCall]) -> Sequence[WaitingCall]:
            taken.extend(call for call in kept if call.key in keys)
            return [call for call in kept if call.key not in keys]

        self._change(change)
        return tuple(taken)

    def _change(self, change: Callable[[Sequence[WaitingCall]], Sequence[WaitingCall]]) -> None:
        import json

        make_private(self.path.parent)
        with locked(self.path.with_suffix(".lock")):
            calls = change(self.list())
            if not calls:
                self.path.unlink(missing_ok=True)
                return
            data = {"version": _VERSION, "calls": [asdict(call) for call in calls]}
            replace_file(self.path, json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass"))


def _open(kept: Sequence[WaitingCall]) -> Sequence[WaitingCall]:
    return [call for call in kept if call.answer is None]


def _meant(waiting: Sequence[WaitingCall], wanted: Sequence[str]) -> Sequence[WaitingCall]:
    """Return the calls that ids, or their beginnings, name, each exactly one; all for no id."""
    if not wanted:
        return waiting
    meant: list[WaitingCall] = []
    for one in wanted:
        found = [call for call in waiting if one and call.id.startswith(one)]
        if len(found) != 1:
            known = ", ".join(call.id for call in waiting) or "none"
            raise WaitingCallsError(f"{one!r} does not name one call that waits: these do: {known}")
        meant += found
    return meant


def _call(data: dict[str, Any]) -> WaitingCall:
    questions = tuple(WaitingQuestion(**question) for question in data["questions"])
    call = WaitingCall(**{**data, "questions": questions})
    texts = [call.tool_call_id, call.tool_name, call.asked]
    texts += [text for one in questions for text in (one.prompt, one.action, one.note, one.by, one.at, one.about)]
    texts += [text for one in questions for text in (one.answered_digest, one.approval_id)]
    is_call = isinstance(call.tool_input, dict) and all(isinstance(text, str) for text in texts) and questions
    if not is_call or any(one.answer not in (None, "allow", "deny") for one in questions):
        raise ValueError("not a call")
    return call.without_strange_answers()


def _unknown(path: Path) -> tuple[WaitingCall, ...]:
    raise WaitingCallsError(f"{path}: of another version of this program: use that one, or remove the file")
