"""Complete a conversation that a crash cut off, from the session's log: what was done is not done again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import (
    EXECUTION_END,
    ORCHESTRATOR_COMPLETE,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    PROVIDER_REQUEST,
    PROVIDER_RESPONSE,
    TOOL_ERROR,
    TOOL_POST,
)
from amplifier_foundation.sessions.event_cut import message_time, milliseconds
from amplifier_foundation.sessions.turns import count_turns, message_text, turn_boundaries
from amplifier_kit.engine.pairing import tool_call_ids, tool_call_names, tool_result
from amplifier_kit.log.open_work import WRITTEN_BY

if TYPE_CHECKING:
    from amplifier_kit.log import LogLine

Message = dict[str, Any]

#: Marks messages that were taken from the log.
RECOVERED: Final = "recovered_from_log"
#: What a turn ends with.
_ENDS: Final = frozenset({PROMPT_COMPLETE, ORCHESTRATOR_COMPLETE, EXECUTION_END})


def recover(messages: list[Message], folder: Path) -> tuple[list[Message], list[str]]:
    """Return the messages with what the log of the last turn knows besides, and what was added, in readable lines.

    Three things can be in the log and not in the transcript: a prompt that was taken and not yet kept, the result of a
    tool that was done while the process died, and the answer. A log that cannot be read adds nothing, and that is said.
    """
    try:
        turn = _last_turn(folder)
    except (OSError, ValueError) as error:
        return messages, [f"the log could not be used to complete the conversation: {error}"]
    if turn is None:
        return messages, []
    completed, notes = list(messages), list[str]()
    prompt = _prompt(turn, notes)
    if prompt and turn.was_accepted and _is_missing(prompt, turn, messages):
        completed.append({"role": "user", "content": prompt, "metadata": _marks(turn.submit)})
        notes.append("the last prompt was taken from the log")
    for message in _results(completed, turn, notes):
        completed.append(message)
        notes.append(f"the result of {message['name'] or 'a tool'} ({message['tool_call_id']}) was taken from the log")
    answer = _answer(prompt, completed, turn, notes)
    if answer is not None:
        completed.append(answer)
        notes.append("the answer was taken from the log")
    return completed, notes


@dataclass
class _Turn:
    """What the log says of one turn, unread as far as it may be large."""

    submit: LogLine
    #: How many turns before this one a model may have been asked in.
    before: int
    was_asked: bool = False
    was_answered: bool = False
    is_over: bool = False
    end: LogLine | None = None
    #: The last word of the log on each call.
    results: dict[str, LogLine] = field(default_factory=dict)

    @property
    def was_accepted(self) -> bool:
        """Return whether the prompt became a message: one that a hook denied ends without a request."""
        return self.was_asked or not self.is_over

    def note(self, line: LogLine) -> None:
        """Take in a line of the turn; an end that was never emitted tells nothing of what was done."""
        event = line.event
        if WRITTEN_BY in line.data:
            return
        if event in (TOOL_POST, TOOL_ERROR):
            self.results[str(line.data.get("tool_call_id"))] = line
        elif event == PROVIDER_REQUEST:
            self.was_asked = True
        elif event == PROVIDER_RESPONSE:
            self.was_answered = True
        elif event in _ENDS:
            self.is_over = True
            self.end = line if event == EXECUTION_END else self.end


def _last_turn(folder: Path) -> _Turn | None:
    from amplifier_kit.log import read_log

    turn: _Turn | None = None
    for line in read_log(folder, on_torn=lambda torn: None):  # a torn last line is what a crash leaves
        if line.event == PROMPT_SUBMIT:
            turn = _Turn(line, 0 if turn is None else turn.before + turn.was_accepted)
        elif turn is not None:
            turn.note(line)
    return turn


def _is_missing(prompt: str, turn: _Turn, messages: list[Message]) -> bool:
    """Tell whether no message is what was submitted: by the time of the last one, else by counting and its words.

    A prompt may be changed by hooks before it is kept, and may be the same as the one before.
    """
    starts = turn_boundaries(messages)
    if not starts:
        return True
    last = messages[starts[-1]]
    is_earlier = _is_earlier(last, turn)
    if is_earlier is not None:
        return is_earlier
    if count_turns(messages) > turn.before:
        return False
    if message_text(last) != prompt:
        return True
    return _is_answer(messages[-1]) and not turn.was_answered


def _is_earlier(message: Message, turn: _Turn) -> bool | None:
    """Tell whether a message is older than the prompt of a turn, None when one of them has no time."""
    kept_at, submitted_at = message_time(message), milliseconds(turn.submit.ts)
    return None if kept_at is None or submitted_at is None else kept_at < submitted_at


def _results(messages: list[Message], turn: _Turn, notes: list[str]) -> Iterator[Message]:
    """Yield the results that the log has of the calls that the last turn made and nobody answered."""
    of_turn = _of_last_turn(messages)
    caller = next((message for message in reversed(of_turn) if tool_call_ids(message)), None)
    if caller is None:
        return
    answered = {message.get("tool_call_id") for message in of_turn if message.get("role") == "tool"}
    names = tool_call_names(caller)
    for call in tool_call_ids(caller):
        line = turn.results.get(call)
        if line is None or call in answered:
            continue
        try:
            content = _content(line)
        except LookupError as error:
            notes.append(f"the log has lost the result of {names.get(call) or 'a tool'} ({call}): {error}")
        else:
            yield tool_result(call, names.get(call, ""), content, **_marks(line))


def _answer(prompt: str, messages: list[Message], turn: _Turn, notes: list[str]) -> Message | None:
    """Return the answer when the turn had ended and the conversation has the prompt alone."""
    if turn.end is None or not turn.was_asked or turn.end.get("status") != "completed":
        return None
    of_turn = _of_last_turn(messages)
    if not of_turn or any(map(_is_answer, of_turn)):
        return None
    is_earlier = _is_earlier(of_turn[0], turn)
    if is_earlier or (is_earlier is None and message_text(of_turn[0]) != prompt):
        return None
    try:
        text = turn.end.expand(turn.end.data.get("response"))
    except LookupError as error:
        notes.append(f"the log has lost the answer: {error}")
        return None
    return {"role": "assistant", "content": text, "metadata": _marks(turn.end)} if text else None


def _of_last_turn(messages: list[Message]) -> list[Message]:
    starts = turn_boundaries(messages)
    return messages[starts[-1] :] if starts else []


def _is_answer(message: Message) -> bool:
    return message.get("role") == "assistant" and not tool_call_ids(message)


def _prompt(turn: _Turn, notes: list[str]) -> str:
    try:
        return str(turn.submit.expand(turn.submit.data.get("prompt")) or "")
    except LookupError as error:
        notes.append(f"the log has lost the last prompt: {error}")
        return ""


def _content(line: LogLine) -> str:
    """Return what the model is told of a call; raises LookupError for a result that the log has lost."""
    data = line.resolved()
    if line.event == TOOL_ERROR:
        error = line.resolved_error() or data.get("error")
        told = error.get("message") or error.get("msg") if isinstance(error, dict) else error
        return f"Error: {told or 'the tool failed'}"
    from amplifier_core.models import ToolResult

    result = data.get("result")
    try:
        return ToolResult(**result).get_serialized_output() if isinstance(result, dict) else str(result)
    except (TypeError, ValueError):
        return str(result)


def _marks(line: LogLine) -> dict[str, Any]:
    return {RECOVERED: True, **({"timestamp": line.ts} if line.ts else {})}
