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
from amplifier_module_provider_local.grammar import CallStyle

#: The instructions of a small model, in place of longer ones.
LEAN_SYSTEM: Final = (
    "You are Amplifier, a small and helpful assistant that runs on the user's own machine. Answer briefly and plainly. "
    "If you do not know something, say so."
)
#: The instructions of a model that gets a handful of tools.
LEAN_AGENT: Final = (
    "You are Amplifier, a coding agent in the user's project folder. You cannot see a file before you read it. Work "
    "in steps: in each, say in one short sentence what you found and what you do next, then call one tool. To repair "
    "code, read the failing test, read the code that it tests, replace the wrong line of the code, and not of the "
    "test, with edit_file (old_string is the line as it is now, new_string is the corrected line), then run the tests "
    "with bash. When they pass, say that you are done, without another call."
)
#: Characters of the longest system prompt that a small model gets unchanged: about 300 tokens.
LONGEST_LEAN_SYSTEM: Final = 1200
#: Characters of the longest system prompt that is added to the instructions for tools: about 100 tokens. With a longer
#: one, such as that of the bundle `default`, a small model talks about the task instead of doing it.
LONGEST_LEAN_ADDITION: Final = 400

_EMPTY: Final = "(empty)"
_REMINDERS: Final = re.compile(r"(?:\s*<system-reminder\b[^>]*>.*?</system-reminder>)+\s*", re.DOTALL)
_LINE_NUMBERS: Final = re.compile(r"^ *[0-9]+\t", re.MULTILINE)
#: Marks the reminder about the output schema, which even a small model must get.
_SCHEMA: Final = 'source="output-schema"'
_BLIND: Final = "(an image, which this model cannot see)"
_HOW_TO_CALL: Final = """To call a tool, answer with its name and its arguments as JSON:
{start}
{{"name": NAME, "arguments": ARGUMENTS}}
{end}
The result comes in <tool_response>. Answer in plain text when you need no tool."""
#: With an example, as small models copy what they see.
_HOW_TO_CALL_LEAN: Final = """To call a tool, end your answer with one block like this:
I look what is there.
{start}
{{"name": "{name}", "arguments": {{"{parameter}": "*"}}}}
{end}
The result comes in <tool_response>. Go on with the next step until the task is done."""

#: What a small model is told behind a result: left alone it reads the same files in turn, or stops after a failure.
_REPEATED: Final = "(You have this already. Now change the wrong line of the code with edit_file.)"
_FAILED: Final = (
    "(This failed: the task is not done. Say which line of the code is wrong, then change it with edit_file.)"
)

_EDIT: Final = "edit_file"

Message = dict[str, str]


def messages_of(
    conversation: Conversation, tools: Sequence[ToolSpec], *, lean: bool, style: CallStyle
) -> list[Message]:
    """Return the messages; a lean prompt has short instructions and no reminders of hooks."""
    said: list[Message] = []
    for turn in conversation.turns:
        if lean and _is_reminder(turn):
            continue
        role = "assistant" if turn.role == "assistant" else "user"
        text = _assistant(turn, style) if role == "assistant" else _other(turn, lean=lean)
        if not text.strip():
            continue
        if said and said[-1]["role"] == role:
            said[-1]["content"] += f"\n\n{text}"
        else:
            said.append({"role": role, "content": text})
    if lean and (hint := _hint(conversation)):
        said[-1]["content"] += f"\n\n{hint}"
    if said and said[0]["role"] == "assistant":
        said.insert(0, {"role": "user", "content": _EMPTY})
    system = _system(conversation, tools, lean=lean, style=style)
    return [{"role": "system", "content": system}, *said] if system else said


def _hint(conversation: Conversation) -> str:
    """Return what to say behind the results of a call that was made before, or of a command that failed."""
    newest = next((turn.parts for turn in reversed(conversation.turns) if not _is_reminder(turn)), ())
    results = [part for part in newest if isinstance(part, Result)]
    if not results:
        return ""
    return _REPEATED if repeats_call(conversation) else _FAILED if _is_failure(results[-1]) else ""


