"""Know which MCP servers were not there in time for an answer."""

from __future__ import annotations

from typing import Any, Final

_CAPABILITY: Final = "mcp.servers"


class AbsentServers:
    """Listen for servers that connect; those that never do, and that nobody waits for, are told at the end."""

    def __init__(self) -> None:
        self._connected: set[str] = set()
        #: The servers that were not there when the answer was.
        self.names: tuple[str, ...] = ()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; before it is brought up, since servers connect in the background."""
        hooks.register("mcp:connected", self._on_connected, priority=950, name="app-mcp")

    def look(self, coordinator: Any) -> None:
        """Note who is missing now: an answer is there, and the session still open."""
        servers = coordinator.get_capability(_CAPABILITY)
        # Another module may offer something else by that name: then there is nothing to tell.
        connections = getattr(servers, "connections", None)
        if isinstance(connections, dict):
            self.names = tuple(str(name) for name, one in connections.items() if self._is_missed(str(name), one))

    def notes(self) -> list[str]:
        """Return a line for each server that was missing."""
        return [
            f"note: the MCP server {name} was not there before the answer; its tools were not used "
            '("required": true waits for it)'
            for name in self.names
        ]

    def _on_connected(self, event: str, data: dict[str, Any]) -> None:
        self._connected.add(str(data.get("server")))

    def _is_missed(self, name: str, connection: Any) -> bool:
        is_required = getattr(getattr(connection, "spec", None), "required", False) is True
        is_there = name in self._connected or getattr(connection, "state", None) == "ready"
        return not is_required and not is_there
