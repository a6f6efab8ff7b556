"""Give a session modes: which tools may run for a while, and the guidance that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST, TOOL_PRE
from amplifier_kit.config import read_config
from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_kit.modes import ACTIVATED, CHANGED, CLEARED, DISCOVERY, HOOKS
from amplifier_module_hooks_mode.config import ModeConfig
from amplifier_module_hooks_mode.discovery import ModeDiscovery
from amplifier_module_hooks_mode.enforcement import LIVE, OWN_EVENTS, ModeHooks

__amplifier_module_type__ = "hook"
CONFIG: Final = ModeConfig
__all__ = ["CONFIG", "mount"]

NAME: Final = "hooks-mode"
_REQUEST_PRIORITY: Final = 10
#: Before hooks-approval asks.
_TOOL_PRIORITY: Final = -20


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and put discovery and hooks into the state of the session; return what unregisters them.

    Raises ConfigError that names every wrong config key. A mode file that is wrong never stops a session.
    """
    settings = read_config(ModeConfig, config, module=NAME)
    discovery = ModeDiscovery(coordinator, settings.search_paths)
    # Registered by the app in a child, before its modules are mounted.
    hooks = ModeHooks(coordinator, discovery, settings.infrastructure_tools, coordinator.get_capability(LIVE))
    state = coordinator.session_state
    state[DISCOVERY], state[HOOKS] = discovery, hooks
    state.setdefault("active_mode", None)
    coordinator.register_capability(LIVE, hooks.modes)
    events = (ACTIVATED, CHANGED, CLEARED, *OWN_EVENTS)
    coordinator.register_contributor("observability.events", NAME, lambda: list(events))
    gate = {"on_error": "deny"} if kernel_has_policies() else {}  # the published kernel has no gates
    register = coordinator.hooks.register
    registrations = [
        register(PROVIDER_REQUEST, hooks.on_provider_request, priority=_REQUEST_PRIORITY, name=NAME),
        register(TOOL_PRE, hooks.on_tool_pre, priority=_TOOL_PRIORITY, name=NAME, **gate),
        *(register(event, hooks.on_transition, name=NAME) for event in (ACTIVATED, CHANGED, CLEARED)),
    ]
    if hasattr(coordinator, "register_policy"):
        registrations.append(coordinator.register_policy(NAME, hooks.policy, _TOOL_PRIORITY))

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all
