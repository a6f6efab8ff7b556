"""Make the plan that a session runs with from the one it was composed of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_foundation.prepared import Prepared

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT: Final = 30.0
READY_TIMEOUT: Final = 10.0


def live_plan(prepared: Prepared, environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the plan with the values of its variables and the deadlines of this app, and what is not set."""
    from amplifier_foundation.settings.plan import expand_plan

    expanded = expand_plan(prepared.composed.plan, environ)
    missing = [f"{one.key}: the variable {one.name} is not set, so this is empty" for one in expanded.missing]
    plan, session = expanded.value, expanded.value.get("session")
    if isinstance(session, dict):  # of anything else the kernel says what is wrong
        plan = {**plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT} | session}
    return plan, list(dict.fromkeys(missing))
