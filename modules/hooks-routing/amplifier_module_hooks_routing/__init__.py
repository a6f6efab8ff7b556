"""Choose models by role: a matrix says which fit, and the providers of the session which are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST, SESSION_RESUME, SESSION_START
from amplifier_kit.config import read_config
from amplifier_kit.engine.routing.resolver import CAPABILITY, RoleResolver
from amplifier_module_hooks_routing.config import RoutingConfig
from amplifier_module_hooks_routing.routing import NAME, Routing

__amplifier_module_type__ = "hook"
CONFIG: Final = RoutingConfig
__all__ = ["CONFIG", "mount"]

_START_PRIORITY: Final = 5
_REQUEST_PRIORITY: Final = 15


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the resolver and the handlers, and return a function that unregisters the handlers.

    Raises ConfigError that names every wrong config key. A matrix that is wrong or missing is logged, and then no role
    is known: a role is only a wish.
    """
    settings = read_config(RoutingConfig, config, module=NAME)
    routing = Routing(coordinator, settings)
    resolver = RoleResolver(coordinator, lambda: routing.roles, routing.candidates, NAME)
    routing.resolver = resolver
    coordinator.register_capability(CAPABILITY, resolver)
    register = coordinator.hooks.register
    registrations = [
        *(
            register(event, routing.on_session_start, priority=_START_PRIORITY, name=NAME)
            for event in (SESSION_START, SESSION_RESUME)
        ),
        register(PROVIDER_REQUEST, routing.on_provider_request, priority=_REQUEST_PRIORITY, name=NAME),
    ]

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
