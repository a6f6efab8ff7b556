"""Tell a person on their desktop that a turn has ended: through the terminal, or the notifier of the system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_kit.engine.turn_notice import TurnNotifier
from amplifier_module_hooks_notify.config import NotifyConfig
from amplifier_module_hooks_notify.desktop import EVENT, NAME, Desktop

__amplifier_module_type__ = "hook"
CONFIG: Final = NotifyConfig
__all__ = ["CONFIG", "mount"]

_PRIORITY: Final = 100


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that unregisters them.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(NotifyConfig, config, module=NAME)
    coordinator.register_contributor("observability.events", NAME, lambda: [EVENT])
    desktop = Desktop(coordinator, settings)
    notifier = TurnNotifier(
        coordinator, desktop.send, name=NAME, priority=_PRIORITY, min_iterations=settings.min_iterations
    )
    return notifier.unregister
