"""Fetch pages of the web for the model, and search it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from amplifier_kit.config import ConfigError, ConfigProblem, read_config
from amplifier_kit.engine.current_call import TOOL_PROGRESS
from amplifier_kit.guard.files.workspace import FileAccess, FileConfig
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.fetch import WebFetchTool
from amplifier_module_tool_web.search import CAPABILITY, WebSearchTool

if TYPE_CHECKING:
    from amplifier_module_tool_web.client import Client

__all__ = ["CONFIG", "WebFetchTool", "WebSearchTool", "mount", "on_session_ready"]

__amplifier_module_type__ = "tool"
CONFIG: Final = WebConfig

logger = logging.getLogger(__name__)

#: Where the search tool waits for on_session_ready(), when every module that may bring an engine is mounted.
_WAITING: Final = "tool-web._search"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount `web_fetch`, and `web_search` as soon as all modules are mounted; return what closes all connections.

    Raises ConfigError that names every wrong config key, ValueError when the session's working directory is no path.
    """
    settings = read_config(WebConfig, config, module="tool-web")
    access = _file_access(settings, coordinator)
    domains = Domains(settings.allowed_domains, settings.blocked_domains)

    @cache
    def client() -> Client:
        from amplifier_kit.guard.ssrf import Guard
        from amplifier_module_tool_web.client import Client

        return Client(Guard(settings.private_hosts, refuse=domains.is_refused))

    async def close() -> None:
        if client.cache_info().currsize:
            await client().aclose()

    fetch = WebFetchTool(coordinator, settings, access, domains, client)
    await coordinator.mount("tools", fetch, name=fetch.name)
    coordinator.register_contributor("observability.events", "tool-web", lambda: [TOOL_PROGRESS])
    coordinator.register_capability(_WAITING, WebSearchTool(coordinator, settings, domains, client))
    if coordinator.get_capability(CAPABILITY) is not None:
        await on_session_ready(coordinator)
    return close


async def on_session_ready(coordinator: Any) -> None:
    """Mount `web_search` if it can work: with an engine that another module registered, else with one of its own."""
    search = coordinator.get_capability(_WAITING)
    if search is None:
        return
    problem = search.choose_engine()
    if problem:
        logger.warning("tool-web: web_search is not mounted: %s", problem)
    if coordinator.get_capability(CAPABILITY) is None:
        return
    coordinator.register_capability(_WAITING, None)
    await coordinator.mount("tools", search, name=search.name)


def _file_access(settings: WebConfig, coordinator: Any) -> FileAccess:
    access = FileAccess.of(FileConfig(working_dir=settings.working_dir), coordinator)
    if settings.working_dir is not None and access.working_dir.exists() and not access.working_dir.is_dir():
        text = f"config key 'working_dir' must be a folder, got the file {str(access.working_dir)!r}"
        raise ConfigError("tool-web", [ConfigProblem(("working_dir",), text)])
    return access
