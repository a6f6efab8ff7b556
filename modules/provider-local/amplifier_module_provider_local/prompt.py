"""Build the messages for a local model.

Chat templates require user and assistant in turns, and most do not support tools: so tools, calls and results become
text, in the form that most models were trained on. Reading a prompt takes these models long, which is why a small one
gets a lean prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from amplifier_core.message_models import ToolSpec
from amplifier_kit.llm.request import Call, Conversation, Image, Part, Result, Text, Turn, instruction_text
from amplifier_module_provider_local.grammar import CALL_END, CALL_START

#: The instructions of a small model, in place of longer ones.
LEAN_SYSTEM: Final = (
    "You are Amplifier, a small and helpful assistant that runs on the user's own machine. Answer briefly and plainly. "
    "If you do not know something, say so."
)
#: Characters of the longest system prompt that a small model gets unchanged: about 300 tokens.
LONGEST_LEAN_SYSTEM: Final = 1200

_EMPTY: Final = "(empty)"
_REMINDERS: Final = re.compile(r"(?:\s*<system-reminder\b[^>]*>.*?</system-reminder>)+\s*", re.DOTALL)
#: Marks the reminder about the output schema, which even a small model must get.
_SCHEMA: Final = 'source="output-schema"'
_BLIND: Final = "(an image, which this model cannot see)"
_HOW_TO_CALL: Final = f"""To call a tool, answer with its name and its arguments as JSON:
{CALL_START}
{{"name": NAME, "arguments": ARGUMENTS}}
{CALL_END}
The result comes in <tool_response>. Answer in plain text when you need no tool."""

Message = dict[str, str]


def messages_of(conversation: Conversation, tools: Sequence[ToolSpec], *, lean: bool) -> list[Message]:
    """Return the messages; a lean prompt has short instructions and no reminders of hooks."""
    said: list[Message] = []
    for turn in conversation.turns:
        if lean and _is_reminder(turn):
            continue
        role = "assistant" if turn.role == "assistant" else "user"
        text = _assistant(turn) if role == "assistant" else _other(turn)
        if not text.strip():
            continue
        if said and said[-1]["role"] == role:
            said[-1]["content"] += f"\n\n{text}"
        else:
            said.append({"role": role, "content": text})
    if said and said[0]["role"] == "assistant":
        said.insert(0, {"role": "user", "content": _EMPTY})
    system = _system(conversation, tools, lean=lean)
    return [{"role": "system", "content": system}, *said] if system else said


def _system(conversation: Conversation, tools: Sequence[ToolSpec], *, lean: bool) -> str:
    system = "\n\n".join(conversation.system)
    if lean and (len(system) > LONGEST_LEAN_SYSTEM or not system):
        system = LEAN_SYSTEM
    if not tools:
        return system
    described = [json.dumps(_described(tool), ensure_ascii=False) for tool in tools]
    listed = "\n".join(["# Tools", "", "<tools>", *described, "</tools>", "", _HOW_TO_CALL])
    return f"{system}\n\n{listed}" if system else listed


def _is_reminder(turn: Turn) -> bool:
    """Return whether a message is from neither user nor model: a small model would mistake it for the question."""
    if turn.role in ("system", "developer"):
        return True
    return turn.role == "user" and _REMINDERS.fullmatch(turn.text) is not None and _SCHEMA not in turn.text


def _described(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}


def _assistant(turn: Turn) -> str:
    calls = [
        f'{CALL_START}\n{{"name": {_json(part.name)}, "arguments": {_json(part.arguments)}}}\n{CALL_END}'
        for part in turn.parts
        if isinstance(part, Call)
    ]
    return "\n".join(([turn.text] if turn.text else []) + calls)


def _other(turn: Turn) -> str:
    if turn.role in ("system", "developer"):
        return instruction_text(turn)
    return "\n".join(filter(None, (_written(part) for part in turn.parts)))


def _written(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return _BLIND
        case Result():
            inner = "\n".join(_written(piece) for piece in part.parts) or _EMPTY
            return f"<tool_response>\n{inner}\n</tool_response>"
        case _:
            return ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
