"""Run shell hooks on the events of a session: they read the event as JSON, and may block or change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_core.events import PROVIDER_REQUEST
from amplifier_kit.config import read_config
from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.hook_events import HEARD, HOOK_EVENTS
from amplifier_module_hook_shell.reports import EVENTS, NAME
from amplifier_module_hook_shell.session_hooks import CAPABILITY
from amplifier_module_hook_shell.shell_hooks import ShellHooks

__amplifier_module_type__ = "hook"
CONFIG: Final = ShellHooksConfig
__all__ = ["CONFIG", "mount"]

_GATES: Final = frozenset(
    event for hook_event in HOOK_EVENTS.values() if hook_event.is_gate for event in hook_event.events
)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register the handlers and return a function that takes them away; no file is read before the first event.

    Raises ConfigError that names every wrong config key.
    """
    settings = read_config(ShellHooksConfig, config, module="hook-shell")
    hooks = ShellHooks(coordinator, settings, config)
    if coordinator.get_capability(CAPABILITY) is None:
        coordinator.register_capability(CAPABILITY, hooks.session_hooks)
    coordinator.register_contributor("observability.events", NAME, lambda: list(EVENTS))
    taken = [_registered(coordinator, event, hooks, settings.priority) for event in HEARD]
    register = coordinator.hooks.register
    taken.append(
        register(PROVIDER_REQUEST, hooks.notes.on_provider_request, priority=settings.priority, name=f"{NAME}-context")
    )
    if hasattr(coordinator, "register_policy"):
        taken.append(coordinator.register_policy(NAME, hooks.policy))

    def take_away() -> None:
        for unregister in taken:
            unregister()
        if coordinator.get_capability(CAPABILITY) is hooks.session_hooks:
            coordinator.register_capability(CAPABILITY, None)
        hooks.close()

    return take_away


def _registered(coordinator: Any, event: str, hooks: ShellHooks, priority: int) -> Callable[[], None]:
    # Where something waits for the answer, a fault of our own must not pass as consent either.
    is_gate = event in _GATES and kernel_has_policies()  # the published kernel has no gates
    gate = {"on_error": "deny"} if is_gate else {}
    unregister: Callable[[], None] = coordinator.hooks.register(
        event, hooks.on_event, priority=priority, name=NAME, **gate
    )
    return unregister