def repeats_call(conversation: Conversation) -> bool:
    """Return whether the newest call was made before, and nothing was changed since then."""
    calls = [part for turn in conversation.turns for part in turn.parts if isinstance(part, Call)]
    for earlier in calls[-2::-1]:
        if (earlier.name, earlier.arguments) == (calls[-1].name, calls[-1].arguments):
            return True
        if earlier.name == _EDIT:
            return False
    return False


def _is_failure(result: Result) -> bool:
    """Return whether a result is that of a command which failed."""
    try:
        found = json.loads(_REMINDERS.sub("", result.text))
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("returncode") not in (0, None)


def _system(conversation: Conversation, tools: Sequence[ToolSpec], *, lean: bool, style: CallStyle) -> str:
    system = "\n\n".join(conversation.system)
    if lean and tools:
        system = "\n\n".join(filter(None, (LEAN_AGENT, system if len(system) <= LONGEST_LEAN_ADDITION else "")))
    elif lean and (len(system) > LONGEST_LEAN_SYSTEM or not system):
        system = LEAN_SYSTEM
    if not tools:
        return system
    described = [json.dumps(_described(tool), ensure_ascii=False) for tool in tools]
    listed = "\n".join(["# Tools", "", "<tools>", *described, "</tools>", "", _how_to_call(tools, style, lean=lean)])
    return f"{system}\n\n{listed}" if system else listed


def _how_to_call(tools: Sequence[ToolSpec], style: CallStyle, *, lean: bool) -> str:
    parameter = next(iter(tools[0].parameters.get("properties") or {}), None)
    if not lean or parameter is None:
        return _HOW_TO_CALL.format(start=style.start, end=style.end)
    return _HOW_TO_CALL_LEAN.format(start=style.start, end=style.end, name=tools[0].name, parameter=parameter)


def _is_reminder(turn: Turn) -> bool:
    """Return whether a message is from neither user nor model: a small model would mistake it for the question."""
    if turn.role in ("system", "developer"):
        return True
    return turn.role == "user" and _REMINDERS.fullmatch(turn.text) is not None and _SCHEMA not in turn.text


def _described(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}


def _assistant(turn: Turn, style: CallStyle) -> str:
    calls = [
        f'{style.start}\n{{"name": {_json(part.name)}, "arguments": {_json(part.arguments)}}}\n{style.end}'
        for part in turn.parts
        if isinstance(part, Call)
    ]
    return "\n".join(([turn.text] if turn.text else []) + calls)


def _other(turn: Turn, *, lean: bool) -> str:
    if turn.role in ("system", "developer"):
        return instruction_text(turn)
    return "\n".join(filter(None, (_written(part, lean=lean) for part in turn.parts)))


def _written(part: Part, *, lean: bool) -> str:
    match part:
        case Text():
            return part.text
        case Image():
            return _BLIND
        case Result():
            inner = "\n".join(_written(piece, lean=lean) for piece in part.parts)
            inner = (_plain_result(inner) if lean else inner) or _EMPTY
            return f"<tool_response>\n{inner}\n</tool_response>"
        case _:
            return ""


def _plain_result(text: str) -> str:
    """Return a tool's result as text without JSON, reminders and line numbers, all of which small models copy."""
    text = _REMINDERS.sub("\n", text).strip()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        if isinstance(found.get("content"), str):
            text = found["content"]
        elif isinstance(found.get("matches"), list):
            text = "\n".join(str(one.get("path")) if isinstance(one, dict) else str(one) for one in found["matches"])
        elif isinstance(found.get("stdout"), str):
            said = [found["stdout"], str(found.get("stderr") or ""), f"exit code {found.get('returncode')}"]
            text = "\n".join(part.strip("\n") for part in said if part.strip())
    return _LINE_NUMBERS.sub("", text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
