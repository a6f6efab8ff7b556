"""Complete a conversation that a crash cut off, from the session's log: what was done is not done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_core.events import PROMPT_SUBMIT, TOOL_ERROR, TOOL_POST
from amplifier_kit.pairing import tool_call_ids, tool_call_names, tool_result

Message = dict[str, Any]

#: Marks messages that were taken from the log.
RECOVERED = {"recovered_from_log": True}


def recover(messages: list[Message], folder: Path) -> tuple[list[Message], list[str]]:
    """Return the messages with what the log of the last turn knows besides, and what was added, in readable lines.

    Two things can be in the log and not in the transcript: a prompt that was taken and not yet kept, and the result of
    a tool that was done while the process died. A log that cannot be read adds nothing, and that is said.
    """
    from amplifier_foundation.log import read_log

    last: list[tuple[str, dict[str, Any]]] = []
    prompts = 0
    try:
        for line in read_log(folder, on_torn=lambda torn: None):  # a torn last line is what a crash leaves
            if line.event == PROMPT_SUBMIT:
                prompts += 1
                last.clear()
            if line.event in (PROMPT_SUBMIT, TOOL_POST, TOOL_ERROR):
                last.append((line.event, line.resolved()))
    except (OSError, LookupError, ValueError) as error:
        return messages, [f"the log could not be used to complete the conversation: {error}"]
    completed, added = list(messages), []
    if last and last[0][0] == PROMPT_SUBMIT and _is_missing(last[0][1], prompts, messages):
        completed.append({"role": "user", "content": str(last[0][1].get("prompt", "")), "metadata": dict(RECOVERED)})
        added.append("the last prompt was taken from the log")
    for message in _results(completed, last):
        completed.append(message)
        added.append(f"the result of {message['name'] or 'a tool'} ({message['tool_call_id']}) was taken from the log")
    return completed, added


def _is_missing(event: dict[str, Any], prompts: int, messages: list[Message]) -> bool:
    """Tell whether the last prompt is in no message: the log has one more than the transcript, or another one."""
    prompt = str(event.get("prompt", ""))
    spoken = [message for message in messages if message.get("role") == "user"]
    if not prompt or len(spoken) >= prompts:
        return False
    # A prompt may be changed by hooks before it is kept, so that its text alone does not tell.
    return not spoken or _text(spoken[-1]) != prompt or messages[-1].get("role") == "assistant"


def _results(messages: list[Message], events: list[tuple[str, dict[str, Any]]]) -> list[Message]:
    """Return the results that the log has of the calls that the last assistant message made and nobody answered."""
    caller = next((message for message in reversed(messages) if message.get("role") == "assistant"), None)
    if caller is None:
        return []
    answered = {message.get("tool_call_id") for message in messages if message.get("role") == "tool"}
    known = {data.get("tool_call_id"): (event, data) for event, data in events if event in (TOOL_POST, TOOL_ERROR)}
    names = tool_call_names(caller)
    return [
        tool_result(call, names.get(call, ""), _content(*known[call]), **RECOVERED)
        for call in tool_call_ids(caller)
        if call in known and call not in answered
    ]


def _content(event: str, data: dict[str, Any]) -> str:
    if event == TOOL_ERROR:
        error = data.get("error")
        told = error.get("message") or error.get("msg") if isinstance(error, dict) else error
        return f"Error: {told or 'the tool failed'}"
    from amplifier_core.models import ToolResult

    result = data.get("result")
    try:
        return ToolResult(**result).get_serialized_output() if isinstance(result, dict) else str(result)
    except (TypeError, ValueError):
        return str(result)


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content)
