"""Find the provider that serves a model which the user names without a provider.

In this order: `PROVIDER/MODEL`; an entry that is configured with the model; the maker of models with such names, if it
can be used; the first provider that can be used and lists the model. The provider that would answer anyway comes first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.providers.choice import (
    Choice,
    Entry,
    Probe,
    ProviderChoiceError,
    choose,
    find_entry,
    unset_of,
)
from amplifier_app_cli.providers.known import KNOWN, SERVERS, is_installed, known_provider, short_name
from amplifier_app_cli.providers.local_server import serves_models
from amplifier_app_cli.providers.trial import PROVIDER_ALONE, models_of

if TYPE_CHECKING:
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.settings.settings import Settings

#: Whose models have such names.
_MAKERS: Final = (
    (re.compile(r"claude\b"), "anthropic"),
    (re.compile(r"(gpt|chatgpt|codex|o[1-9])\b"), "openai"),
    (re.compile(r"gemini\b"), "gemini"),
)
#: Seconds that a provider has to list its models.
_LIST_SECONDS: Final = 10.0
_HOW: Final = "change it with --provider NAME"


class ModelUnknownError(ProviderChoiceError):
    """No provider that can be used serves the model."""

    code = "model_unknown"


async def provider_of_model(
    model: str,
    prepared: Prepared,
    settings: Settings | Mapping[str, Any],
    environ: Mapping[str, str],
    current: Choice,
    *,
    is_offline: bool = False,
    probe: Probe = serves_models,
) -> Choice:
    """Return the provider that serves `model`; `current` is the one that would answer.

    Providers are asked for their models over the network unless `is_offline`. Raises ModelUnknownError.
    """
    plan = prepared.composed.plan
    entries = [entry for entry in plan.get("providers") or [] if isinstance(entry, Mapping) and entry.get("module")]

    def chosen(name: str, served: str, why: str) -> Choice:
        choice = choose(plan, settings, environ, explicit=name, model=served)
        return choice._replace(why=why, how_to_change=_HOW)

    name, _, rest = model.partition("/")
    if rest and (find_entry(name, entries) is not None or known_provider(name) is not None):
        return chosen(name, rest, "named with the model")
    for entry in entries:
        if (entry.get("config") or {}).get("default_model") == model:
            return chosen(_name(entry), model, "configured with this model")
    usable = list(_usable(current, entries, environ, probe))
    maker = next((maker for pattern, maker in _MAKERS if pattern.match(model)), None)
    if maker is not None:
        for entry in usable:
            if short_name(str(entry["module"])) == maker:
                return chosen(_name(entry), model, f"models of this name are from {_title(maker)}")
    problems: list[str] = []
    for entry in usable if not is_offline else ():
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                served = await _models(prepared, entry, environ)
        except Exception as error:  # whatever a module or its service raises: the next one may serve the model
            problems.append(
                f"{short_name(_name(entry))} does not list its models ({type(error).__name__}: {str(error)[:200]})"
            )
            continue
        if model in served:
            return chosen(_name(entry), model, "it serves this model")
        problems.append(f"{short_name(_name(entry))} does not serve it")
    raise ModelUnknownError(_unknown(model, maker, problems))


def _usable(
    current: Choice, entries: Sequence[Entry], environ: Mapping[str, str], probe: Probe
) -> Iterator[Mapping[str, Any]]:
    """Yield the entries that could answer: the current one, the others of the plan, those with a key, local servers."""
    seen: set[str] = set()
    first = find_entry(current.provider, entries) or {"module": current.module, "config": dict(current.config)}
    known = [{"module": one.module} for one in KNOWN if one.keys and one.found(environ)]
    served = [
        {"module": one.module, **({"config": {"base_url": server.base_url}} if server.base_url else {})}
        for server in SERVERS
        if (one := known_provider(server.provider)) is not None and probe(server.port)
    ]
    for entry in (first, *entries, *known, *served):
        is_ready = not unset_of(entry, environ) and (entry.get("source") or is_installed(str(entry["module"])))
        if is_ready and _name(entry) not in seen:
            seen.add(_name(entry))
            yield entry


async def _models(prepared: Prepared, entry: Mapping[str, Any], environ: Mapping[str, str]) -> set[str]:
    """Return the ids of the models that a provider lists, mounted on its own."""
    from amplifier_core import AmplifierSession
    from amplifier_foundation.plan.import_path import hold
    from amplifier_foundation.settings.plan import expand_plan
    from amplifier_foundation.sources.module_resolver import PreparedModules

    plan = {"session": dict(PROVIDER_ALONE), "providers": [entry]}
    session = AmplifierSession(expand_plan(plan, environ).value)
    release = hold(prepared.modules.values(), prepared.project)
    try:
        await session.coordinator.mount("module-source-resolver", PreparedModules(prepared.modules))
        await session.initialize()
        providers = session.coordinator.get("providers") or {}
        return {str(model.id) for provider in providers.values() for model in await models_of(provider)}
    finally:
        await session.cleanup()
        release()


def _unknown(model: str, maker: str | None, problems: Sequence[str]) -> str:
    """Return what was tried for a model, and what to do."""
    known = known_provider(maker) if maker is not None else None
    if known is not None and known.variables:
        problems = [*problems, f"models of this name are from {known.title}, and {known.variables[0]} is not set"]
    tried = "; ".join(problems) or "no provider is configured"
    return f"no provider is known to serve the model {model!r}: {tried}. Name the provider with --provider NAME"


def _title(provider: str) -> str:
    known = known_provider(provider)
    return known.title if known is not None else provider


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("id") or entry.get("module"))
