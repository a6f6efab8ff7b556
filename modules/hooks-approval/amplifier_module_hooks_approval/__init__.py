"""Ask before tools run, by rules: deny is absolute, ask is a floor, and what is no clear yes is a no."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED, TOOL_PRE
from amplifier_module_hooks_approval._config import ApprovalConfig
from amplifier_module_hooks_approval._gate import NAME, ToolGate
from amplifier_module_hooks_approval._policy import MODULE, ApprovalPolicy
from amplifier_module_hooks_approval._provider import ProviderDesk
from amplifier_module_hooks_approval._rules import read_rules

__amplifier_module_type__ = "hook"
CONFIG: Final = ApprovalConfig
__all__ = ["CONFIG", "mount"]

logger = logging.getLogger(__name__)

REGISTER_PROVIDER: Final = "approval.register_provider"
RULES: Final = "approval.rules"
#: What tells an app that no rule would spare a question: nothing is to be remembered in its place.
ASKS_EACH_TIME: Final = "approval.asks_each_time"
#: What tells tools which places they must not show; an app with rules of its own has it already.
HIDDEN: Final = "policy.hidden"
PRIORITY: Final = -10
#: After hooks that change what they pass on.
_LAST: Final = 10_000


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], None]:
    """Register policy, gate and capabilities, and return a function that takes them away.

    Never raises for a config: what makes no sense in it is logged and taken in the strictest way.
    """
    settings, wrong = ApprovalConfig.from_config(config)
    rules, problems, failure = _read(settings)
    for problem in (*wrong, *problems):
        logger.error("hooks-approval: %s", problem.removeprefix("hooks-approval: "))
    policy = ApprovalPolicy(coordinator, settings, rules, _project(coordinator, settings), failure)
    desk = ProviderDesk(coordinator, settings)
    taken = _registered_gate(coordinator, ToolGate(coordinator, policy, desk))
    if hasattr(coordinator, "register_policy"):
        taken += _joined_kernel(coordinator, policy, desk)
    else:
        coordinator.register_capability(REGISTER_PROVIDER, desk.register)
    coordinator.register_capability(RULES, tuple(rules))
    coordinator.register_capability(ASKS_EACH_TIME, policy.asks_each_time)
    if coordinator.get_capability(HIDDEN) is None:
        coordinator.register_capability(HIDDEN, policy.hidden)

    def take_away() -> None:
        for unregister in taken:
            unregister()

    return take_away


def _read(settings: ApprovalConfig) -> tuple[list[Any], list[str], str]:
    """Return the rules, what is wrong with them, and why there are none: a session without them must not run on."""
    try:
        return *read_rules(settings.rules), ""
    except Exception as error:
        logger.error("hooks-approval: the rules cannot be read: %r", error, exc_info=error)
        return [], [], f"the rules of hooks-approval cannot be read: {error or type(error).__name__}"


def _registered_gate(coordinator: Any, gate: ToolGate) -> list[Callable[[], None]]:
    register = coordinator.hooks.register
    handlers = ((gate.on_tool_pre, PRIORITY, NAME), (gate.on_tool_pre_last, _LAST, f"{NAME}_last"))
    if hasattr(coordinator, "authorize"):
        return [
            register(TOOL_PRE, handler, priority=priority, name=name, on_error="deny")
            for handler, priority, name in handlers
        ]
    return [register(TOOL_PRE, handler, priority=priority, name=name) for handler, priority, name in handlers]


def _joined_kernel(coordinator: Any, policy: ApprovalPolicy, desk: ProviderDesk) -> list[Callable[[], None]]:
    """Be a policy of a kernel that has them, and let the provider answer what it asks."""
    from amplifier_module_hooks_approval._bridge import KernelBridge, with_published_keys

    bridge = KernelBridge(coordinator, desk)
    coordinator.register_capability(REGISTER_PROVIDER, bridge.register_provider)
    register = coordinator.hooks.register
    events = (APPROVAL_REQUIRED, APPROVAL_GRANTED, APPROVAL_DENIED)
    return [
        coordinator.register_policy(MODULE, policy, PRIORITY),
        *(register(event, with_published_keys, priority=PRIORITY, name=NAME) for event in events),
        bridge.disconnect,
    ]


def _project(coordinator: Any, settings: ApprovalConfig) -> Path:
    known = settings.working_dir or coordinator.get_capability("session.working_dir")
    return Path(os.path.abspath(os.path.expanduser(str(known) if known else ".")))
