"""Choose the provider of a run, and report which, why, and how to change it.

In this order: the one that was requested; one that settings or the bundle configure; one whose key is set; a server of
models on this machine; the model inside the program; the scripted one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.providers.known import (
    KNOWN,
    MOCK,
    SERVERS,
    Installed,
    KnownProvider,
    how_to_get,
    installed_local_model,
    is_installed,
    known_provider,
    short_name,
)
from amplifier_app_cli.providers.local_server import serves_models
from amplifier_foundation.errors import FoundationError
from amplifier_kit.local_model import SMALL_MODEL
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.settings.settings import Settings

Plan = Mapping[str, Any]
Entry = Mapping[str, Any]
#: Whether a server of models listens on a port of this machine.
Probe = Callable[[int], bool]

#: The priority of a provider that names none.
_PRIORITY: Final = 100
_LOCAL: Final = "provider-local"
_CHANGE: Final = "change it with --provider NAME or `amplifier provider add`"
_GET_ONE: Final = "for a real model: `amplifier init`"
_GET_SMALL: Final = "for a small one on this machine: `amplifier provider install local`"


class ProviderChoiceError(FoundationError):
    """The requested provider is unavailable, or the request is ambiguous."""

    code = "provider_choice"


class UnknownProviderError(ProviderChoiceError):
    """No provider has that name."""

    code = "provider_unknown"


class ProviderKeyError(ProviderChoiceError):
    """The chosen provider needs a key, and none is set."""

    code = "provider_key_missing"

    def __init__(self, choice: Choice) -> None:
        provider, missing = short_name(choice.provider), choice.unset
        keep = " and ".join(f"`amplifier keys set {name}`" for name in missing)
        super().__init__(
            f"provider {provider!r} has no key: {_names(missing)} not set. Set it, or keep it with {keep}; then "
            f"`amplifier provider test {provider}` checks that it answers"
        )


class Choice(NamedTuple):
    """The provider of a run, and the reason."""

    #: The name of its entry in the plan: its id, else its module.
    provider: str
    #: None for the provider's default.
    model: str | None
    why: str
    how_to_change: str
    module: str
    #: What the entry needs when it is not in the plan yet.
    config: Mapping[str, Any] = MappingProxyType({})
    #: Required variables that are not set.
    unset: tuple[str, ...] = ()

    @property
    def is_mock(self) -> bool:
        """Return whether answers are scripted."""
        return self.module == MOCK

    @property
    def line(self) -> str:
        """Return the one line for the user."""
        return f"provider: {self._name} ({self.why}); {self.how_to_change}"

    @property
    def summary(self) -> str:
        """Return a line that fits into 80 columns: who answers, and how to get a model when none does."""
        if self.how_to_change.startswith(_GET_ONE):
            return f"provider: {self._name} (scripted answers, no model); {_GET_ONE}"
        return f"provider: {self._name} ({self.why.partition('; ')[0]})"

    @property
    def _name(self) -> str:
        return short_name(self.provider) + (f", model {self.model}" if self.model else "")


def choose(
    plan: Plan,
    settings: Settings | Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    explicit: str | None = None,
    model: str | None = None,
    probe: Probe = serves_models,
    installed: Installed = is_installed,
    embedded: Callable[[], str | None] = installed_local_model,
    stand_in: bool = True,
) -> Choice:
    """Return the provider for a plan over which the settings are laid already; `environ` has the user's keys.

    `stand_in` says that a scripted model in the plan is only a placeholder, as in the shipped bundles (see
    `stands_in`); one with a scenario or a recording never is. Raises UnknownProviderError for an unknown name, and
    ProviderChoiceError when a module is missing for which there is no harmless substitute.
    """
    entries = _entries(plan)
    if explicit is not None:
        return _asked_for(explicit, entries, model, environ, installed)
    configured = _configured(plan, entries, settings, stand_in)
    if configured is not None:
        where = "configured in settings" if is_in_settings(configured, settings) else "configured in the bundle"
        return _from_entry(configured, model, where, _CHANGE, environ)
    return _found(entries, model, environ, probe, installed, embedded)


def apply(choice: Choice, plan: Plan) -> dict[str, Any]:
    """Return the plan with the chosen provider first, and with its model; the given plan stays as it is.

    It gets priority 0, or less when another has that; one that is not in the plan is added.
    """
    from amplifier_foundation.merge import copied

    fresh: dict[str, Any] = copied(plan)
    entries = fresh.setdefault("providers", [])
    chosen = next((entry for entry in entries if _name(entry) == choice.provider), None)
    if chosen is None:
        chosen = {"module": choice.module, **({"config": dict(choice.config)} if choice.config else {})}
        entries.append(chosen)
    config = chosen["config"] = dict(chosen.get("config") or {})
    config["priority"] = first_priority(entry for entry in entries if entry is not chosen)
    if choice.model is not None:
        config["default_model"] = choice.model
    loop = _loop_config(fresh)
    if loop is not None and loop.get("default_provider"):
        loop["default_provider"] = chosen.get("instance_id") or chosen.get("id") or choice.module
    return fresh


def first_priority(others: Any) -> float:
    """Return a priority that comes before those of all other entries: 0 unless one has that or less."""
    return min([0, *(_priority(entry) - 1 for entry in others)])


def stands_in(layers: Sequence[Layer]) -> bool:
    """Return whether the scripted model of a plan is named by files of the product alone."""
    from amplifier_foundation.merge import module_key

    return all(
        layer.owner == "product"
        for layer in layers
        for entry in layer.document.data.get("providers") or []
        if isinstance(entry, Mapping) and MOCK in (module_key(entry), entry.get("module"))
    )


def is_in_settings(entry: Entry, settings: Settings | Mapping[str, Any]) -> bool:
    """Return whether settings name this very entry."""
    data = settings if isinstance(settings, Mapping) else settings.data
    listed = [
        *((data.get("config") or {}).get("providers") or []),
        *((data.get("modules") or {}).get("providers") or []),
    ]
    return any(isinstance(known, Mapping) and _name(known) == _name(entry) for known in listed)


def find_entry(name: str, entries: Sequence[Entry]) -> Entry | None:
    """Return the entry that a user means: by id, else by module, else by the module's short name."""
    for names in (lambda entry: (_name(entry),), lambda entry: (entry.get("module"),), _short_names):
        for entry in entries:
            if name in names(entry):
                return entry
    return None


