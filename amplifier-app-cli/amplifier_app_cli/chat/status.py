"""The status line of a chat: what a turn is doing and what it waits for, or between turns what the session may do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from amplifier_app_cli.chat.screen import Screen
from amplifier_app_cli.ui.layout import columns, one_line, single_line
from amplifier_app_cli.ui.notices import Retry, in_seconds, seconds_of

#: Before hooks that may wait, such as for MCP servers, and after all of them.
_BEFORE: Final = -2000
_AFTER: Final = 950
MCP_SERVERS: Final = "mcp.servers"
#: States of a connection in which a server may still come.
_CONNECTING: Final = ("new", "connecting", "waiting")


class TurnStatus:
    """Know what the model of a session is waited for, and why."""

    def __init__(self, screen: Screen, scrub: Callable[[Any], Any], coordinator: Any) -> None:
        self._screen = screen
        self._scrub = scrub
        self._coordinator = coordinator
        self._text = ""
        #: When the wait ends whose end is known.
        self._until: float | None = None
        #: Whether hooks may be holding a request back.
        self._is_in_hooks = False

    def connect(self) -> None:
        """Listen to the session."""
        hooks = self._coordinator.hooks
        for event, handler in {
            "provider:retry": self._on_retry,
            "provider:throttle": self._on_throttle,
            "provider:concurrency": self._on_concurrency,
            "orchestrator:rate_limit_delay": self._on_delay,
            "context:pre_compact": self._on_compaction,
            "llm:request": self._on_request,
            "llm:response": self._on_answer,
            "llm:stream_block_start": self._on_answer,
            "tool:pre": self._on_answer,
        }.items():
            hooks.register(event, handler, priority=_AFTER, name="app-status")
        hooks.register("provider:request", self._on_hooks, priority=_BEFORE, name="app-status-first")
        hooks.register("provider:request", self._on_request, priority=_AFTER, name="app-status")

    def clear(self) -> None:
        """Forget what a turn waited for."""
        self._set("")

    @property
    def text(self) -> str:
        """Return what is waited for and why; empty when nothing is."""
        servers = connecting_servers(self._coordinator) if self._is_in_hooks else []
        if servers := [name for name in servers if self._is_required(name)] or servers:
            return f"waiting for MCP servers: {', '.join(servers)}"
        if self._until is None:
            return self._text
        left = self._until - time.monotonic()
        return self._text.replace("{}", in_seconds(left) if left > 0 else "now")

    def _is_required(self, server: str) -> bool:
        spec = getattr(mcp_connections(self._coordinator)[server], "spec", None)
        return getattr(spec, "required", False) is True

    def _set(self, text: str, seconds: float | None = None) -> None:
        self._is_in_hooks = False
        self._text = single_line(str(self._scrub(text)))
        self._until = None if seconds is None else time.monotonic() + seconds
        if self._screen.has_live_part:
            self._screen.refresh()
        elif self._text and seconds is not None:
            self._screen.show(self._text.replace("{}", in_seconds(seconds)))

    def _on_hooks(self, event: str, data: dict[str, Any]) -> None:
        self._set("")
        self._is_in_hooks = True

    def _on_request(self, event: str, data: dict[str, Any]) -> None:
        self._set("waiting for the model")

    def _on_answer(self, event: str, data: dict[str, Any]) -> None:
        self._set("")

    def _on_retry(self, event: str, data: dict[str, Any]) -> None:
        retry = Retry.of(data)
        # Braces in a message must not be taken for the place of the time.
        self._set(f"{retry.which} {{}}: {retry.reason.replace('{}', '{ }')}", retry.delay)

    def _on_throttle(self, event: str, data: dict[str, Any]) -> None:
        what = f"{data.get('remaining')} of {data.get('limit')} {data.get('dimension') or 'requests'} left"
        self._set(f"the rate limit is nearly used up ({what}): asking the model {{}}", seconds_of(data.get("delay")))

    def _on_delay(self, event: str, data: dict[str, Any]) -> None:
        self._set("pause between requests: asking the model {}", seconds_of(data.get("delay_ms")) / 1000)

    def _on_concurrency(self, event: str, data: dict[str, Any]) -> None:
        self._set(f"waiting for {data.get('active_requests') or 'other'} other requests to this provider")

    def _on_compaction(self, event: str, data: dict[str, Any]) -> None:
        self._set("making the context smaller")


def connecting_servers(coordinator: Any) -> list[str]:
    """Return the names of the MCP servers that are being connected."""
    return [name for name, connection in mcp_connections(coordinator).items() if connection.state in _CONNECTING]


def mcp_connections(coordinator: Any) -> dict[str, Any]:
    """Return the connections of the MCP servers by name; empty without the module."""
    connections = getattr(coordinator.get_capability(MCP_SERVERS), "connections", None)
    if not isinstance(connections, dict):  # another module may register something else under that name
        return {}
    return {str(name): one for name, one in connections.items() if isinstance(getattr(one, "state", None), str)}


def joined(parts: list[str], width: int) -> str:
    """Return the parts of a status line as far as they fit: the first and the last ones stay longest."""
    parts = [part for part in parts if part]
    while len(parts) > 1 and columns(" · ".join(parts)) > width:
        del parts[1 if len(parts) > 2 else 0]
    return one_line(" · ".join(parts), width)
