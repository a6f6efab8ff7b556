"""Know what the questions of child sessions are about: the one who is asked must see the call that would run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_app_cli.chat.question import Asked
from amplifier_core.trace import current_scope

if TYPE_CHECKING:
    from amplifier_foundation.spawn import ChildFacts

#: As whoever asks hears it.
_FIRST: Final = -1000


class _Asking(NamedTuple):
    """A question of a child, or a call of it that a question may be about."""

    facts: ChildFacts
    action: str
    details: dict[str, Any]


class ChildQuestions:
    """Hear the sessions below one. They are asked about by the same approval system, with a sentence alone."""

    def __init__(self) -> None:
        #: Questions that are open, by span and sentence.
        self._asked: dict[tuple[str, str], _Asking] = {}
        #: The calls that are under way, by span: hooks ask about those by themselves.
        self._calls: dict[str, _Asking] = {}
        #: Those that run, and the calls of the sessions above that they run in.
        self._running: dict[str, ChildFacts] = {}
        self._coordinator: Any = None
        #: The calls of the session at the top that are under way, by span.
        self._own: dict[str, str] = {}

    def connect(self, coordinator: Any) -> None:
        """Hear the session at the top, from inside of whose calls children of other processes ask."""
        self._coordinator = coordinator
        for event in ("tool:pre", "tool:post", "tool:error"):
            coordinator.hooks.register(event, self._on_own_call, priority=_FIRST, name="app-child-questions")

    def _on_own_call(self, event: str, data: dict[str, Any]) -> None:
        span = str(data.get("span_id"))
        self._own.pop(span, None)
        if event == "tool:pre":
            self._own[span] = str(data.get("tool_call_id"))
        else:
            self._end_call(None, data)

    def take(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take one event of a child, or of a child of one."""
        span = str(data.get("span_id"))
        if event == "session:end":
            self._forget(facts.session_id)
            return
        self._running[facts.session_id] = facts
        if event == "tool:pre":
            about = {key: data.get(key) for key in ("tool_name", "tool_input", "tool_call_id")}
            self._calls[span] = _Asking(facts, "", about)
        elif event == "approval:required":
            details, action = data.get("details"), str(data.get("action"))
            asking = _Asking(facts, action, details if isinstance(details, dict) else {})
            self._asked[span, f"Allow {action}? {data.get('reason')}"] = asking
        elif event in ("approval:granted", "approval:denied"):
            for key in [key for key in self._asked if key[0] == span]:
                del self._asked[key]
        elif event in ("tool:post", "tool:error"):
            self._calls.pop(span, None)
            self._end_call(facts.session_id, data)

    def about(self, prompt: str) -> Asked | None:
        """Return what a question is about that a child puts just now; None when it is none of a child.

        A child of this process is known by where it asks. One of another process asks from inside the call that started
        it: when several could have put the question, all are shown.
        """
        scope = current_scope()
        if scope is None:
            return None
        if scope.owner is not self._coordinator:
            span = str(scope.span_id)
            if (asking := self._asked.get((span, prompt))) is not None:
                return _told([asking])
            if (asking := self._calls.get(span)) is None:
                facts = self._running.get(str(scope.owner.session_id))
                return Asked("", {}, asker=_named(facts) if facts is not None else "an agent")
            # A child of another process asks from inside this call, which is not what would run.
            call = asking.details.get("tool_call_id")
            below = {
                one.session_id
                for one in self._running.values()
                if call and self._call_above(one, asking.facts.session_id) == call
            }
            asked = [one for (_, said), one in self._asked.items() if said == prompt and one.facts.session_id in below]
            return _told(asked) if asked else Asked("", {}, asker="an agent") if below else _told([asking])
        call = self._own.get(str(scope.span_id))
        below = {one.session_id for one in self._running.values() if call and self._call_above(one) == call}
        if not below:
            return None
        asked = [one for (_, said), one in self._asked.items() if said == prompt and one.facts.session_id in below]
        return _told(asked) if asked else Asked("", {}, asker="an agent")

    def _call_above(self, facts: ChildFacts, top: str | None = None) -> str | None:
        """Return the call that a child runs in: of the session `top`, else of the one at the top of all."""
        seen: set[str] = set()
        if facts.session_id == top:
            return None
        while (
            facts.parent_id != top
            and (above := self._running.get(facts.parent_id)) is not None
            and above.session_id not in seen
        ):
            seen.add(above.session_id)
            facts = above
        return facts.tool_call_id if top is None or facts.parent_id == top else None

    def _end_call(self, session_id: str | None, data: Mapping[str, Any]) -> None:
        """Forget whom a call has started, also those that said no last word; None is the session at the top."""
        call = data.get("tool_call_id")
        ended = [
            one.session_id
            for one in self._running.values()
            if call
            and one.tool_call_id == call
            and (one.parent_id if one.parent_id in self._running else None) == session_id
        ]
        while ended:
            gone = ended.pop()
            ended += [one.session_id for one in self._running.values() if one.parent_id == gone]
            self._forget(gone)

    def _forget(self, session_id: str) -> None:
        self._running.pop(session_id, None)
        for span in [span for span, one in self._calls.items() if one.facts.session_id == session_id]:
            del self._calls[span]
        for key in [key for key, one in self._asked.items() if one.facts.session_id == session_id]:
            del self._asked[key]


def _told(asking: list[_Asking]) -> Asked:
    """Return one question, or all that may be meant, without a rule that could come of it."""
    askers = ", ".join(dict.fromkeys(_named(one.facts) for one in asking))
    if len(asking) == 1:
        return Asked(asking[0].action, asking[0].details, asker=askers)
    return Asked("", {"one of": [one.details for one in asking]}, asker=f"one of {askers}")


def _named(facts: ChildFacts) -> str:
    return f"{facts.agent} (session {facts.session_id})"
