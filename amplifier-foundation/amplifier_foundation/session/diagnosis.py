"""Diagnose a conversation, repair it, or rewind it to its last valid turn.

The functions take messages, or those with line numbers that `load_transcript_with_lines` returns, and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from amplifier_foundation.session.files import LINE, StrPath, load_transcript_with_lines, messages_of, without_line
from amplifier_foundation.session.turns import count_turns
from amplifier_foundation.sessions.diagnosis import diagnose, end_of_valid_turns, incomplete_turns, repair_messages
from amplifier_kit.engine.pairing import is_tool_result, tool_call_names
from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "DiagnosisResult",
    "IncompleteTurn",
    "ToolIndex",
    "ToolMessage",
    "build_tool_index",
    "diagnose_transcript",
    "repair_transcript",
    "rewind_transcript",
]

Message = dict[str, Any]


@dataclass
class IncompleteTurn:
    """A turn that ends with a tool call or its result, where a provider wants an answer."""

    #: Counted from 1, as `count_turns` does; 0 stands for messages before the first prompt.
    turn: int
    #: The line of its last message, or the number of that message, counted from 1.
    after_line: int
    missing: Literal["assistant_response"] = "assistant_response"


@dataclass
class DiagnosisResult:
    """Whether a provider would accept a conversation, and why not."""

    status: Literal["healthy", "broken"]
    #: The kinds of problems, in order of appearance.
    failure_modes: list[str] = field(default_factory=list)
    #: Calls without a result, and results without a call.
    orphaned_tool_ids: list[str] = field(default_factory=list)
    #: Results that do not follow their call.
    misplaced_tool_ids: list[str] = field(default_factory=list)
    incomplete_turns: list[IncompleteTurn] = field(default_factory=list)
    recommended_action: Literal["none", "repair"] = "none"


class ToolMessage(NamedTuple):
    """The message that makes a call, or has its result."""

    tool_name: str
    #: Its position in the conversation, counted from 0.
    entry_index: int
    #: Its line, or its number, counted from 1.
    line_num: int


class ToolIndex(NamedTuple):
    """The calls of a conversation and their results, by call id; of several with one id, the first."""

    tool_uses: dict[str, ToolMessage]
    tool_results: dict[str, ToolMessage]


def build_tool_index(messages: Sequence[Mapping[str, Any]]) -> ToolIndex:
    """Return where each tool call and each result of one is."""
    index = ToolIndex({}, {})
    for position, message in enumerate(messages):
        line = _line(messages, position)
        for call, tool in tool_call_names(message).items():
            index.tool_uses.setdefault(call, ToolMessage(tool, position, line))
        if is_tool_result(message):
            found = ToolMessage(str(message.get("name") or ""), position, line)
            index.tool_results.setdefault(str(message.get("tool_call_id") or ""), found)
    return index


def diagnose_transcript(transcript: StrPath | Sequence[Message]) -> DiagnosisResult:
    """Return the problems of a conversation, or of that in the folder of a session.

    Raises what `load_transcript` raises.
    """
    messages = messages_of(transcript, load_transcript_with_lines)
    found = diagnose(messages)
    return DiagnosisResult(
        found.status,
        found.failure_modes,
        found.orphaned_tool_ids,
        found.misplaced_tool_ids,
        [
            IncompleteTurn(count_turns(messages[: last + 1]), _line(messages, last))
            for last in incomplete_turns(messages).values()
        ],
        found.recommended_action,
    )


def repair_transcript(messages: Sequence[Message], diagnosis: DiagnosisResult | None = None) -> list[Message]:
    """Return a conversation that a provider accepts: every call has its result, every turn with tools an answer.

    A `diagnosis` that says healthy saves the work. Messages that need no repair are the same objects; those with line
    numbers are copies without.
    """
    plain = [without_line(message) for message in messages]
    return plain if diagnosis is not None and diagnosis.status == "healthy" else repair_messages(plain).messages


def rewind_transcript(messages: Sequence[Message], diagnosis: DiagnosisResult | None = None) -> list[Message]:
    """Return the conversation up to the end of its last valid turn, with all turns before it.

    A `diagnosis` that says healthy saves the work. Messages with line numbers are copied without.
    """
    is_healthy = diagnosis is not None and diagnosis.status == "healthy"
    end = len(messages) if is_healthy else end_of_valid_turns(messages)
    return [without_line(message) for message in messages[:end]]


def _line(messages: Sequence[Mapping[str, Any]], position: int) -> int:
    line = messages[position].get(LINE)
    return line if isinstance(line, int) else position + 1
