"""Understand what a hook answered: by its exit code, by JSON on its standard output, or by plain text.

Exit code 2 blocks, with standard error as the reason. Code 0 goes on, with what the output says. Any other code is a
complaint of the hook that blocks nothing, apart from those that mean that it never ran or was killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from amplifier_kit.struct import FrozenStruct
from amplifier_module_hook_shell.hook_events import Moment

Decision = Literal["continue", "ask", "deny"]

_BLOCKED: Final = 2
#: What a shell answers when a program cannot be run, and from where on when it was killed.
_NOT_RUN: Final = (126, 127)
_KILLED: Final = 128
_NO_REASON: Final = "it gave no reason"
_WORDS: Final[dict[str, Decision]] = {
    "approve": "continue",
    "allow": "continue",
    "continue": "continue",
    "ask": "ask",
    "block": "deny",
    "deny": "deny",
}
#: Keys for the value that takes the place of what the event carried, the more exact ones first.
_REPLACEMENTS: Final = {
    "tool_input": ("updatedInput", "newContent"),
    "result": ("updatedToolOutput", "updatedMCPToolOutput", "newContent"),
    "prompt": ("updatedPrompt", "newContent"),
}


class AnswerError(ValueError):
    """A hook gave an invalid answer: it must not pass as consent."""


class Answer(FrozenStruct):
    """What a hook wants."""

    decision: Decision = "continue"
    reason: str = ""
    context: str = ""
    #: For the person.
    message: str = ""
    is_replacing: bool = False
    replacement: Any = None
    #: Whether the whole turn is to end.
    is_stopping: bool = False
    #: What the hook complains about, although it blocks nothing.
    complaint: str = ""

    @property
    def verdict(self) -> str:
        """Return the strongest of what it wants, for the log."""
        if self.decision != "continue":
            return self.decision
        return "modify" if self.is_replacing else "inject" if self.context else "continue"


def read_answer(moment: Moment, returncode: int | None, stdout: str, stderr: str, *, is_cut: bool) -> Answer:
    """Return what a command said; raise AnswerError when it said nothing that could be followed."""
    said = stderr.strip()
    if returncode == _BLOCKED:
        return Answer("deny", reason=said or stdout.strip() or _NO_REASON)
    if returncode is None or returncode < 0 or returncode >= _KILLED:
        how = "exit status unknown" if returncode is None else f"exit code {returncode}"
        raise AnswerError(f"it was killed ({how})" + (f": {said}" if said else ""))
    if returncode in _NOT_RUN:
        raise AnswerError(f"its command cannot be run (exit code {returncode})" + (f": {said}" if said else ""))
    if returncode:
        return Answer(complaint=f"exit code {returncode}" + (f": {said}" if said else ""))
    text = stdout.strip().removeprefix("\ufeff")
    if not text.startswith("{"):
        if moment.is_text_context:
            return Answer(context=text)
        if "\n{" in text:
            raise AnswerError("there is something before the JSON of its answer; write it to standard error")
        return Answer()
    if is_cut:
        raise AnswerError("its answer is longer than what is read of it")
    return read_json(moment, text)


def read_json(moment: Moment, text: str) -> Answer:
    """Return what a JSON answer says; raise AnswerError when it cannot be understood."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnswerError(f"its answer is not JSON: {error}") from error
    if not isinstance(said, Mapping):
        raise AnswerError(f"its answer must be an object, not {type(said).__name__}")
    special = said.get("hookSpecificOutput") or {}
    if not isinstance(special, Mapping):
        raise AnswerError("'hookSpecificOutput' must be an object")
    decision = _decision(said, special)
    reason = _text(special, "permissionDecisionReason") or _text(said, "reason")
    is_stopping = said.get("continue") is False
    if is_stopping:
        decision, reason = "deny", _text(said, "stopReason") or reason
    is_replacing, replacement = _replacement(moment, said, special)
    return Answer(
        decision=decision,
        reason=reason or (_NO_REASON if decision == "deny" else ""),
        context=_text(special, "additionalContext") or _text(said, "additionalContext", "contextInjection"),
        message=_text(said, "systemMessage"),
        is_replacing=is_replacing,
        replacement=replacement,
        is_stopping=is_stopping,
    )


def _decision(said: Mapping[str, Any], special: Mapping[str, Any]) -> Decision:
    """Return the strictest of what is said in the several places where a decision may stand."""
    nested = special.get("decision")
    words = [said.get("decision"), said.get("permissionDecision"), special.get("permissionDecision")]
    words.append(nested.get("behavior") if isinstance(nested, Mapping) else nested)
    found: list[Decision] = ["continue"]
    for word in words:
        if word is None:
            continue
        known = _WORDS.get(word.lower()) if isinstance(word, str) else None
        if known is None:
            raise AnswerError(f"unknown decision {word!r}: expected one of {', '.join(_WORDS)}")
        found.append(known)
    return "deny" if "deny" in found else "ask" if "ask" in found else "continue"


def _replacement(moment: Moment, said: Mapping[str, Any], special: Mapping[str, Any]) -> tuple[bool, Any]:
    for key in _REPLACEMENTS.get(moment.replaced or "", ()):
        for place in (special, said):
            if place.get(key) is None:
                continue
            value = place[key]
            expected: type = {"tool_input": dict, "prompt": str}.get(moment.replaced or "", object)
            if not isinstance(value, expected):
                raise AnswerError(f"{key!r} must be {expected.__name__}, got {type(value).__name__}")
            return True, value
    return False, None


def _text(place: Mapping[str, Any], *keys: str) -> str:
    for key in keys:
        value = place.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise AnswerError(f"{key!r} must be a text, got {type(value).__name__}")
        if value.strip():
            return value.strip()
    return ""
