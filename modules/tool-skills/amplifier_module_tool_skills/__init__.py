"""Give the model skills: SKILL.md files whose names it is shown, and whose text it reads when it needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST, SESSION_RESUME, SESSION_START
from amplifier_kit.config import read_config
from amplifier_module_tool_skills.config import SkillsConfig
from amplifier_module_tool_skills.discovery import DISCOVERED, LOADED, SkillsDiscovery
from amplifier_module_tool_skills.tool import LoadSkillTool
from amplifier_module_tool_skills.visibility import NAME, SkillsVisibility

__amplifier_module_type__ = "tool"
CONFIG: Final = SkillsConfig
__all__ = ["CONFIG", "mount"]

EVENTS: Final = (DISCOVERED, LOADED)
CAPABILITY: Final = "skills_discovery"
#: After those who write down that the session starts.
_LATE: Final = 500
_LEGACY_EVENTS: Final = "observability.events"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Find the skills, mount `load_skill`, and return a function that takes the hooks away.

    Raises ConfigError that names every wrong config key. A skill that is wrong never stops a session.
    """
    settings = read_config(SkillsConfig, config, module="tool-skills")
    _announce_events(coordinator)
    discovery = await SkillsDiscovery.start(coordinator, settings)
    coordinator.register_capability(CAPABILITY, discovery)
    tool = LoadSkillTool(discovery)
    await coordinator.mount("tools", tool, name=tool.name)
    register = coordinator.hooks.register
    # Not sooner: a log begins to listen when the session is ready.
    handlers = [
        register(event, discovery.on_start, priority=_LATE, name=NAME) for event in (SESSION_START, SESSION_RESUME)
    ]
    if settings.visibility.enabled:
        visibility = SkillsVisibility(coordinator, settings.visibility, discovery)
        handler, priority = visibility.on_provider_request, settings.visibility.priority
        handlers.append(register(PROVIDER_REQUEST, handler, priority=priority, name=NAME))

    def unregister() -> None:
        for take_away in handlers:
            take_away()

    return unregister


def _announce_events(coordinator: Any) -> None:
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor(_LEGACY_EVENTS, NAME, lambda: list(EVENTS))
        return
    known = coordinator.get_capability(_LEGACY_EVENTS)
    coordinator.register_capability(_LEGACY_EVENTS, [*(known or []), *EVENTS])
