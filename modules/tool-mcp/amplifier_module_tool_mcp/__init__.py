"""Give the model the tools, resources and prompts of MCP servers.

`mount()` reads the config and mounts what the servers offered last time. `on_session_ready()` starts to connect them in
the background. Apps find `servers.Servers` as the capability `mcp.servers`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal

from amplifier_core.events import PROMPT_SUBMIT, PROVIDER_REQUEST, SESSION_END, SESSION_RESUME, SESSION_START
from amplifier_kit.config import read_config
from amplifier_kit.home import amplifier_home
from amplifier_module_tool_mcp.config import McpConfig
from amplifier_module_tool_mcp.events import EVENTS
from amplifier_module_tool_mcp.server_files import find_servers

__amplifier_module_type__ = "tool"
CONFIG: Final = McpConfig
__all__ = ["CONFIG", "mount", "on_session_ready"]

#: The capability with the servers of a session.
CAPABILITY: Final = "mcp.servers"
#: The event of an app that the session may do more, or less, from now on.
_MODE_CHANGED: Final = "policy:mode_changed"
#: Before handlers that add to a request: a denied one needs no additions.
_GATE_PRIORITY: Final = 5
#: Before the log records the event.
_BEFORE_LOG: Final = -1000


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Find the servers, mount their cached tools, and return the cleanup function.

    Raises ValueError for an invalid config of the module; a file that cannot be used is an event.
    """
    settings = read_config(McpConfig, config, module="tool-mcp")
    home = Path(coordinator.get_capability("amplifier.home") or amplifier_home())
    folder = coordinator.get_capability("session.working_dir")
    project = Path(folder) if folder else None
    found = find_servers(
        settings.servers,
        home=home,
        project=project,
        is_trusted=coordinator.get_capability("project.is_trusted"),
        is_inline_trusted=coordinator.get_capability("plan.is_trusted"),
    )
    coordinator.register_contributor("observability.events", "tool-mcp", lambda: list(EVENTS))
    if not found.servers and not found.ignored:
        return _nothing
    from amplifier_module_tool_mcp.servers import Servers

    servers = Servers(coordinator, settings, found, home=home, project=project)
    coordinator.register_capability(CAPABILITY, servers)
    for event in (SESSION_START, SESSION_RESUME):
        coordinator.hooks.register(event, servers.on_session, name="tool-mcp-audience")
    coordinator.hooks.register(_MODE_CHANGED, servers.on_mode, name="tool-mcp-mode")
    coordinator.hooks.register(PROMPT_SUBMIT, servers.on_prompt, name="tool-mcp-head-start")
    coordinator.hooks.register(SESSION_END, servers.on_session_end, priority=_BEFORE_LOG, name="tool-mcp-end")
    # A session that requires a server sends no request without it; the wait is bounded by the server's own deadline.
    on_error: Literal["continue", "deny"] = "deny" if servers.has_required() else "continue"
    coordinator.hooks.register(
        PROVIDER_REQUEST, servers.on_request, priority=_GATE_PRIORITY, name="tool-mcp", on_error=on_error, timeout=None
    )
    if servers.connections and settings.visibility.enabled:
        priority = settings.visibility.priority
        coordinator.hooks.register(
            PROVIDER_REQUEST, servers.on_visibility, priority=priority, name="tool-mcp-visibility"
        )
    await servers.mount_cached()
    return servers.close


async def on_session_ready(coordinator: Any) -> None:
    """Start to connect the servers."""
    servers = coordinator.get_capability(CAPABILITY)
    if servers is not None:
        await servers.start()


async def _nothing() -> None:
    """Clean up nothing."""
