"""Read one message of a server, also where its sender was careless with it."""

from __future__ import annotations

import json
from typing import Any, Final

#: What the protocol calls a message that cannot be understood.
_NOT_UNDERSTOOD: Final = -32700


def read_message(line: bytes) -> Any:
    """Return a message as the SDK takes it; raises ValueError for a line that is none.

    Half a surrogate pair, which programs leave that cut a text at so many characters, is replaced. An answer that is
    not of the protocol's form, or is nested too deeply to be read, becomes the error that whoever asked is told, so
    that nobody waits for it.
    """
    import mcp_types
    from mcp.shared.message import SessionMessage

    adapter = mcp_types.jsonrpc_message_adapter
    try:
        return SessionMessage(adapter.validate_json(line, by_name=False))
    except ValueError:
        message = _careless(line)
    try:
        return SessionMessage(adapter.validate_python(message, by_name=False))
    except ValueError:
        identity = message.get("id")
        if "method" in message or isinstance(identity, bool) or not isinstance(identity, int | str):
            raise
    error = {"code": _NOT_UNDERSTOOD, "message": "its answer is not of the form that the protocol wants"}
    return SessionMessage(adapter.validate_python({"jsonrpc": "2.0", "id": identity, "error": error}, by_name=False))


def _careless(line: bytes) -> dict[str, Any]:
    """Read a line with a reader that takes more; raises ValueError for what is no object, or too deep for it, too."""
    try:
        message = json.loads(line.decode("utf-8", "replace"), object_hook=_whole, parse_constant=lambda name: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("no object")
    return message


def _whole(found: dict[str, Any]) -> dict[str, Any]:
    return {_text(key): _text(value) for key, value in found.items()}


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return [_text(each) for each in value] if isinstance(value, list) else value
