"""Parse one message of a server, tolerating common mistakes of senders."""

from __future__ import annotations

import json
from typing import Any, Final

#: What the protocol calls a message that cannot be understood.
_NOT_UNDERSTOOD: Final = -32700


def read_message(line: bytes) -> Any:
    """Return a message as the SDK expects it; raise ValueError for a line that is not a message.

    Lone surrogates, which programs produce that truncate text by UTF-16 units, are replaced. A response that does not
    follow the protocol, or is nested too deeply to be parsed, becomes an error response to the request with its id, so
    that the request fails at once instead of timing out.
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
    """Parse a line leniently; raise ValueError when it is not a JSON object, or nested too deeply even for that."""
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
