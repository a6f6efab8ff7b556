"""Name a session after what it is about, and keep its description current."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROMPT_COMPLETE, SESSION_END
from amplifier_kit.config import read_config
from amplifier_module_hooks_session_naming.config import NamingConfig
from amplifier_module_hooks_session_naming.naming import EVENTS, NAME, SessionNamer

__amplifier_module_type__ = "hook"
CONFIG: Final = NamingConfig
__all__ = ["CONFIG", "mount"]

_PRIORITY: Final = 100


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that unregisters them.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(NamingConfig, config, module=NAME)
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    namer = SessionNamer(coordinator, settings)
    register = coordinator.hooks.register
    registrations = [
        register(PROMPT_COMPLETE, namer.on_prompt_complete, priority=_PRIORITY, name=NAME),
        register(SESSION_END, namer.on_session_end, priority=_PRIORITY, name=NAME),
    ]

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
