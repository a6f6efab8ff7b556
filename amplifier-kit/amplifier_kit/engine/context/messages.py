"""Normalize messages for the ledger: an independent copy, well formed, timestamped, of bounded size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from amplifier_kit.engine.context.shorten import clip_content

__all__ = ["Message", "normalize_message"]

Message = dict[str, Any]

_ATOMS: Final = frozenset((int, float, bool, type(None)))


def normalize_message(message: Any, *, stamp: bool, max_tool_result_bytes: int) -> Message:
    """Return a copy of `message` that shares no container with it, ready for the ledger.

    The content becomes text or a list of blocks, lone surrogates become U+FFFD, the text of a tool result is clipped
    to `max_tool_result_bytes`, and with `stamp` the metadata says when this was, unless it already does. Raises
    TypeError for what is no mapping and ValueError for a message without a role or one that contains itself.
    """
    try:
        owned = _own(message)
    except RecursionError as error:
        raise ValueError("A message that contains itself cannot be kept in a context") from error
    if not isinstance(owned, dict):
        raise TypeError(f"A message must be a dict with 'role' and 'content', got {type(message).__name__}")
    role = owned.get("role")
    if not isinstance(role, str) or not role:
        raise ValueError(f"A message needs a 'role' that is a non-empty string, got {role!r}; keys: {sorted(owned)}")
    owned["content"] = _content(owned.get("content"))
    if role == "tool":
        owned["content"] = clip_content(owned["content"], max_tool_result_bytes)
    if stamp:
        metadata = owned.get("metadata")
        owned["metadata"] = metadata = metadata if isinstance(metadata, dict) else {}
        if not metadata.get("timestamp"):
            metadata["timestamp"] = datetime.now(UTC).isoformat(timespec="milliseconds")
    return owned


def _content(content: Any) -> str | list[Any]:
    if isinstance(content, (str, list)):
        return content
    if content is None:  # as some providers write an assistant message that only calls tools
        return ""
    return json.dumps(content, ensure_ascii=False, default=str)


def _own(value: Any) -> Any:
    """Copy containers all the way down, and turn models and texts of other kinds into plain ones."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key if type(key) is str and key.isascii() else _key(key): _own(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_own(item) for item in value]
    return _own_other(value)


def _own_other(value: Any) -> Any:
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, Mapping):
        return _own(dict(value))
    if isinstance(value, (list, tuple)):
        return _own(list(value))
    dump = getattr(value, "model_dump", None)
    return _own(dump(exclude_none=True)) if callable(dump) else value


def _key(key: Any) -> str:
    return _text(key if isinstance(key, str) else str(key))


def _text(text: str) -> str:
    """Replace lone surrogates, which no request and no file could carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    return str(text)