def unset_of(entry: Entry, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables without which an entry cannot answer; none when that is not certain.

    It is certain for modules of the program whose key is one variable: another source may need none, and a provider
    with an endpoint as well has other ways to sign in.
    """
    known = known_provider(str(entry["module"]))
    if known is None or entry.get("source") or any(len(group) > 1 for group in known.keys):
        return ()
    missing = known.missing(environ)
    key = str((entry.get("config") or {}).get("api_key") or "").strip()
    if not missing or not key:
        return missing
    name = key[2:-1] if key.startswith("${") and key.endswith("}") else ""
    return (name,) if name.isidentifier() and not environ.get(name, "").strip() else ()


def _asked_for(
    name: str, entries: Sequence[Entry], model: str | None, environ: Mapping[str, str], installed: Installed
) -> Choice:
    why, how = "chosen with --provider", "leave out --provider for the default"
    entry = find_entry(name, entries)
    if entry is not None:
        return _from_entry(entry, model, why, how, environ)
    known = known_provider(name)
    if known is None:
        from amplifier_foundation.errors import did_you_mean

        names = dict.fromkeys([*(short_name(_name(entry)) for entry in entries), *(known.id for known in KNOWN)])
        raise UnknownProviderError(f"there is no provider {name!r}: {did_you_mean(name, list(names))}")
    if not installed(known.module):
        raise ProviderChoiceError(f"provider {known.id!r} cannot be used: {how_to_get(known.module)}")
    unset = known.missing(environ)
    why = f"{why}; {_names(unset)} not set" if unset else why
    return Choice(known.module, model, why, how, known.module, unset=unset)


def _configured(
    plan: Plan, entries: Sequence[Entry], settings: Settings | Mapping[str, Any], stand_in: bool
) -> Entry | None:
    """Return the entry that is meant to answer: the loop's own choice, else the first by priority."""
    loop = _loop_config(plan)
    wanted = loop.get("default_provider") if loop is not None else None
    named = find_entry(wanted, entries) if isinstance(wanted, str) and wanted else None
    if named is not None:
        return named
    meant = [entry for entry in entries if not stand_in or not _is_placeholder(entry, settings)]
    return min(meant, key=_priority) if meant else None


def _is_placeholder(entry: Entry, settings: Settings | Mapping[str, Any]) -> bool:
    """Return whether an entry is a scripted model that was not chosen on purpose."""
    config = entry.get("config") or {}
    is_deliberate = any(config.get(key) for key in ("scenario", "record", "record_provider"))
    return entry["module"] == MOCK and not is_deliberate and not is_in_settings(entry, settings)


def _found(
    entries: Sequence[Entry],
    model: str | None,
    environ: Mapping[str, str],
    probe: Probe,
    installed: Installed,
    embedded: Callable[[], str | None],
) -> Choice:
    """Return a provider that is not configured: by its key, its server, or the ones that need neither."""
    with_key = [known for known in KNOWN if known.found(environ)]
    if with_key:
        return _by_key(with_key, entries, model, environ, installed)
    notes: list[str] = []
    for server in SERVERS:
        if probe(server.port):
            known = known_provider(server.provider)
            assert known is not None
            if installed(known.module):
                why = f"{server.title} answers on port {server.port} and no key is set"
                config = {"base_url": server.base_url} if server.base_url else {}
                return Choice(known.module, model, why, _CHANGE, known.module, config)
            notes.append(f"{server.title} answers on port {server.port}, but {_not_there(known)}")
    reasons = notes or ["no key is set and no server of models was found"]
    if installed(_LOCAL) and (name := embedded()):
        kind = "a small model on this machine, without tools" if name == SMALL_MODEL else f"{name}, on this machine"
        why = f"{kind}, since {'; '.join(reasons)}"
        return Choice(_LOCAL, model, why, _CHANGE, _LOCAL)
    how = f"{_GET_ONE}, {_GET_SMALL}" if installed(_LOCAL) else _GET_ONE
    return _scripted(entries, model, reasons, how)


def _by_key(
    with_key: Sequence[KnownProvider],
    entries: Sequence[Entry],
    model: str | None,
    environ: Mapping[str, str],
    installed: Installed,
) -> Choice:
    """Return the first provider with a key; never another one that costs money."""
    first, *others = with_key
    if installed(first.module):
        also = "".join(f"; {_names(known.found(environ))} too" for known in others)
        return Choice(first.module, model, f"{_names(first.found(environ))} set{also}", _CHANGE, first.module)
    usable = [known for known in others if installed(known.module)]
    if usable:
        names = " or ".join(f"--provider {known.id}" for known in usable)
        raise ProviderChoiceError(
            f"{_names(first.found(environ))} set, but {_not_there(first)}; another provider is not used in its place "
            f"unless you say so: give {names}, or configure one with `amplifier provider add`"
        )
    reasons = [f"{_names(known.found(environ))} set, but {_not_there(known)}" for known in with_key]
    return _scripted(entries, model, reasons)


def _scripted(entries: Sequence[Entry], model: str | None, reasons: Sequence[str], how: str = _GET_ONE) -> Choice:
    entry = find_entry(MOCK, entries) or {"module": MOCK}
    return _from_entry(entry, model, f"scripted answers, since {'; '.join(reasons)}", how)


def _from_entry(
    entry: Entry, model: str | None, why: str, how: str, environ: Mapping[str, str] = MappingProxyType({})
) -> Choice:
    given = (entry.get("config") or {}).get("default_model")
    named = model or (str(given) if given else None)
    return Choice(_name(entry), named, why, how, str(entry["module"]), unset=unset_of(entry, environ))


def _not_there(known: KnownProvider) -> str:
    return f"{known.module} is not installed"


def _names(variables: Sequence[str]) -> str:
    return f"{' and '.join(variables)} {'is' if len(variables) == 1 else 'are'}"


def _entries(plan: Plan) -> list[Entry]:
    return [entry for entry in plan.get("providers") or [] if isinstance(entry, Mapping) and entry.get("module")]


def _name(entry: Entry) -> str:
    return str(entry.get("id") or entry.get("module"))


def _short_names(entry: Entry) -> tuple[str, ...]:
    return short_name(_name(entry)), short_name(str(entry.get("module")))


def _priority(entry: Entry) -> float:
    value = (entry.get("config") or {}).get("priority")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _PRIORITY


def _loop_config(plan: Plan) -> Any:
    """Return the settings of the loop: beside its module, or, for one named by its id alone, at the top of the plan."""
    spec = (plan.get("session") or {}).get("orchestrator")
    holder = spec if isinstance(spec, Mapping) else plan.get("orchestrator")
    config = holder.get("config") if isinstance(holder, Mapping) else None
    return config if isinstance(config, Mapping) else None
