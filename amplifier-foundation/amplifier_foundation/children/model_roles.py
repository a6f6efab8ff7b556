"""Choose the provider and model of a child session: by role (the capability `model_role_resolver`) or by preference.

    routing:
      matrix: balanced
      overrides:
        fast: {candidates: [{provider: anthropic, model: claude-haiku-*}]}

A matrix is a file `routing/<name>.yaml` in the user's home, or one of those that come with the product; their format is
that of `amplifier_kit.engine.routing.matrix`. The roles `general` and `fast` always exist: by default, `general` is the
current model of the session, and `fast` the small model of a known family.

Of several preferences the first counts whose provider is in the plan and whose model is known. It gets priority 0, the
model, and the settings of the preference, except those that decide where requests go and with whose key: a preference
may come from a model.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.merge import OVERLAY, copied, merge
from amplifier_foundation.paths import Home
from amplifier_kit.engine.routing.matrix import FAST, GENERAL, Candidate, MatrixError, load_matrix, with_overrides
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.settings.settings import Settings

logger = logging.getLogger(__name__)

#: Returns the model ids of the provider of a plan's entry; raises or is empty when they are unknown.
Models = Callable[[Mapping[str, Any]], Awaitable[Sequence[str]]]

_GLOB: Final = frozenset("*?[")
#: Words in the names of settings that decide where requests go, how they are secured, and with whose credentials.
_PROTECTED: Final = r"""(?x)
    account | auth | authorization | bearer | client | oauth | login | profile | user | username | identity
    | credentials? | cookies? | headers?
    | key | keys | keyfile | secrets? | token | passphrase | passwd | password | env | environment
    | address | base | callback | gateway | host | hosts | hostname | port | servers? | socket | domain | endpoints?
    | ur[il]s? | proxy | proxies | transport | source | webhook | command | executable
    | deployment | region | tenant | subscription | project | org | organization
    | ca | cafile | certs? | certificates? | insecure | ssl | tls | verify
    | priority | session
    """
#: Words that would be protected but for the word beside them.
_COUNTS: Final = frozenset({"max_tokens", "cache_key", "prompt_cache_key"})

#: Means the provider and model of the session itself.
_OWN: Final[Candidate] = {}


class RoutingError(FoundationError):
    """The settings `routing`, or the file they name, cannot be used."""

    code = "routing_invalid"


class ModelRoles:
    """Return the models for a role; settings are read on first use.

    Invalid settings are logged once, kept in `problem`, and ignored: a role is only a wish.
    """

    def __init__(self, home: Home, project: Path | None, own: Callable[[], Candidate | None] = lambda: None) -> None:
        """Use the settings of a home and a project; `own` returns the current provider and model of the session."""
        self._home, self._project, self._own = home, project, own
        self._roles: Mapping[str, Sequence[Candidate]] | None = None
        #: Why the settings cannot be used, if so.
        self.problem: str | None = None

    @property
    def known_roles(self) -> tuple[str, ...]:
        return tuple(self._known())

    def candidates(self, role: str) -> list[Candidate]:
        """Return the candidates for a role as `{provider, model, config?}`, best first; none for an unknown role.

        Models may be patterns.
        """
        known = (self._own() if candidate is _OWN else candidate for candidate in self._known().get(role, ()))
        return [dict(candidate) for candidate in known if candidate is not None]

    def _known(self) -> Mapping[str, Sequence[Candidate]]:
        if self._roles is None:
            try:
                configured = load_roles(self._home, self._project)
            except (FoundationError, OSError) as error:
                self.problem = str(error)
                logger.warning("The models for roles are unknown: %s", error)
                configured = {}
            small = load_matrix("balanced").roles[FAST].candidates
            self._roles = {GENERAL: [_OWN], FAST: [*small, _OWN], **configured}
        return self._roles


def routing_settings(settings: Settings) -> tuple[str | None, Mapping[str, Any]]:
    """Return the matrix and the overrides in the settings `routing`; raises RoutingError."""
    routing = settings.get("routing")
    if routing is None:
        return None, {}
    if not isinstance(routing, Mapping):
        raise RoutingError(f"routing: must be a mapping with 'matrix' or 'overrides', got {routing!r}")
    name, overrides = routing.get("matrix"), routing.get("overrides")
    if name is not None and (not isinstance(name, str) or "/" in name or name.startswith(".")):
        raise RoutingError(f"routing.matrix: must be the name of a matrix, got {name!r}")
    if overrides is not None and not isinstance(overrides, Mapping):
        raise RoutingError(f"routing.overrides: must be a mapping of roles, got {overrides!r}")
    return name, overrides or {}


def load_roles(home: Home, project: Path | None) -> dict[str, Sequence[Candidate]]:
    """Return the roles in the settings; raises RoutingError with file and line, and SettingsError."""
    from amplifier_foundation.settings.settings import Settings

    name, overrides = routing_settings(Settings.load(home, project))
    try:
        roles = load_matrix(name, [home.path / "routing"]).roles if name is not None else {}
        merged = with_overrides(roles, overrides, "routing.overrides")
    except MatrixError as error:
        raise RoutingError(f"routing: {error}" if name is not None else str(error)) from error
    return {role: found.candidates for role, found in merged.items()}


# Preferences


class Preferred(NamedTuple):
    """A plan with the preferred provider in front, the provider and model chosen, and warnings."""

    plan: dict[str, Any]
    provider: str | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()


async def with_preference(plan: dict[str, Any], preferences: Sequence[Mapping[str, Any]], models: Models) -> Preferred:
    """Return the plan for the first preference that can be fulfilled, else the plan unchanged with a warning."""
    if not preferences:
        return Preferred(plan)
    warnings: list[str] = []
    absent: list[str] = []  # warned of only when no preference fits
    for preference, entry in _fitting(plan, preferences, absent):
        model, problem = await _model(preference.get("model"), entry, models)
        if problem is None:
            return _with_entry(plan, preference, entry, model, warnings)
        warnings.append(f"{_shown(preference)}: {problem}")
    return _unchanged(plan, absent, warnings)


def with_named_preference(plan: dict[str, Any], preferences: Sequence[Mapping[str, Any]]) -> Preferred:
    """Do the same without asking providers: every model is taken for a name, patterns too."""
    if not preferences:
        return Preferred(plan)
    absent: list[str] = []
    for preference, entry in _fitting(plan, preferences, absent):
        return _with_entry(plan, preference, entry, preference.get("model"), [])
    return _unchanged(plan, absent, [])


def _fitting(
    plan: Mapping[str, Any], preferences: Sequence[Mapping[str, Any]], absent: list[str]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each preference with the providers of the plan that it may mean, and note those without any."""
    entries = [entry for entry in plan.get("providers") or [] if isinstance(entry, Mapping)]
    for preference in preferences:
        named = str(preference.get("provider"))
        fitting = [entry for entry in entries if names_provider(entry, named)]
        if not fitting:
            absent.append(f"{_shown(preference)}: the plan has no provider {named!r}")
        for entry in sorted(fitting, key=lambda entry: _distance(entry, named)):
            yield preference, entry


