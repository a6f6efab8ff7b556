"""Fetch pages of the web for the model, and search it where the session has an engine for that."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.fetch import WebFetchTool
from amplifier_module_tool_web.progress import EVENT
from amplifier_module_tool_web.search import CAPABILITY, WebSearchTool

__all__ = ["CONFIG", "WebFetchTool", "WebSearchTool", "mount", "on_session_ready"]

__amplifier_module_type__ = "tool"
CONFIG: Final = WebConfig

logger = logging.getLogger(__name__)

#: Where the search tool waits for on_session_ready(), when every module that may bring an engine is mounted.
_WAITING: Final = "tool-web._search"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount `web_fetch`, and `web_search` as soon as there is an engine; return what closes all connections.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(WebConfig, config, module="tool-web")
    domains = Domains(settings.allowed_domains, settings.blocked_domains)
    fetch = WebFetchTool(coordinator, settings, domains)
    await coordinator.mount("tools", fetch, name=fetch.name)
    coordinator.register_contributor("observability.events", "tool-web", lambda: [EVENT])
    coordinator.register_capability(_WAITING, WebSearchTool(coordinator, settings))
    if coordinator.get_capability(CAPABILITY) is not None:
        await on_session_ready(coordinator)
    return fetch.close


async def on_session_ready(coordinator: Any) -> None:
    """Mount `web_search` if the session has an engine: a tool that cannot work is not shown to the model."""
    search = coordinator.get_capability(_WAITING)
    if search is None:
        return
    if coordinator.get_capability(CAPABILITY) is None:
        logger.info("tool-web: web_search is not mounted: nothing provides the capability %r", CAPABILITY)
        return
    coordinator.register_capability(_WAITING, None)
    await coordinator.mount("tools", search, name=search.name)
