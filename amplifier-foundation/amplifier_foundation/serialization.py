"""Turn messages and other values into what JSON can hold, for apps that write transcripts themselves."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

__all__ = ["sanitize_for_json", "sanitize_message"]

#: Stands for a value that is left out.
_OMITTED: Final = object()


def sanitize_for_json(value: Any, *, max_depth: int = 50) -> Any:
    """Return `value` as JSON data that shares no container with it; None for a value that JSON cannot hold.

    Models become mappings. In mappings and lists, None and what JSON cannot hold are left out, as is what lies deeper
    than `max_depth` containers. Transcripts of published programs are written so.
    """
    kept = _kept(value, max_depth)
    return None if kept is _OMITTED else kept


def sanitize_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as it is written to a transcript.

    The text of `thinking_block` is kept as `thinking_text`; the blocks themselves and `content_blocks`, which hold what
    only the provider's library understands, are left out.
    """
    fields = {key: value for key, value in message.items() if key not in ("thinking_block", "content_blocks")}
    thinking = _thinking_text(message.get("thinking_block"))
    if thinking is not None:
        fields.setdefault("thinking_text", thinking)
    sanitized: dict[str, Any] = sanitize_for_json(fields)
    return sanitized


def _thinking_text(block: Any) -> str | None:
    if isinstance(block, Mapping):
        found = block.get("thinking", block.get("text"))
    else:
        found = getattr(block, "thinking", getattr(block, "text", None))
    return found if isinstance(found, str) else None


def _kept(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else _OMITTED
    if depth <= 0:
        return _OMITTED
    if isinstance(value, Mapping):
        kept = ((str(key), _kept(item, depth - 1)) for key, item in value.items())
        return {key: item for key, item in kept if item is not None and item is not _OMITTED}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = (_kept(item, depth - 1) for item in value)
        return [item for item in items if item is not None and item is not _OMITTED]
    for name in ("model_dump", "to_dict"):
        dump = getattr(value, name, None)
        if callable(dump):
            try:
                return _kept(dump(), depth - 1)
            except Exception:  # the next way, or left out: one odd value must not lose the transcript
                continue
    fields = getattr(value, "__dict__", None)
    return _kept(fields, depth - 1) if fields else _OMITTED
