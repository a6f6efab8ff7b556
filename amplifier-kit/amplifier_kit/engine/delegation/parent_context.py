"""Quote the conversation of the parent for a child.

A quotation is data, not an instruction: it is in a code block, so that no @mention or marker in it takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

__all__ = ["DEPTHS", "SCOPES", "Depth", "Scope", "inherited_text", "with_context", "without_context"]

Depth = Literal["none", "recent", "all"]
Scope = Literal["conversation", "agents", "full"]
DEPTHS: Final[tuple[str, ...]] = get_args(Depth)
SCOPES: Final[tuple[str, ...]] = get_args(Scope)

#: Characters that are kept of a message, and of what a tool returned.
LONGEST_MESSAGE: Final = 2_000
LONGEST_RESULT: Final = 4_000

_OPENING: Final = "[PARENT CONVERSATION CONTEXT]"
_CLOSING: Final = "[END PARENT CONTEXT]"
_TASK: Final = "[YOUR TASK]"
_MARKERS: Final = re.compile(r"\[(PARENT CONVERSATION CONTEXT|END PARENT CONTEXT|YOUR TASK)\]", re.IGNORECASE)
_REMINDER: Final = "<system-reminder"
_NOT_SAID: Final = frozenset({"hook", "goal"})
_AGENT_TOOLS: Final = frozenset({"delegate", "task"})


def inherited_text(
    messages: Sequence[Mapping[str, Any]], depth: Depth, turns: int, scope: Scope, call_id: str | None = None
) -> str:
    """Return the part of a conversation, up to a call, that a child gets; may be empty.

    `recent` is the last `turns` turns, the one under way included. `conversation` is what people and models said;
    `agents` adds what agents answered, `full` what all tools returned. Reminders and system messages are left out.
    Messages after the call are left out, so that a repeated call gives the same text.
    """
    if depth == "none":
        return ""
    messages = messages[: _end(messages, call_id)]
    chosen = messages if depth == "all" else messages[_start(messages, turns) :]
    names = _tool_names(messages)
    return "\n\n".join(_said(chosen, names, scope))


def with_context(instruction: str, context: str) -> str:
    """Return the instruction after the quoted conversation, each with its marker; unchanged without one."""
    if not context:
        return instruction
    longest = max((len(run) for run in re.findall(r"~+", context)), default=0)
    fence = "~" * max(3, longest + 1)
    quoted = _MARKERS.sub(r"(\1)", context)
    return f"{_OPENING}\n{fence}\n{quoted}\n{fence}\n{_CLOSING}\n\n{_TASK}\n{instruction}"


def without_context(text: str) -> str:
    """Undo `with_context`: return the instruction alone; other texts are unchanged."""
    if not text.startswith(f"{_OPENING}\n"):
        return text
    # The quotation holds no such marker: what looked like one in it was changed.
    _, closing, rest = text.partition(f"\n{_CLOSING}\n\n{_TASK}\n")
    return rest if closing else text


def _end(messages: Sequence[Mapping[str, Any]], call_id: str | None) -> int:
    for position in range(len(messages) - 1, -1, -1) if call_id is not None else ():
        if call_id in _tool_names(messages[position : position + 1]):
            return position + 1
    return len(messages)


def _start(messages: Sequence[Mapping[str, Any]], turns: int) -> int:
    starts = [position for position, message in enumerate(messages) if _starts_turn(message)]
    return starts[-turns] if 0 < turns <= len(starts) else 0


def _starts_turn(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and _is_said(message) and _origin(message) != "steering"


def _is_said(message: Mapping[str, Any]) -> bool:
    """Tell whether a message belongs to the conversation, not to reminders and hooks."""
    if message.get("tool_call_id") or _origin(message) in _NOT_SAID:
        return False
    return not _text(message.get("content")).lstrip().startswith(_REMINDER)


def _said(messages: Sequence[Mapping[str, Any]], names: Mapping[str, str], scope: Scope) -> Iterator[str]:
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role in ("user", "assistant") and _is_said(message):
            if text := _text(content).strip():
                yield f"{str(role).upper()}: {_cut(text, LONGEST_MESSAGE)}"
            if scope != "conversation":
                yield from _block_results(content, names, scope)
        elif role == "tool" and scope != "conversation":
            name = message.get("name") or names.get(str(message.get("tool_call_id")), "")
            yield from _result(str(name), _text(content), scope)


def _block_results(content: Any, names: Mapping[str, str], scope: Scope) -> Iterator[str]:
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            name = names.get(str(block.get("tool_call_id") or block.get("tool_use_id")), "")
            yield from _result(name, _text(block.get("output", block.get("content"))), scope)


def _result(name: str, text: str, scope: Scope) -> Iterator[str]:
    if text.strip() and (scope == "full" or name in _AGENT_TOOLS):
        yield f"RESULT OF {name or 'a tool'}: {_cut(text.strip(), LONGEST_RESULT)}"


def _tool_names(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the name of the tool of each call, by the id of the call."""
    names: dict[str, str] = {}
    for message in messages:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping) and isinstance(name := call.get("tool") or call.get("name"), str):
                names[str(call.get("id"))] = name
    return names


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return "" if content is None else str(content)
    texts = [block if isinstance(block, str) else _block_text(block) for block in content]
    return "\n".join(text for text in texts if text)


def _block_text(block: Any) -> str:
    """Return the text of a text block; thinking and images are left out."""
    if not isinstance(block, Mapping) or block.get("type", "text") != "text":
        return ""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def _origin(message: Mapping[str, Any]) -> Any:
    metadata = message.get("metadata")
    return metadata.get("source") if isinstance(metadata, Mapping) else None


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... [cut: {len(text)} characters]"
