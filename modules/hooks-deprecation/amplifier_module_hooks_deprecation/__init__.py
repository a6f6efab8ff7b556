"""Tell a person that a bundle is deprecated, once per session, and what to use in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import SESSION_RESUME, SESSION_START
from amplifier_kit.config import read_config
from amplifier_module_hooks_deprecation.config import DeprecationConfig
from amplifier_module_hooks_deprecation.notice import EVENT, NAME, DeprecationNotice

__amplifier_module_type__ = "hook"
CONFIG: Final = DeprecationConfig
__all__ = ["CONFIG", "mount"]

_PRIORITY: Final = 10


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that unregisters them.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(DeprecationConfig, config, module=NAME)
    coordinator.register_contributor("observability.events", NAME, lambda: [EVENT])
    notice = DeprecationNotice(coordinator, settings.all())
    register = coordinator.hooks.register
    registrations = [
        register(event, notice.on_session_start, priority=_PRIORITY, name=NAME)
        for event in (SESSION_START, SESSION_RESUME)
    ]

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
