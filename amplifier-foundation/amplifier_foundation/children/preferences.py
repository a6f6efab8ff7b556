"""Let a child answer with another provider or model than its parent, as far as the plan has it.

The first preference counts whose provider is in the plan and whose model is known. It gets priority 0, the model, and
the settings of the preference, except those that decide where requests go and with whose key: a preference may come
from a model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amplifier_foundation.merge import OVERLAY, copied, merge

#: Returns the ids of the models that the provider of a plan's entry offers; raises or is empty when it cannot say.
Models = Callable[[Mapping[str, Any]], Awaitable[Sequence[str]]]

_GLOB: Final = frozenset("*?[")
#: Words in the name of a setting that decides where requests go, how they are secured, and with whose word.
_PROTECTED: Final = re.compile(
    r"""(?x)
    account | auth | authorization | bearer | client | oauth | login | profile | user | username | identity
    | credentials? | cookies? | headers?
    | key | keys | keyfile | secrets? | token | passphrase | passwd | password | env | environment
    | address | base | callback | gateway | host | hosts | hostname | port | servers? | socket | domain | endpoints?
    | ur[il]s? | proxy | proxies | transport | source | webhook | command | executable
    | deployment | region | tenant | subscription | project | org | organization
    | ca | cafile | certs? | certificates? | insecure | ssl | tls | verify
    | priority | session
    """
)
#: Words that would be protected but for the word beside them.
_COUNTS: Final = frozenset({"max_tokens", "cache_key", "prompt_cache_key"})


class Preferred(NamedTuple):
    """A plan with the preferred provider in front, which one that is, and what the user should know."""

    plan: dict[str, Any]
    provider: str | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()


async def with_preference(plan: dict[str, Any], preferences: Sequence[Mapping[str, Any]], models: Models) -> Preferred:
    """Return the plan for the first preference that it can fulfil; the plan as it is, and a warning, when none."""
    if not preferences:
        return Preferred(plan)
    entries = [entry for entry in plan.get("providers") or [] if isinstance(entry, Mapping)]
    warnings: list[str] = []
    absent: list[str] = []  # one of several is enough: of interest only when none fits
    for preference in preferences:
        named = str(preference.get("provider"))
        fitting = sorted(
            (entry for entry in entries if names_provider(entry, named)), key=lambda e: _distance(e, named)
        )
        if not fitting:
            absent.append(f"{_said(preference)}: the plan has no provider {named!r}")
            continue
        for entry in fitting:
            model, problem = await _model(preference.get("model"), entry, models)
            if problem is not None:
                warnings.append(f"{_said(preference)}: {problem}")
                continue
            chosen, refused = _configured(entry, model, preference.get("config"))
            warnings += [f"{_said(preference)}: {name!r} cannot be set by a preference" for name in refused]
            providers = [chosen if other is entry else _behind(other) for other in plan["providers"]]
            return Preferred({**plan, "providers": providers}, _name(entry), model, tuple(warnings))
    warnings.append("no provider preference can be fulfilled, so the parent's provider and model are used")
    return Preferred(plan, warnings=(*absent, *warnings))


def names_provider(entry: Mapping[str, Any], name: str) -> bool:
    """Tell whether a name means a provider of the plan: its module, that without `provider-`, or its id."""
    module = str(entry.get("module") or "")
    return name in (module, module.removeprefix("provider-"), entry.get("id"), entry.get("instance_id")) and bool(name)


def best_match(pattern: str, known: Sequence[str]) -> str | None:
    """Return the model that a pattern means, upper and lower case alike: the last in alphabetical order."""
    from fnmatch import fnmatchcase

    fitting = [model for model in known if fnmatchcase(model.lower(), pattern.lower())]
    return max(fitting, key=str.lower) if fitting else None


def is_protected(name: str) -> bool:
    """Tell whether a setting of a provider is the business of whoever set the provider up."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    if plain in _COUNTS:
        return False
    words = [word for word in re.split(r"[^a-z0-9]+", plain) if word]
    return any(map(_PROTECTED.fullmatch, words)) or any(
        part in plain.replace("_", "") for part in ("apikey", "baseurl", "accesskey", "apitoken")
    )


async def _model(wanted: Any, entry: Mapping[str, Any], models: Models) -> tuple[str | None, str | None]:
    """Return the model that is meant, None for the provider's own choice; or why there is none."""
    if wanted is None:
        return None, None
    if not _GLOB & set(wanted):
        return wanted, None
    try:
        known = await models(entry)
    except Exception as error:  # a provider may fail in any way to say what it has
        return None, f"{_name(entry)} does not say which models it has: {error}"
    found = best_match(wanted, known)
    return (found, None) if found is not None else (None, f"{_name(entry)} has no model like {wanted!r}")


def _configured(entry: Mapping[str, Any], model: str | None, wanted: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the entry with what a preference may set, and the names of what it may not."""
    allowed, refused = _allowed(wanted if isinstance(wanted, Mapping) else {}, "")
    known = entry.get("config")
    config = merge(known if isinstance(known, Mapping) else {}, allowed, OVERLAY)
    config["priority"] = 0
    if model is not None:
        config["default_model"] = model
    return {**copied(entry), "config": config}, refused


def _allowed(wanted: Mapping[str, Any], at: str) -> tuple[dict[str, Any], list[str]]:
    allowed: dict[str, Any] = {}
    refused: list[str] = []
    for name, value in wanted.items():
        key = f"{at}{name}"
        if is_protected(str(name)):
            refused.append(key)
        elif isinstance(value, Mapping):
            allowed[name], more = _allowed(value, f"{key}.")
            refused += more
        else:
            allowed[name] = copied(value)
    return allowed, refused


def _behind(entry: Any) -> Any:
    """Return another provider so that it does not come before the preferred one."""
    config = entry.get("config") if isinstance(entry, Mapping) else None
    if not isinstance(config, Mapping) or config.get("priority") is None:
        return entry
    try:
        is_before = float(config["priority"]) <= 0
    except (TypeError, ValueError):
        return entry
    return {**entry, "config": {**config, "priority": 1}} if is_before else entry


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("id") or entry.get("module"))


def _distance(entry: Mapping[str, Any], name: str) -> int:
    """Return how far a name is from meaning just this provider: one of several of a module has an id of its own."""
    ids = (entry.get("id"), entry.get("instance_id"))
    return 0 if name in ids else 1 if ids == (None, None) else 2


def _said(preference: Mapping[str, Any]) -> str:
    model = preference.get("model")
    return f"preference {preference.get('provider')}{f'/{model}' if model else ''}"
