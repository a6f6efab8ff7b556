"""Choose the provider and model of a child session by preferences, by the names that published modules import.

`children/model_roles.py` does the work: which provider a name means, which model a pattern, and which settings of a
provider a preference may change.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_foundation.children.model_roles import (
    best_match,
    is_glob_pattern,
    with_named_preference,
    with_preference,
)
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.routing.preference import ProviderPreference

__all__ = [
    "ModelResolutionResult",
    "ProviderPreference",
    "apply_provider_preferences",
    "apply_provider_preferences_with_resolution",
    "is_glob_pattern",
    "resolve_model_pattern",
]

logger = logging.getLogger(__name__)


@dataclass
class ModelResolutionResult:
    """The model that a hint means, and how it was found."""

    #: None when no model of the provider matches the pattern.
    resolved_model: str | None
    #: The pattern; None for a hint that is a name.
    pattern: str | None = None
    available_models: list[str] | None = None
    matched_models: list[str] | None = None


async def resolve_model_pattern(model_hint: str, provider_name: str | None, coordinator: Any) -> ModelResolutionResult:
    """Return the model of a mounted provider that a hint means.

    A name is returned as it is. A pattern means the last of the matching models in alphabetical order, ignoring case;
    None when the provider is not mounted, cannot list its models, or has none that matches.
    """
    if not is_glob_pattern(model_hint):
        return ModelResolutionResult(model_hint)
    available = await _models(_mounted(coordinator, provider_name))
    matched = [model for model in available if best_match(model_hint, [model]) is not None]
    return ModelResolutionResult(best_match(model_hint, matched), model_hint, available, matched)


def apply_provider_preferences(
    mount_plan: dict[str, Any], preferences: Sequence[ProviderPreference | Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the plan with the first preferred provider it has in front; patterns are kept as they are.

    A plan without any of the providers is returned unchanged, with a warning.
    """
    preferred = with_named_preference(mount_plan, _plain(preferences))
    _warn(preferred.warnings)
    return preferred.plan


async def apply_provider_preferences_with_resolution(
    mount_plan: dict[str, Any], preferences: Sequence[ProviderPreference | Mapping[str, Any]], coordinator: Any
) -> dict[str, Any]:
    """Return the plan with the first preference that can be fulfilled in front, patterns resolved.

    Models are listed by the mounted providers. When no preference fits, the plan is returned unchanged, with a warning.
    """

    async def models(entry: Mapping[str, Any]) -> Sequence[str]:
        names = [str(name) for name in (entry.get("id"), entry.get("module")) if name]
        found = (_mounted(coordinator, name) for name in names)
        return await _models(next((provider for provider in found if provider is not None), None))

    preferred = await with_preference(mount_plan, _plain(preferences), models)
    _warn(preferred.warnings)
    return preferred.plan


def _plain(preferences: Sequence[ProviderPreference | Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one.to_dict() if isinstance(one, ProviderPreference) else one for one in preferences]


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        logger.warning("%s", warning)


def _mounted(coordinator: Any, name: str | None) -> Any:
    """Return a mounted provider by the name it is mounted under, with or without `provider-`; None if there is none."""
    providers = coordinator.get("providers") or {}
    short = (name or "").removeprefix("provider-")
    return next((providers[known] for known in (name, short, f"provider-{short}") if known in providers), None)


async def _models(provider: Any) -> list[str]:
    """Return the ids of the models that a provider lists; none if there is no provider or it cannot list any."""
    listing = getattr(provider, "list_models", None)
    if listing is None:
        return []
    try:
        return [str(getattr(model, "id", model)) for model in await maybe_await(listing())]
    except Exception as error:  # a provider may fail in any way, and the next preference may do
        logger.warning("provider %s cannot list its models: %s", getattr(provider, "name", provider), error)
        return []
