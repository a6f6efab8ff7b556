"""What a session's plan says of itself, read without trusting its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amplifier_core.plan import plan_modules

if TYPE_CHECKING:
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.trust.given import GivenTrust


def planned_budget(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that a plan sets, none when it sets none.

    Raises BudgetError for what is no mapping: somebody meant to set a limit.
    """
    session = plan.get("session")
    budget = session.get("budget") if isinstance(session, Mapping) else None
    if budget is None:
        return {}
    if not isinstance(budget, Mapping):
        from amplifier_foundation.usage import BudgetError

        raise BudgetError(f"session.budget must be a mapping of limits such as {{usd: 1}}, got {budget!r:.100}")
    return dict(budget)


def provider_and_model(plan: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the plan's first choice of provider, and as `provider/model` the model it is configured with."""
    listed = plan.get("providers")
    providers = [
        (entry, entry["config"] if isinstance(entry.get("config"), dict) else {})
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict) and entry.get("module")
    ]
    if not providers:
        return None, None
    first, config = min(providers, key=lambda provider: _priority(provider[1].get("priority")))
    model = config.get("default_model")
    name = str(first.get("id") or first["module"])
    return name, f"{name}/{model}" if model else None


def wants_hash_chain(plan: Mapping[str, Any]) -> bool:
    """Tell whether the config of hooks-logging asks for the hash of the line before in every line of the log."""
    configs = (one.entry.get("config") for one in plan_modules(plan) if one.module_id == "hooks-logging")
    return any(isinstance(config, Mapping) and config.get("verify") is True for config in configs)


def is_trusted(prepared: Prepared, given: GivenTrust | None = None) -> bool:
    """Tell whether the user trusts the project of a session as it is now: by record, or by what is given for a run."""
    from amplifier_foundation.trust.projects import TrustStore

    if given is not None and given.holds:
        return True
    return TrustStore(prepared.home).state(prepared.project).trusted


def _priority(given: Any) -> float:
    """Return a priority as a number, whatever a variable has made of it."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return 100.0


def has_own_rules(plan: Mapping[str, Any]) -> bool:
    """Tell whether a plan brings rules of its own about what the session may do."""
    hooks = plan.get("hooks")
    entries = hooks if isinstance(hooks, list) else []
    return any(isinstance(entry, Mapping) and entry.get("module") == "hooks-approval" for entry in entries)