def _with_entry(
    plan: dict[str, Any],
    preference: Mapping[str, Any],
    entry: Mapping[str, Any],
    model: str | None,
    warnings: Sequence[str],
) -> Preferred:
    """Return the plan with this provider in front, with the model and the settings that a preference may change."""
    chosen, refused = _configured(entry, model, preference.get("config"))
    problems = (f"{_shown(preference)}: {name!r} cannot be set by a preference" for name in refused)
    providers = [chosen if other is entry else _behind(other) for other in plan["providers"]]
    return Preferred({**plan, "providers": providers}, _name(entry), model, (*warnings, *problems))


def _unchanged(plan: dict[str, Any], absent: Sequence[str], warnings: Sequence[str]) -> Preferred:
    why = "no provider preference can be fulfilled, so the parent's provider and model are used"
    return Preferred(plan, warnings=(*absent, *warnings, why))


def names_provider(entry: Mapping[str, Any], name: str) -> bool:
    """Return whether a name means a provider of the plan: its module, that without `provider-`, or its id."""
    module = str(entry.get("module") or "")
    return name in (module, module.removeprefix("provider-"), entry.get("id"), entry.get("instance_id")) and bool(name)


def best_match(pattern: str, known: Sequence[str]) -> str | None:
    """Return the last model in alphabetical order that matches a pattern, ignoring case."""
    from fnmatch import fnmatchcase

    fitting = [model for model in known if fnmatchcase(model.lower(), pattern.lower())]
    return max(fitting, key=str.lower) if fitting else None


def is_protected(name: str) -> bool:
    """Return whether only the user who set a provider up may change this setting of it."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    if plain in _COUNTS:
        return False
    words = [word for word in re.split(r"[^a-z0-9]+", plain) if word]
    return any(re.fullmatch(_PROTECTED, word) for word in words) or any(
        part in plain.replace("_", "") for part in ("apikey", "baseurl", "accesskey", "apitoken")
    )


def has_protected(values: Any) -> bool:
    """Return whether a mapping sets such a setting at any depth."""
    if isinstance(values, list):
        return any(map(has_protected, values))
    if not isinstance(values, Mapping):
        return False
    return any(is_protected(str(name)) or has_protected(value) for name, value in values.items())


def is_glob_pattern(model: str) -> bool:
    """Return whether the name of a model is a pattern."""
    return not _GLOB.isdisjoint(model)


async def _model(wanted: Any, entry: Mapping[str, Any], models: Models) -> tuple[str | None, str | None]:
    """Return the model, None for the provider's default; or why it cannot be found."""
    if wanted is None:
        return None, None
    if not is_glob_pattern(wanted):
        return wanted, None
    try:
        known = await models(entry)
    except Exception as error:  # a provider may fail in any way
        return None, f"{_name(entry)} cannot list its models: {error}"
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
    """Return another provider with a priority behind the preferred one."""
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
    """Return how far a name is from meaning exactly this provider: its id is nearer than a module with several ids."""
    ids = (entry.get("id"), entry.get("instance_id"))
    return 0 if name in ids else 1 if ids == (None, None) else 2


def _shown(preference: Mapping[str, Any]) -> str:
    model = preference.get("model")
    return f"preference {preference.get('provider')}{f'/{model}' if model else ''}"
