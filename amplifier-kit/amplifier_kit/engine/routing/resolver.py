"""Pick a model for a role: the first candidate whose provider is mounted and has such a model."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.routing.matrix import Candidate
from amplifier_kit.engine.routing.preference import ProviderPreference, preference_of
from amplifier_kit.engine.tasks import run_bounded

__all__ = ["CAPABILITY", "RoleResolver", "best_model", "matching_model", "mounted_as", "preferences_for"]

logger = logging.getLogger(__name__)

#: The capability with the resolver of a session.
CAPABILITY: Final = "model_role_resolver"

_GLOB: Final = frozenset("*?[")
#: The date at the end of a model's name says when it was made, not how good it is.
_DATE: Final = re.compile(r"-(?:20\d{6}|20\d{2}-\d{2}-\d{2})(?=$|[^\d])")
_LIST_SECONDS: Final = 10.0


class RoleResolver:
    """Be the capability `model_role_resolver`: models by role, from the providers that a session has mounted."""

    def __init__(
        self,
        coordinator: Any,
        roles: Callable[[], Iterable[str]],
        candidates: Callable[[str], Sequence[Candidate]],
        name: str = "model-roles",
    ) -> None:
        """`roles` returns the known roles, and `candidates` those of one role, best first; none for an unknown one."""
        self.name = name
        self._coordinator = coordinator
        self._roles = roles
        self._candidates = candidates

    @property
    def known_roles(self) -> tuple[str, ...]:
        return tuple(self._roles())

    async def resolve(self, roles: str | Iterable[str]) -> list[ProviderPreference]:
        """Return one preference for the first of the roles that can be filled; none if no role can.

        Its provider is the name under which it is mounted, and its model is a name, not a pattern.
        """
        for role in (roles,) if isinstance(roles, str) else roles:
            for candidate in self._candidates(role):
                if (found := await self._fill(candidate)) is not None:
                    return [found] if found.model else []
        return []

    async def _fill(self, candidate: Candidate) -> ProviderPreference | None:
        """Return the preference of a candidate; None without its provider or a model, "" for the provider's default."""
        name = mounted_as(self._coordinator, candidate["provider"])
        if name is None:
            return None
        model = await matching_model(candidate.get("model") or "", self._coordinator.get("providers")[name], name)
        return None if model is None else ProviderPreference(name, model, dict(candidate.get("config") or {}))


def mounted_as(coordinator: Any, provider: str) -> str | None:
    """Return the name under which a provider is mounted, given that, its module with or without prefix, or its id."""
    mounted = coordinator.get("providers") or {}
    short = provider.removeprefix("provider-")
    for name in (provider, short, f"provider-{short}"):
        if name in mounted:
            return name
    plan = getattr(coordinator, "config", None)
    for entry in (plan.get("providers") if isinstance(plan, Mapping) else None) or ():
        if isinstance(entry, Mapping) and str(entry.get("module")) == f"provider-{short}":
            for key in ("id", "instance_id"):
                if entry.get(key) in mounted:
                    return str(entry[key])
    return None


async def matching_model(pattern: str, provider: Any, name: str) -> str | None:
    """Return the best model of a provider for a pattern, None without one; a name is returned as it is."""
    return pattern if _GLOB.isdisjoint(pattern) else best_model(pattern, await _models(provider, name))


def best_model(pattern: str, models: Iterable[str]) -> str | None:
    """Return the newest model that matches a pattern, ignoring case: by the numbers in its name, without its date.

    Of several with the same numbers, the shortest name counts: `gpt-5` before `gpt-5-mini`.
    """
    fitting = [model for model in models if fnmatchcase(model.lower(), pattern.lower())]
    return max(fitting, key=_rank) if fitting else None


def _rank(model: str) -> tuple[list[int], int, str]:
    plain = _DATE.sub("", model.lower())
    return [int(number) for number in re.findall(r"\d+", plain)], -len(plain), model


async def _models(provider: Any, name: str) -> list[str]:
    """Return the ids of a provider's models; none when it cannot list them in time."""

    async def listed() -> Any:
        return await maybe_await(provider.list_models())

    try:
        return [str(getattr(model, "id", model)) for model in await run_bounded(listed, timeout=_LIST_SECONDS)]
    except Exception as error:  # a provider may fail in any way, and the next candidate may do
        logger.warning("provider %s cannot list its models: %s", name, error)
        return []


async def preferences_for(coordinator: Any, roles: str | Sequence[str]) -> list[ProviderPreference]:
    """Return what the session's resolver has for the roles, [] without one; raises what the resolver raises."""
    resolver = coordinator.get_capability(CAPABILITY)
    resolve = getattr(resolver, "resolve", None)
    if not callable(resolve):
        return []
    found = await maybe_await(resolve(roles))
    return [one for entry in found or () if (one := preference_of(entry)) is not None]
