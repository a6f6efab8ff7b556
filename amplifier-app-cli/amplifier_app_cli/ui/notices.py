"""Notices of a session to the user: whether commands are sandboxed, which files and servers the model did not get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: Mentions named in one notice; pasted text may hold any number of words with an @.
_MOST_NAMED: Final = 3
_MCP_SERVERS: Final = "mcp.servers"


class SandboxNotice:
    """Show each `sandbox:status` once; every tool that starts programs emits one.

    Tools find out in the background. While an approval is pending, the notice waits for the answer.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown: set[str] = set()
        self._held: list[str] = []
        #: The open approval requests.
        self._requests: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; call it before the session opens, because modules emit the event then."""
        hooks.register("sandbox:status", self._on_status, priority=950, name="app-sandbox")
        hooks.register("approval:required", self._on_request, priority=950, name="app-sandbox")
        for event in ("approval:granted", "approval:denied", "approval:waiting"):
            hooks.register(event, self._on_answer, priority=950, name="app-sandbox")

    def _on_status(self, event: str, data: dict[str, Any]) -> None:
        text = sandbox_text(data)
        if text not in self._shown:
            self._shown.add(text)
            self._held.append(text)
            self._show_held()

    def _on_request(self, event: str, data: dict[str, Any]) -> None:
        self._requests.add(_request_id(data))

    def _on_answer(self, event: str, data: dict[str, Any]) -> None:
        self._requests.discard(_request_id(data))
        self._show_held()

    def _show_held(self) -> None:
        while self._held and not self._requests:
            self._show(self._held.pop(0))


def _request_id(data: dict[str, Any]) -> str:
    """Return the id of a request; those of published modules have none, but name the tool."""
    return str(data.get("approval_id") or data.get("tool_name"))


def sandbox_text(data: dict[str, Any]) -> str:
    """Return the notice of a `sandbox:status`: its summary, else a text made of its fields."""
    summary, reason = data.get("summary"), data.get("reason")
    if isinstance(summary, str) and summary:
        return summary
    if data.get("status") == "active":
        network = "the host's network" if data.get("network") else "no network"
        more = f"; {reason}" if reason else ""
        return f"sandbox: on ({data.get('backend')}): writes only to the project, {network}{more}"
    free = "commands can do whatever you can"
    if data.get("status") == "off":
        return f"sandbox: OFF: {free}"
    refused = "commands are refused" if data.get("mode") == "required" else free
    return f"sandbox: NOT AVAILABLE, {refused}: {reason}"


class MentionNotice:
    """Show which files of a prompt were not found or were denied (`mentions:resolved`).

    A denied file that instructions or bundles mention is shown once per session.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown: set[tuple[str, str]] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session."""
        hooks.register("mentions:resolved", self._on_resolved, priority=950, name="app-mentions")

    def _on_resolved(self, event: str, data: dict[str, Any]) -> None:
        failed = [one for one in data.get("failed") or () if one.get("in_prompt") or self._is_new_denial(one)]
        if not failed:
            return
        named = "; ".join(f"{one.get('mention')}: {one.get('reason')}" for one in failed[:_MOST_NAMED])
        more = f"; and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
        self._show(f"note: not given to the model: {named}{more}")

    def _is_new_denial(self, failure: dict[str, Any]) -> bool:
        key = (str(failure.get("mention")), str(failure.get("reason")))
        if "decided_by" not in failure or key in self._shown:
            return False
        self._shown.add(key)
        return True


class McpServerNotice:
    """Know which MCP servers had not connected before the answer was complete."""

    def __init__(self) -> None:
        self._connected: set[str] = set()
        self._missing: tuple[str, ...] = ()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; call it before the session opens, because servers connect in the background."""
        hooks.register("mcp:connected", self._on_connected, priority=950, name="app-mcp")

    def check(self, coordinator: Any) -> None:
        """Record which servers are missing now: the answer is complete, and the session still open."""
        servers = coordinator.get_capability(_MCP_SERVERS)
        # Another module may register something else under that name.
        connections = getattr(servers, "connections", None)
        if isinstance(connections, dict):
            self._missing = tuple(str(name) for name, one in connections.items() if self._is_missing(str(name), one))

    def notes(self) -> list[str]:
        """Return a line for each missing server."""
        return [
            f"note: the MCP server {name} did not connect before the answer was complete; its tools were not used "
            '(with "required": true the session waits for it)'
            for name in self._missing
        ]

    def _on_connected(self, event: str, data: dict[str, Any]) -> None:
        self._connected.add(str(data.get("server")))

    def _is_missing(self, name: str, connection: Any) -> bool:
        is_required = getattr(getattr(connection, "spec", None), "required", False) is True
        is_connected = name in self._connected or getattr(connection, "state", None) == "ready"
        return not is_required and not is_connected


class RequiredServers:
    """Know which MCP servers that the session requires are missing: no request is sent without them."""

    def __init__(self) -> None:
        self.missing: set[str] = set()

    def connect(self, hooks: Any) -> None:
        """Listen to a session; call it before the session opens, because servers connect in the background."""
        hooks.register("mcp:connected", self._on_connected, priority=950, name="app-mcp-required")
        hooks.register("mcp:failed", self._on_failed, priority=950, name="app-mcp-required")

    def _on_connected(self, event: str, data: dict[str, Any]) -> None:
        self.missing.discard(str(data.get("server")))

    def _on_failed(self, event: str, data: dict[str, Any]) -> None:
        if data.get("required") is True:
            self.missing.add(str(data.get("server")))
