"""Tell how a child session ended: by its own last word, and by what the session says that started it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: The events of the tools that start sessions, by what they mean.
SPAWNED: Final = ("delegate:agent_spawned", "delegate:agent_resumed", "task:agent_spawned", "task:agent_resumed")
CLOSED: Final = (
    "delegate:agent_completed",
    "delegate:agent_cancelled",
    "delegate:error",
    "task:agent_completed",
    "task:agent_cancelled",
    "task:error",
)
#: Those by which a session begins, or goes on.
BEGUN: Final = ("session:start", "session:resume")
#: Those that say how its turns end.
OF_TURN: Final = ("execution:start", "provider:response", "provider:error", "orchestrator:complete")
#: Why a loop stops before the work is done, by the word it has for that.
_STOPS: Final = {
    "max_iterations": "the limit of iterations was reached",
    "loop_detected": "the same calls brought the same results again and again",
}
#: What a status means that a session or a tool gives.
_WORDS: Final = {
    "completed": "completed",
    "success": "completed",
    "ok": "completed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "timeout": "timed out",
    "timed_out": "timed out",
    "crashed": "crashed",
    "incomplete": "incomplete",
}


class Ending(NamedTuple):
    """How it ended, and why, when that is known.

    The word is completed, incomplete (with an answer, before it was done), failed, cancelled, timed out or crashed.
    """

    word: str
    reason: str = ""

    @property
    def is_well(self) -> bool:
        """Tell whether it came to its end."""
        return self.word == "completed"


def child_of(data: Mapping[str, Any]) -> str | None:
    """Return the child session that an event of a tool is about."""
    for key in ("sub_session_id", "child_session_id"):
        if isinstance(found := data.get(key), str) and found:
            return found
    return None


class LastTurn:
    """Know how the last turn of a session ended, for a `session:end` says only whether it came to its end."""

    def __init__(self) -> None:
        self._status: str | None = None
        self._why = self._refusal = ""

    def hear(self, event: str | None, data: Mapping[str, Any]) -> None:
        """Take an event of the session, one of `OF_TURN`."""
        if event == "orchestrator:complete":
            self._status, self._why = str(data.get("status")), _STOPS.get(str(data.get("reason")), "")
        elif event == "provider:error":
            self._refusal = _reason(data)
        else:  # another turn begins, or the model has answered after all
            self._status, self._why, self._refusal = None, "", ""

    def ending(self, last_word: Ending) -> Ending:
        """Return how the session ended whose `session:end` says this: a loop may return without having done its work.

        What kept it from that is what the model was not asked for.
        """
        word = "incomplete" if last_word.is_well and self._status == "incomplete" else last_word.word
        if word not in ("incomplete", "failed"):
            return last_word
        return Ending(word, last_word.reason or self._why or self._refusal)


def own_ending(data: Mapping[str, Any]) -> Ending:
    """Return the end that a session tells with its `session:end`."""
    status = data.get("status")
    return Ending(_WORDS.get(str(status), "failed") if status else "completed", _reason(data))


def told_ending(event: str, data: Mapping[str, Any]) -> Ending:
    """Return the end that the session tells which started the child, by one of the events of `CLOSED`."""
    reason = _reason(data)
    status = _WORDS.get(str(data.get("status"))) or _WORDS.get(_kind(data.get("error")))
    if status == "timed out" or _is_deadline(data):
        return Ending("timed out", reason)
    if event.endswith(":agent_cancelled"):
        return Ending("cancelled", reason)
    if event.endswith(":error") or data.get("success") is False:
        return Ending(status if status and status != "completed" else "failed", reason)
    return Ending(status or "completed", "" if status in (None, "completed") else reason)


def settled(own: Ending | None, told: Ending | None, *, is_begun: bool, is_running: bool = False) -> Ending:
    """Return how a child ended, from its own last word and from what was told of it, either of which may be missing.

    One that began and has no last word, or one that was written for it, has crashed, unless it still runs, or whoever
    started it knows better: it was stopped, or came back with an answer.
    """
    if own is None and is_running:
        return Ending("running")
    if (own is None or own.word == "crashed") and is_begun and (told is None or told.word == "failed"):
        return Ending("crashed", told.reason if told is not None else "")
    if told is None:
        return own or Ending("crashed", "it never began")
    return told if told.reason or own is None else Ending(told.word, own.reason if own.word == told.word else "")


def _is_deadline(data: Mapping[str, Any]) -> bool:
    """Tell whether an event says that somebody waited for long enough."""
    return str(data.get("reason")) in ("timeout", "timed_out", "deadline") or data.get("timed_out") is True


def _kind(error: Any) -> str:
    if not isinstance(error, Mapping):
        return ""
    kind = str(error.get("code") or error.get("type") or "")
    return {"TimeoutError": "timeout", "CancelledError": "cancelled"}.get(kind, kind)


def _reason(data: Mapping[str, Any]) -> str:
    error = data.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("msg") or error.get("type") or "")
    found = error or data.get("reason")
    return found if isinstance(found, str) else ""
