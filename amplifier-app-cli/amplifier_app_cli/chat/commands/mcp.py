"""`/mcp`: the MCP servers of the session, and their tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.chat.status import MCP_SERVERS, mcp_connections
from amplifier_app_cli.ui.layout import counted, folded, single_line, table
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.errors import did_you_mean

if TYPE_CHECKING:
    from amplifier_app_cli.chat.conversation import Conversation


_STATES: Final = {
    "new": "not started yet",
    "connecting": "connecting",
    "ready": "connected",
    "waiting": "waiting to try again",
    "failed": "failed",
    "closed": "closed",
}


async def mcp(chat: Conversation, words: str) -> None:
    """Show the servers with their states, or the tools of one server."""
    connections = mcp_connections(chat.coordinator)
    if not connections:
        chat.screen.show("no MCP servers: `amplifier mcp add` adds one")
    elif not words:
        rows = [(name, _state(one), len(_tools(chat, name)), _reason(chat, name)) for name, one in connections.items()]
        chat.screen.show(table(("SERVER", "STATE", "TOOLS", "REASON"), rows, chat.width - 1, whole={"SERVER"}))
    elif words in connections:
        _show(chat, words, connections[words])
    else:
        chat.screen.show(plain(f"no MCP server {words!r}: {did_you_mean(words, list(connections))}"))


def _show(chat: Conversation, name: str, connection: Any) -> None:
    tools = _tools(chat, name)
    reason = _reason(chat, name)
    state = f"{name}: {_state(connection)}, {counted(len(tools), 'tool')}{f': {reason}' if reason else ''}"
    chat.screen.show(folded(plain(state), chat.width - 1))
    if tools:
        rows = [(tool, getattr(mounted, "description", "")) for tool, mounted in sorted(tools.items())]
        chat.screen.show(table(("TOOL", "DESCRIPTION"), rows, chat.width - 1, whole={"TOOL"}))


def _state(connection: Any) -> str:
    return str(_STATES.get(connection.state, connection.state))


def _reason(chat: Conversation, name: str) -> str:
    """Return why a server is not connected, and what to do; empty for one that is."""
    statuses: Iterable[Any] = getattr(chat.coordinator.get_capability(MCP_SERVERS), "statuses", tuple)()
    status = next((one for one in statuses if one.name == name and one.reason), None)
    if status is None:
        return ""
    return single_line(str(chat.scrub(". ".join(filter(None, (status.reason, status.advice))))))


def _tools(chat: Conversation, server: str) -> dict[str, Any]:
    """Return the mounted tools of a server, by name."""
    tools = chat.coordinator.get("tools") or {}
    return {name: tool for name, tool in tools.items() if _server_of(tool) == server}


def _server_of(tool: Any) -> Any:
    metadata = getattr(tool, "get_metadata", None)
    facts = metadata() if callable(metadata) else None
    return facts.get("mcp_server") if isinstance(facts, dict) else None
