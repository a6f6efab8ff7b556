"""Read what a provider answered: text, blocks and tool calls, whatever shape it came in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from amplifier_core.message_models import Usage
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.pairing import rename_calls, tool_call_ids, tool_call_names
from amplifier_kit.engine.usage import InvalidUsageError, UsageValueError, check_usage

__all__ = ["Call", "Reply", "block_dict", "checked_usage", "read_reply"]

#: Values that say nothing of tokens; objects of a module's own may.
_PLAIN = (str, bytes, bool, int, float, list, tuple, set)


class Call(NamedTuple):
    """One tool call: which tool, with which arguments; `problem` says why it cannot run."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None


class Reply(NamedTuple):
    """One answer of a model: its text, the message to keep (None when it says nothing), and its calls in order."""

    text: str
    message: dict[str, Any] | None
    calls: list[Call]


async def read_reply(provider: Any, response: Any, taken: Iterable[str], *, keep_thinking: bool = False) -> Reply:
    """Read a response; call ids are made to differ from each other and from those in `taken`.

    With `keep_thinking`, the message also carries its first thinking block under `thinking_block`.
    """
    calls = [_call(entry) for entry in await _entries(provider, response)]
    content = _content(response)
    text = _text(content)
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
    calls = _matched(message, calls)
    return Reply(text, message if content or calls else None, calls)


def _matched(message: dict[str, Any], calls: list[Call]) -> list[Call]:
    """Return one call per id that the message holds: those that were read, then those only a block speaks of."""
    ids = tool_call_ids(message)
    known = [call._replace(id=call_id) for call, call_id in zip(calls, ids, strict=False)]
    names = tool_call_names(message)
    unread = "the provider could not read this call"
    return known + [Call(call_id, names[call_id], {}, unread) for call_id in ids[len(calls) :]]


async def _entries(provider: Any, response: Any) -> list[Any]:
    parse = getattr(provider, "parse_tool_calls", None)
    parsed = await maybe_await(parse(response)) if callable(parse) else getattr(response, "tool_calls", None)
    return list(parsed or [])


def _call(entry: Any) -> Call:
    def given(*names: str) -> Any:
        for name in names:
            value = entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
            if value is not None:
                return value
        return None

    arguments, problem = _arguments(given("arguments", "input"))
    return Call(str(given("id") or ""), str(given("name", "tool") or ""), arguments, problem)


def _arguments(given: Any) -> tuple[dict[str, Any], str | None]:
    if isinstance(given, str) and given.strip():
        try:
            given = json.loads(given)
        except ValueError as error:
            return {}, f"its arguments are no valid JSON: {error}"
    if given is None or given == "":
        return {}, None
    if isinstance(given, Mapping):
        return dict(given), None
    return {}, f"its arguments must be an object, got {type(given).__name__}"


def _content(response: Any) -> str | list[dict[str, Any]]:
    content = response if isinstance(response, str) else getattr(response, "content", None)
    if isinstance(content, str):
        return content
    if content:
        return [block_dict(block) for block in content]
    text = getattr(response, "text", None)
    return text if isinstance(text, str) else []


def block_dict(block: Any) -> dict[str, Any]:
    """Return a content block as a plain dict, whichever kind of object it is."""
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
    """Return what an answer used as a plain dict, None when it does not say.

    Raises InvalidUsageError when that cannot be counted.
    """
    try:
        usage = _usage_dict(response)
    except UsageValueError as error:
        raise InvalidUsageError(error.field, error.value, provider=provider) from error
    check_usage(usage, provider)
    return usage


def _usage_dict(response: Any) -> dict[str, Any] | None:
    """Return what an answer used as a plain dict, None when it does not say.

    Raises UsageValueError for what is no usage at all.
    """
    usage = getattr(response, "usage", None)
    if usage is None:
        return None
    if isinstance(usage, Mapping):
        return dict(usage)
    dump = getattr(usage, "model_dump", None)
    if callable(dump):
        # Of values that are not what the model says, pydantic would warn; `check_usage` refuses them.
        dumped: dict[str, Any] = dump(warnings=False) if isinstance(usage, BaseModel) else dump()
        return dumped
    if isinstance(usage, _PLAIN):
        raise UsageValueError("usage", usage)
    return {name: getattr(usage, name) for name in Usage.model_fields if hasattr(usage, name)} or None
