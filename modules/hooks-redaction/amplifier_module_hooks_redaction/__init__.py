"""Mask secrets in everything that is logged, and in nothing that runs.

Every record passes the redactor before any sink sees it. Events are not changed: tools and providers get the real
values.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

from amplifier_kit.guard.authorization import kernel_has_policies
from amplifier_kit.guard.redaction.known_values import live_values_from_env, live_values_from_plan
from amplifier_kit.guard.redaction.redactor import Redactor, remember_secrets
from amplifier_module_hooks_redaction.config import RedactionConfig

__all__ = ["CONFIG", "mount", "on_session_ready"]

__amplifier_module_type__ = "hook"
CONFIG: Final = RedactionConfig

_STATE = "redaction._hook_state"


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Put the redactor before the session's log, and offer it to other writers.

    Capabilities: `redaction.scrub(value)` returns a copy without secrets, `redaction.add_live_values(values)` adds
    secrets. Never raises because of the config: without this module, nothing would be masked.
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
    _collect_secrets(coordinator, redactor)
    if kernel_has_policies() or hasattr(coordinator, "add_log_processor"):  # the published kernel has no log to mask
        coordinator.add_log_processor(redactor)


async def on_session_ready(coordinator: Any) -> None:
    """Collect the secrets again: modules and apps may have added some while the session was built."""
    state = coordinator.get_capability(_STATE)
    if state is not None:
        _collect_secrets(coordinator, state["redactor"])


def _collect_secrets(coordinator: Any, redactor: Redactor) -> None:
    values = [*live_values_from_env(os.environ), *live_values_from_plan(coordinator.config)]
    redactor.add_live_values(values)
    remember_secrets(values)
