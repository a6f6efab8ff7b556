"""Mask secrets in everything that is written down, and nothing that runs.

Every record passes the redactor before any sink sees it. Events themselves are left alone: tools and providers get
what they were meant to get.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_kit.guard.redaction import Redactor, live_values_from_env, live_values_from_plan, remember_secrets
from amplifier_module_hooks_redaction.config import RedactionConfig

__all__ = ["CONFIG", "mount", "on_session_ready"]

__amplifier_module_type__ = "hook"
CONFIG: Final = RedactionConfig

_STATE = "redaction._hook_state"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Put the redactor before the session's log, and offer it to whoever else writes.

    Capabilities: `redaction.scrub(value)` returns a copy without secrets, `redaction.add_live_values(values)` makes
    more secrets known. Raises nothing for a config that makes no sense: without this module, nothing would be masked.
    """
    settings = RedactionConfig.from_config(config)
    redactor = Redactor(settings.live_values, settings.allowlist, settings.rules)
    coordinator.register_capability(_STATE, {"redactor": redactor, "settings": settings})
    coordinator.register_capability("redaction.scrub", lambda value: redactor.scrub(value).value)
    remember_secrets(settings.live_values)

    def add_live_values(values: Iterable[str]) -> None:
        values = tuple(values)
        redactor.add_live_values(values)
        remember_secrets(values)  # for files that other modules write

    coordinator.register_capability("redaction.add_live_values", add_live_values)
    _learn(coordinator, redactor)
    if kernel_has_policies() or hasattr(coordinator, "add_log_processor"):  # the published kernel has no log to mask
        coordinator.add_log_processor(redactor)


async def on_session_ready(coordinator: Any) -> None:
    """Learn the secrets once more: modules and apps may have brought some while the session was built."""
    state = coordinator.get_capability(_STATE)
    if state is not None:
        _learn(coordinator, state["redactor"])


def _learn(coordinator: Any, redactor: Redactor) -> None:
    values = [*live_values_from_env(os.environ), *live_values_from_plan(coordinator.config)]
    redactor.add_live_values(values)
    remember_secrets(values)
