"""What a hook answered, and the one verdict made of all answers to an event: deny > ask > modify > continue.

Exit code 2 blocks, with standard error as the reason. Code 0 continues, with what the output says. Any other code is a
complaint that blocks nothing, apart from those that mean that the hook never ran or was killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, Final, Literal

from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_hook_shell.hook_events import HookEvent
from amplifier_module_hook_shell.hook_files import Hook

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


def read_answer(hook_event: HookEvent, returncode: int | None, stdout: str, stderr: str, *, is_cut: bool) -> Answer:
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
        if hook_event.is_text_context:
            return Answer(context=text)
        if "\n{" in text:
            raise AnswerError("there is something before the JSON of its answer; write it to standard error")
        return Answer()
    if is_cut:
        raise AnswerError("its answer is longer than what is read of it")
    return read_json(hook_event, text)


def read_json(hook_event: HookEvent, text: str) -> Answer:
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
    is_replacing, replacement = _replacement(hook_event, said, special)
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


def _replacement(hook_event: HookEvent, said: Mapping[str, Any], special: Mapping[str, Any]) -> tuple[bool, Any]:
    for key in _REPLACEMENTS.get(hook_event.replaced or "", ()):
        for place in (special, said):
            if place.get(key) is None:
                continue
            value = place[key]
            expected: type = {"tool_input": dict, "prompt": str}.get(hook_event.replaced or "", object)
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


#: ok: it answered. error: it complained, or cannot be run or understood. cancelled: the session was asked to stop.
Status = Literal["ok", "error", "timeout", "cancelled"]
#: What a failure is about: the run of a hook, or the budget that keeps it from asking a model.
Cause = Literal["run", "budget"]


class Outcome(NamedTuple):
    """What came of one hook."""

    status: Status
    #: What it wants; None when it gave no answer that counts.
    answer: Answer | None = None
    error: str = ""
    exit_code: int | None = None
    cause: Cause = "run"


# --- verdict ---

#: How often everybody judges, before changes that never come to rest are a refusal.
MOST_ROUNDS: Final = 5

#: Run one hook on the current value and return what counts of its answer; never raises.
RunHook = Callable[[Hook, Any], Awaitable[Answer]]


class Verdict(Struct):
    """What all hooks of an event want together."""

    value: Any
    is_changed: bool = False
    denied_by: str = ""
    reason: str = ""
    asked_by: str = ""
    question: str = ""
    is_stopping: bool = False
    #: What the model is to read, each with the hook that says it.
    contexts: list[tuple[str, str]] = field(default_factory=list)

    def take(self, hook: Hook, answer: Answer) -> None:
        """Add what one hook wants."""
        said = (hook.name, answer.context)
        if answer.context and said not in self.contexts:
            self.contexts.append(said)
        if answer.decision == "deny" and not self.denied_by:
            self.denied_by, self.reason = hook.name, answer.reason
        if answer.decision == "ask" and not self.asked_by:
            self.asked_by, self.question = hook.name, answer.reason
        self.is_stopping = self.is_stopping or answer.is_stopping


class Evaluation:
    """Bring the hooks of one event to a verdict."""

    def __init__(self, hook_event: HookEvent, hooks: Sequence[Hook], value: Any, run: RunHook) -> None:
        """Judge `value`, the part of the event that hooks may replace."""
        self._hook_event = hook_event
        self._run = run
        self._steps = _steps(hooks)
        self._original = _written(value)
        self._verdict = Verdict(value)
        #: hook → the version it has agreed to
        self._agreed: dict[int, str] = {}

    async def verdict(self) -> Verdict:
        """Return what the hooks want; the first that denies ends it."""
        for _ in range(MOST_ROUNDS if self._hook_event.is_gate else 1):
            for step in self._steps:
                await self._take_step([hook for hook in step if self._is_open(hook)])
                if self._verdict.denied_by:
                    return self._verdict
            if not self._hook_event.is_gate or not any(self._is_open(hook) for step in self._steps for hook in step):
                return self._settled()
        self._verdict.denied_by = self._steps[-1][-1].name
        self._verdict.reason = f"the hooks still change each other's changes after {MOST_ROUNDS} rounds"
        return self._verdict

    def _settled(self) -> Verdict:
        self._verdict.is_changed = _written(self._verdict.value) != self._original
        return self._verdict

    def _is_open(self, hook: Hook) -> bool:
        return self._agreed.get(id(hook)) != _written(self._verdict.value)

    async def _take_step(self, hooks: Sequence[Hook]) -> None:
        value = self._verdict.value
        seen = _written(value)
        for hook, answer in zip(hooks, await self._answers(hooks, value), strict=True):
            self._verdict.take(hook, answer)
            self._agreed[id(hook)] = seen
            if answer.is_replacing:
                self._verdict.value = answer.replacement
                self._agreed[id(hook)] = _written(answer.replacement)

    async def _answers(self, hooks: Sequence[Hook], value: Any) -> list[Answer]:
        if len(hooks) == 1:
            return [await self._run(hooks[0], value)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(self._run(hook, value))) for hook in hooks]
        return [task.result() for task in tasks]


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work


def _steps(hooks: Sequence[Hook]) -> list[list[Hook]]:
    """Return the hooks as they run: those of one group together, all others by themselves."""
    keyed = ((hook.group if hook.group is not None else -1 - index, hook) for index, hook in enumerate(hooks))
    return [[hook for _, hook in together] for _, together in groupby(keyed, key=lambda pair: pair[0])]


def _written(value: Any) -> str:
    """Serialize a value; two texts are equal only when their JSON values are."""
    return json.dumps(value, sort_keys=True, default=str)
