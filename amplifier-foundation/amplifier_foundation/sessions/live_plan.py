"""Make the plan that a session runs with from the one it was composed of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_core.plan import SESSION_MODULES
from amplifier_foundation.plan.prepared import Prepared

#: The app's policy on hanging modules; a plan may say otherwise.
HOOK_TIMEOUT: Final = 30.0
READY_TIMEOUT: Final = 10.0


def live_plan(prepared: Prepared, environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the plan with the values of its variables and the deadlines of this app, and what is not set.

    Raises BundleError, naming the bundle, for one that is only a part of others: without a loop or a memory.
    """
    from amplifier_foundation.settings.plan import expand_plan

    _check_whole(prepared)
    expanded = expand_plan(prepared.composed.plan, environ)
    missing = [f"{one.key}: the variable {one.name} is not set, so this is empty" for one in expanded.missing]
    plan, session = expanded.value, expanded.value.get("session")
    if isinstance(session, dict):  # of anything else the kernel says what is wrong
        plan = {**plan, "session": {"hook_timeout": HOOK_TIMEOUT, "ready_timeout": READY_TIMEOUT} | session}
    return plan, list(dict.fromkeys(missing))


def _check_whole(prepared: Prepared) -> None:
    """Raise BundleError for a bundle that no session can be made of; of an app's own plan the kernel says it."""
    session = prepared.composed.plan.get("session") or {}
    if prepared.is_made_by_app or not isinstance(session, Mapping):
        return
    lacking = [f"session.{key}" for key in SESSION_MODULES if not session.get(key)]
    if lacking:
        from amplifier_foundation.bundles.bundle import BundleError

        raise BundleError(
            f"{prepared.composed.reference}: {' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not set, "
            "so it is no bundle to run but a part of one: name what is missing, or include a bundle that does, such as "
            "`minimal`"
        )
