"""Quote the conversation of the parent for a child.

A quotation is data, not an instruction: it is in a code block, so that no @mention or marker in it takes effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from amplifier_kit.engine.pairing import tool_call_names
from amplifier_kit.reminders import is_reminder

Depth = Literal["none", "recent", "all"]
Scope = Literal["conversation", "agents", "full"]
DEPTHS: Final[tuple[str, ...]] = get_args(Depth)
SCOPES: Final[tuple[str, ...]] = get_args(Scope)

#: Characters that are kept of a message, and of a tool result.
LONGEST_MESSAGE: Final = 2_000
LONGEST_RESULT: Final = 4_000

_OPENING: Final = "[PARENT CONVERSATION CONTEXT]"
_CLOSING: Final = "[END PARENT CONTEXT]"
_TASK: Final = "[YOUR TASK]"
_MARKERS: Final = r"(?i)\[(PARENT CONVERSATION CONTEXT|END PARENT CONTEXT|YOUR TASK)\]"
#: Values of `metadata.source` of messages that neither the user nor the model wrote.
_INJECTED: Final = frozenset({"hook", "goal"})
_AGENT_TOOLS: Final = frozenset({"delegate", "task"})

_Message = Mapping[str, Any]


def inherited_text(
    messages: Sequence[_Message], depth: Depth, turns: int, scope: Scope, call_id: str | None = None
) -> str:
    """Return the part of a conversation, up to a call, that a child gets; may be empty.

    `recent` is the last `turns` turns, the current one included. `conversation` is the messages of people and models;
    `agents` adds the answers of agents, `full` the results of all tools. Reminders and system messages are left out.
    Messages after the call are left out, so that a repeated call gives the same text.
    """
    if depth == "none":
        return ""
    tools = [tool_call_names(message) for message in messages]
    if call_id is not None:
        end = next((index + 1 for index in reversed(range(len(messages))) if call_id in tools[index]), len(messages))
        messages, tools = messages[:end], tools[:end]
    names = {call: name for called in tools for call, name in called.items()}
    if depth == "recent":
        starts = [index for index, message in enumerate(messages) if _starts_turn(message)]
        messages = messages[starts[-turns] if 0 < turns <= len(starts) else 0 :]
    return "\n\n".join(_quote(messages, names, scope))


def with_context(instruction: str, context: str) -> str:
    """Return the instruction after the quoted conversation, each with its marker; unchanged without one."""
    if not context:
        return instruction
    longest = max((len(run) for run in re.findall(r"~+", context)), default=0)
    fence = "~" * max(3, longest + 1)
    quoted = re.sub(_MARKERS, r"(\1)", context)
    return f"{_OPENING}\n{fence}\n{quoted}\n{fence}\n{_CLOSING}\n\n{_TASK}\n{instruction}"


def without_context(text: str) -> str:
    """Undo `with_context`: return the instruction alone; other texts are unchanged."""
    if not text.startswith(f"{_OPENING}\n"):
        return text
    # The quotation holds no such marker: those in it were changed.
    _, closing, rest = text.partition(f"\n{_CLOSING}\n\n{_TASK}\n")
    return rest if closing else text


def _starts_turn(message: _Message) -> bool:
    return message.get("role") == "user" and _is_spoken(message) and _source(message) != "steering"


def _is_spoken(message: _Message) -> bool:
    """Return whether a message belongs to the conversation, not to reminders and hooks."""
    if message.get("tool_call_id") or _source(message) in _INJECTED:
        return False
    return not is_reminder(_text(message.get("content")))


def _quote(messages: Sequence[_Message], names: Mapping[str, str], scope: Scope) -> Iterator[str]:
    for message in messages:
        role, content = message.get("role"), message.get("content")
        results: list[tuple[str, Any]] = []
        if role in ("user", "assistant") and _is_spoken(message):
            if text := _text(content).strip():
                yield f"{str(role).upper()}: {_cut(text, LONGEST_MESSAGE)}"
            for block in content if isinstance(content, list) else ():
                if isinstance(block, Mapping) and block.get("type") == "tool_result":
                    name = names.get(str(block.get("tool_call_id") or block.get("tool_use_id")), "")
                    results.append((name, block.get("output", block.get("content"))))
        elif role == "tool":
            name = str(message.get("name") or names.get(str(message.get("tool_call_id")), ""))
            results.append((name, content))
        for name, output in results:
            is_included = scope == "full" or (scope == "agents" and name in _AGENT_TOOLS)
            if is_included and (text := _text(output).strip()):
                yield f"RESULT OF {name or 'a tool'}: {_cut(text, LONGEST_RESULT)}"


def _text(content: Any) -> str:
    """Return the text of a content; thinking and images are left out."""
    if not isinstance(content, list):
        return "" if content is None else str(content)
    texts = []
    for block in content:
        if isinstance(block, Mapping) and block.get("type", "text") == "text":
            block = block.get("text")
        if isinstance(block, str) and block:
            texts.append(block)
    return "\n".join(texts)


def _source(message: _Message) -> Any:
    metadata = message.get("metadata")
    return metadata.get("source") if isinstance(metadata, Mapping) else None


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... [cut: {len(text)} characters]"
