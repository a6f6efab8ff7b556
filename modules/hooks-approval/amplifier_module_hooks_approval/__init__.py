"""Ask before tools run, by rules: deny is absolute, ask is a floor, and anything but a clear yes is a no."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED, TOOL_PRE
from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_module_hooks_approval.config import ApprovalConfig
from amplifier_module_hooks_approval.gate import NAME, ToolGate
from amplifier_module_hooks_approval.policy import MODULE, ApprovalPolicy
from amplifier_module_hooks_approval.provider import ProviderClient
from amplifier_module_hooks_approval.rules import read_rules

__amplifier_module_type__ = "hook"
CONFIG: Final = ApprovalConfig
__all__ = ["CONFIG", "mount"]

logger = logging.getLogger(__name__)

REGISTER_PROVIDER: Final = "approval.register_provider"
RULES: Final = "approval.rules"
#: Lets an app know that an action is asked about each time, so that it does not offer to remember the answer.
ASKS_EACH_TIME: Final = "approval.asks_each_time"
#: Lets tools know which paths they must not show; an app with its own rules has registered it already.
HIDDEN: Final = "policy.hidden"
PRIORITY: Final = -10
#: After hooks that modify the input.
_LAST: Final = 10_000


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register policy, gate and capabilities, and return a function that unregisters them.

    Never raises because of the config: invalid values are logged and read in the strictest way.
    """
    settings, wrong = ApprovalConfig.from_config(config)
    rules, problems, failure = _read(settings)
    for problem in (*wrong, *problems):
        logger.error("hooks-approval: %s", problem.removeprefix("hooks-approval: "))
    policy = ApprovalPolicy(coordinator, settings, rules, _project(coordinator, settings), failure)
    provider = ProviderClient(coordinator, settings)
    registrations = _register_gate(coordinator, ToolGate(coordinator, policy, provider))
    if hasattr(coordinator, "register_policy"):
        registrations += _register_policy(coordinator, policy, provider)
    else:
        coordinator.register_capability(REGISTER_PROVIDER, provider.register)
    coordinator.register_capability(RULES, tuple(rules))
    coordinator.register_capability(ASKS_EACH_TIME, policy.asks_each_time)
    if coordinator.get_capability(HIDDEN) is None:
        coordinator.register_capability(HIDDEN, policy.hidden)

    def unregister_all() -> None:
        for unregister in registrations:
            unregister()

    return unregister_all


def _read(settings: ApprovalConfig) -> tuple[list[Any], list[str], str]:
    """Return the rules, the problems with them, and why they cannot be read, which denies everything."""
    try:
        return *read_rules(settings.rules), ""
    except Exception as error:
        logger.error("hooks-approval: the rules cannot be read: %r", error, exc_info=error)
        return [], [], f"the rules of hooks-approval cannot be read: {error or type(error).__name__}"


def _register_gate(coordinator: Any, gate: ToolGate) -> list[Callable[[], None]]:
    register = coordinator.hooks.register
    handlers = ((gate.on_tool_pre, PRIORITY, NAME), (gate.on_tool_pre_last, _LAST, f"{NAME}_last"))
    if kernel_has_policies():  # the published kernel has no gates
        return [
            register(TOOL_PRE, handler, priority=priority, name=name, on_error="deny")
            for handler, priority, name in handlers
        ]
    return [register(TOOL_PRE, handler, priority=priority, name=name) for handler, priority, name in handlers]


def _register_policy(coordinator: Any, policy: ApprovalPolicy, provider: ProviderClient) -> list[Callable[[], None]]:
    """Register the policy with the kernel, and let the provider answer its requests."""
    from amplifier_module_hooks_approval.bridge import KernelBridge, add_published_keys

    bridge = KernelBridge(coordinator, provider)
    coordinator.register_capability(REGISTER_PROVIDER, bridge.register_provider)
    register = coordinator.hooks.register
    events = (APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED)
    return [
        coordinator.register_policy(MODULE, policy, PRIORITY),
        *(register(event, add_published_keys, priority=PRIORITY, name=NAME) for event in events),
        bridge.disconnect,
    ]


def _project(coordinator: Any, settings: ApprovalConfig) -> Path:
    known = settings.working_dir or coordinator.get_capability("session.working_dir")
    return Path(os.path.abspath(os.path.expanduser(str(known) if known else ".")))
