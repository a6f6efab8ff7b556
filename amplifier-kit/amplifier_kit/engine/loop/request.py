"""Build a request to a model: which provider, which messages, what hooks inject, which tools."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from amplifier_core.message_models import Message, ToolSpec
from amplifier_core.models import ContextInjection
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

_DEFAULT_PRIORITY: Final = 100


class Choice(NamedTuple):
    """The provider that answers, and whether it is the one that was wanted."""

    name: str
    provider: Any
    is_wanted: bool


def choose_provider(providers: Mapping[str, Any], wanted: str | None = None, *, by_priority: bool = True) -> Choice:
    """Return the wanted provider, else the one of the lowest priority, else the first.

    `wanted` is a mount name or a module id. Raises RuntimeError when no provider is mounted.
    """
    if not providers:
        raise RuntimeError("No provider available: mount at least one provider module")
    if wanted is not None:
        for name in (wanted, wanted.removeprefix("provider-")):
            if name in providers:
                return Choice(name, providers[name], True)
    name = min(providers, key=lambda name: _priority(providers[name])) if by_priority else next(iter(providers))
    return Choice(name, providers[name], wanted is None)


def _priority(provider: Any) -> float:
    config = getattr(provider, "config", None)
    configured = config.get("priority") if isinstance(config, Mapping) else None
    for value in (getattr(provider, "priority", None), configured):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return _DEFAULT_PRIORITY


async def request_view(context: Any, provider: Any, token_budget: int | None = None) -> list[dict[str, Any]]:
    """Return a context's messages for a request as plain dicts, within a token budget when one is given."""
    if hasattr(context, "get_messages_for_request"):
        budget = {} if token_budget is None else {"token_budget": token_budget}
        view = await maybe_await(context.get_messages_for_request(provider=provider, **budget))
    elif hasattr(context, "get_messages"):
        view = await maybe_await(context.get_messages())
    else:
        view = context.messages
    return [message if isinstance(message, dict) else _dump(message) for message in view]


def _dump(message: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = message.model_dump() if hasattr(message, "model_dump") else dict(message)
    return dumped


def inject(messages: Sequence[dict[str, Any]], items: Sequence[ContextInjection]) -> list[dict[str, Any]]:
    """Return new messages with the items added.

    An item with `append_to_last_tool_result` is appended to the last message when that is a tool result; the others
    follow as messages.
    """
    extended = list(messages)
    last = extended[-1] if extended and extended[-1].get("role") == "tool" else None
    for item in items:
        if last is not None and item.append_to_last_tool_result:
            last = extended[len(messages) - 1] = {**last, "content": _append(last.get("content"), item.content)}
        else:
            extended.append({"role": item.role, "content": item.content})
    return extended


def _append(content: Any, text: str) -> Any:
    if isinstance(content, list):
        return [*content, {"type": "text", "text": f"\n\n{text}"}]
    return f"{content or ''}\n\n{text}"


def build_messages(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return messages as providers take them; raise ValueError that names the one that cannot be sent.

    Content that fits no known block is sent as text: one odd block of an old transcript must not end a session.
    """
    return [_build_message(position, message) for position, message in enumerate(messages)]


def _build_message(position: int, message: Mapping[str, Any]) -> Message:
    fields = {**message, "content": ""} if message.get("content") is None else message
    try:
        return Message(**fields)
    except ValidationError as error:
        fault = error
    if isinstance(fields["content"], list | tuple | dict):
        logger.warning("Content of message %d fits no known block and is sent as text: %s", position, fault)
        try:
            return Message(**{**fields, "content": json.dumps(fields["content"], default=str, ensure_ascii=False)})
        except ValidationError as error:
            fault = error
    first = fault.errors()[0]
    where = ".".join(map(str, first["loc"]))
    raise ValueError(
        f"message {position} of the context (role {message.get('role')!r}) cannot be sent to a model: "
        f"{where}: {first['msg']}; correct or remove it"
    ) from fault


def build_tools(tools: Mapping[str, Any]) -> list[ToolSpec] | None:
    """Return the specs of the tools, None without tools.

    Tools go by the names they are mounted under, which is how calls find them. A tool with a `native_tool_spec`, a dict
    with `type`, is passed through for the provider's own use of it.
    """
    return [_build_tool(name, tool) for name, tool in tools.items()] or None


def _build_tool(name: str, tool: Any) -> ToolSpec:
    schema = getattr(tool, "input_schema", None)
    fields: dict[str, Any] = {
        "name": name,
        "description": getattr(tool, "description", None),
        "parameters": schema if isinstance(schema, dict) else {},
    }
    native = getattr(tool, "native_tool_spec", None)
    if isinstance(native, Mapping) and native.get("type"):
        fields |= native
    return ToolSpec(**fields)
