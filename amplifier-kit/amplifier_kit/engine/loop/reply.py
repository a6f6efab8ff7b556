"""Read a provider's response, whatever shape it has: text, content blocks, tool calls, usage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from amplifier_core.message_models import Usage
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.pairing import rename_calls, tool_call_ids, tool_call_names
from amplifier_kit.engine.usage import usage_fault
from amplifier_kit.named_tuple import NamedTuple

#: Types that cannot carry token counts; a module's own objects can.
_PLAIN = (str, bytes, bool, int, float, list, tuple, set)


class Call(NamedTuple):
    """One tool call of a model; `problem` is the reason why it cannot run."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None


class Reply(NamedTuple):
    """One answer of a model: its text, the message to store (None when it is empty), and its calls in order."""

    text: str
    message: dict[str, Any] | None
    calls: list[Call]


async def read_reply(provider: Any, response: Any, taken: Iterable[str], *, keep_thinking: bool = False) -> Reply:
    """Read a response; call ids are made to differ from each other and from those in `taken`.

    With `keep_thinking`, the message also has its first thinking block under `thinking_block`.
    """
    parse = getattr(provider, "parse_tool_calls", None)
    entries = await maybe_await(parse(response)) if callable(parse) else getattr(response, "tool_calls", None)
    calls = [_read_call(entry) for entry in entries or ()]
    content = _read_content(response)
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in calls]
    if keep_thinking and isinstance(content, list):
        thinking = next((block for block in content if block.get("type") == "thinking"), None)
        if thinking is not None:
            message["thinking_block"] = thinking
    metadata = getattr(response, "metadata", None)
    if isinstance(metadata, dict) and metadata:
        message["metadata"] = metadata
    message = rename_calls(message, taken)
    calls = _match_ids(message, calls)
    return Reply(_text(content), message if content or calls else None, calls)


def _match_ids(message: dict[str, Any], calls: list[Call]) -> list[Call]:
    """Return one call per id in the message: those that were read, then those that only a content block has."""
    ids = tool_call_ids(message)
    known = [call._replace(id=call_id) for call, call_id in zip(calls, ids, strict=False)]
    names = tool_call_names(message)
    unread = "the provider could not read this call"
    return known + [Call(call_id, names[call_id], {}, unread) for call_id in ids[len(calls) :]]


def _read_call(entry: Any) -> Call:
    def first(*names: str) -> Any:
        for name in names:
            value = entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
            if value is not None:
                return value
        return None

    arguments, problem = _read_arguments(first("arguments", "input"))
    return Call(str(first("id") or ""), str(first("name", "tool") or ""), arguments, problem)


def _read_arguments(arguments: Any) -> tuple[dict[str, Any], str | None]:
    if isinstance(arguments, str) and arguments.strip():
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            return {}, f"its arguments are not valid JSON: {error}"
    if arguments is None or arguments == "":
        return {}, None
    if isinstance(arguments, Mapping):
        return dict(arguments), None
    return {}, f"its arguments must be an object, got {type(arguments).__name__}"


def _read_content(response: Any) -> str | list[dict[str, Any]]:
    content = response if isinstance(response, str) else getattr(response, "content", None)
    if isinstance(content, str):
        return content
    if content:
        return [block_dict(block) for block in content]
    text = getattr(response, "text", None)
    return text if isinstance(text, str) else []


def block_dict(block: Any) -> dict[str, Any]:
    """Return a content block as a plain dict, whichever type it has."""
    if isinstance(block, Mapping):
        return dict(block)
    for name in ("model_dump", "to_dict"):
        dump = getattr(block, name, None)
        if callable(dump):
            dumped: dict[str, Any] = dump()
            return dumped
    return {"type": "text", "text": str(block)}


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text") or "") for block in content if block.get("type") == "text")


def checked_usage(response: Any, provider: str) -> dict[str, Any] | None:
    """Return the usage in a response as a plain dict, None when it has none.

    Raises InvalidUsageError when it cannot be counted.
    """
    usage: Any = getattr(response, "usage", None)
    dump = getattr(usage, "model_dump", None)
    if callable(dump):
        # Without pydantic's warnings about wrong types: `usage_fault` finds them.
        usage = dump(warnings=False) if isinstance(usage, BaseModel) else dump()
    elif not isinstance(usage, (*_PLAIN, Mapping, type(None))):
        usage = {name: getattr(usage, name) for name in Usage.model_fields if hasattr(usage, name)} or None
    if (fault := usage_fault(usage, provider)) is not None:
        raise fault
    return None if usage is None else dict(usage)
