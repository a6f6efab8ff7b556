"""What a session starts with, new or taken up again: its metadata, and what must not be in its files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.plan_facts import provider_and_model
from amplifier_foundation.usage.history import facts_at_start
from amplifier_kit.guard.redaction import known_secrets, live_values_from_env, live_values_from_plan, remember_secrets

if TYPE_CHECKING:
    from amplifier_foundation.children.origin import Origin
    from amplifier_foundation.sessions.resume import SavedSession


def starting_facts(
    session_id: str, prepared: Prepared, plan: Mapping[str, Any], saved: SavedSession | None
) -> dict[str, Any]:
    """Return what is known of a session before its first turn; of one that goes on, only what this process changes."""
    provider, model = provider_and_model(plan)
    facts: dict[str, Any] = {
        "session_id": session_id,
        "created": datetime.now(UTC).isoformat(),
        "bundle": f"bundle:{prepared.composed.name}",
        "provider": provider,
        "model": model,
        "turn_count": 0,
        "working_dir": str(prepared.project),
    }
    if saved is None:
        return facts
    known = saved.metadata
    # Only what this process changes is written again: another one may have renamed the session meanwhile.
    changed = {key: value for key, value in facts.items() if key not in known}
    changed |= {"turn_count": saved.turn_count, "first_prompt": saved.first_prompt, "provider": provider}
    changed["usage"] = facts_at_start(known.get("usage"), facts["created"], was_used=bool(saved.turn_count))
    composed = prepared.composed
    if saved.bundle not in (None, composed.name, composed.reference):
        changed |= {"bundle": facts["bundle"], "bundle_overrides": _overrides(known, facts)}
    # A model that is not named any more is taken out of what is known.
    return {key: value for key, value in changed.items() if value is not None} | {"model": model}


def secrets_of(plan: Mapping[str, Any], environ: Mapping[str, str], origin: Origin | None) -> tuple[str, ...]:
    """Return the secrets of a session and of those above it, and let no file of this process hold one."""
    own = (*live_values_from_env(environ), *live_values_from_plan(plan), *known_secrets())
    found = tuple(dict.fromkeys((*own, *origin.secrets))) if origin is not None else own
    remember_secrets(found)  # modules write files, too
    return found


def told_of_model(plan: Mapping[str, Any], saved: SavedSession | None) -> list[str]:
    """Return a line when another model answers now than in the turn before.

    A session of another program has nothing here: that it has no record is told, and its model with that.
    """
    if saved is None or saved.recorded is None or not saved.metadata.get("provider"):
        return []
    known = saved.metadata
    before, now = (known["provider"], known.get("model")), provider_and_model(plan)
    if before == now:
        return []
    return [f"model: {_named(*before)} answered in the turn before, {_named(*now)} answers now"]


def _named(provider: Any, model: Any) -> str:
    return str(model or f"the default model of {provider}" if provider else "nobody")


def _overrides(known: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Any]:
    """Return the bundles that took the place of the session's own, this one added."""
    before = known.get("bundle_overrides")
    override = {"timestamp": facts["created"], "original": known.get("bundle"), "forced": facts["bundle"]}
    return [*(before if isinstance(before, list) else []), override]
