"""Tell a person on their phone that a turn has ended, through a server that speaks the protocol of ntfy."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.awaitable import plain_result
from amplifier_kit.config import read_config
from amplifier_kit.engine.turn_notice import TurnNotifier
from amplifier_module_hooks_notify_push.push import NAME, TOPIC, Push, PushConfig

__amplifier_module_type__ = "hook"
CONFIG: Final = PushConfig
__all__ = ["CONFIG", "mount"]

logger = logging.getLogger(__name__)

_PRIORITY: Final = 110
#: The capability of an app that knows who configured a module.
_TRUSTED: Final = "plan.is_trusted"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None] | None:
    """Register the handlers and return a function that unregisters them.

    Without a topic, or where a project that is not trusted has had a say in the config, nothing is registered, and the
    log says why. Raises ConfigError that names every wrong config key.
    """
    settings = read_config(PushConfig, config, module=NAME)
    topic = os.environ.get(TOPIC, "").strip()
    if not topic:
        logger.warning("%s: no topic: `amplifier notify ntfy --enable` stores one, or set %s", NAME, TOPIC)
        return None
    ask = coordinator.get_capability(_TRUSTED)
    if ask is not None and plain_result(ask(NAME)) is not True:
        logger.warning("%s: nothing is sent: a project that is not trusted has had a say in the server", NAME)
        return None
    push = Push(settings, topic)
    return TurnNotifier(coordinator, push.send, name=NAME, priority=_PRIORITY).unregister
