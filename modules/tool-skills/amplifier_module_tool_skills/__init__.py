"""Give the model skills: SKILL.md files whose names it is shown, and whose text it reads when it needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_module_tool_skills._discovery import DISCOVERED, LOADED, SkillsDiscovery
from amplifier_module_tool_skills._settings import Settings
from amplifier_module_tool_skills._tool import LoadSkillTool
from amplifier_module_tool_skills._visibility import NAME, SkillsVisibility

__amplifier_module_type__ = "tool"
__all__ = ["mount", "on_session_ready"]

EVENTS: Final = (DISCOVERED, LOADED)
CAPABILITY: Final = "skills_discovery"
_LEGACY_EVENTS: Final = "observability.events"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Find the skills, mount `load_skill`, and return a function that takes the visibility hook away.

    Raises ValueError that names the config key that is wrong. A skill that is wrong never stops a session.
    """
    settings = Settings.from_config(config)
    _announce_events(coordinator)
    discovery = await SkillsDiscovery.start(coordinator, settings)
    coordinator.register_capability(CAPABILITY, discovery)
    tool = LoadSkillTool(discovery)
    await coordinator.mount("tools", tool, name=tool.name)
    if not settings.visibility.enabled:
        return _nothing
    visibility = SkillsVisibility(coordinator, settings.visibility, discovery)
    taken_away: Callable[[], None] = coordinator.hooks.register(
        "provider:request", visibility.on_provider_request, priority=settings.visibility.priority, name=NAME
    )
    return taken_away


async def on_session_ready(coordinator: Any) -> None:
    """Say which skills there are, now that everybody who listens is there."""
    discovery = coordinator.get_capability(CAPABILITY)
    if isinstance(discovery, SkillsDiscovery):
        await discovery.announce()


def _announce_events(coordinator: Any) -> None:
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor(_LEGACY_EVENTS, NAME, lambda: list(EVENTS))
        return
    known = coordinator.get_capability(_LEGACY_EVENTS)
    coordinator.register_capability(_LEGACY_EVENTS, [*(known or []), *EVENTS])


def _nothing() -> None:
    """Have nothing to take away."""
