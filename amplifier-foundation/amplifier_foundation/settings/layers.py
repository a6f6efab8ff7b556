"""Show settings files as layers of a plan, for explaining it and for judging who named what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.documents import Document
from amplifier_foundation.settings.settings import GIVEN, Settings

if TYPE_CHECKING:
    from amplifier_foundation.bundles.layer import Layer


class _Place(NamedTuple):
    """Where in a plan a module stands, and by what name."""

    section: str
    #: What tells the entry from others: its id and module.
    names: tuple[tuple[str, str], ...]


def settings_layers(settings: Settings, plan: Mapping[str, Any] | None = None) -> list[Layer]:
    """Return the settings files in the shape of plans, the weakest first, with the lines where everything stands.

    What counts more is the kind of a setting, then its scope: sources, overrides, modules, providers. Of `plan` it is
    taken in which section a module stands that settings only override; without it they are left out. Overrides of a
    provider that only agents have are shown among the providers, for whoever looks where credentials go; for other
    modules of agents ask `override_origin`.
    """
    places = _places_in(plan or {})
    layers: list[Layer] = []
    for kind in (_sources, _overrides, _modules, _providers):
        for scope, document in _documents(settings):
            shaped = _Shaped(document)
            kind(shaped, document.data, places)
            if shaped.data:
                layers.append(_layer(scope, shaped.document()))
    return layers


def override_origin(settings: Settings, module: str) -> tuple[Layer, str] | None:
    """Return the settings file that decides the source of a module wherever it stands, in agents too, and `file:line`.

    None when neither `overrides` nor `sources` of any scope say where the module comes from.
    """
    for keys in (("overrides", module, "source"), ("sources", "modules", module)):
        for scope, document in reversed(_documents(settings)):
            value: Any = document.data
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value:
                return _layer(scope, document), document.where(*keys)
    return None


class _Shaped:
    """A document in the making: entries of another one under other keys, each with its line."""

    def __init__(self, document: Document) -> None:
        self._of = document
        self.data: dict[str, Any] = {}
        self._lines: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}

    def put(self, section: str, entry: Mapping[str, Any], *origin: str | int) -> None:
        """Add a module entry that stands in the file under the keys `origin`."""
        if section in SESSION_MODULES:
            self.data.setdefault("session", {})[section] = dict(entry)
            self._lines["session", section] = origin
        else:
            entries = self.data.setdefault(section, [])
            self._lines[section, len(entries)] = origin
            entries.append(dict(entry))

    def document(self) -> Document:
        return _Reshaped(self._of.path, self.data, "", SimpleNamespace(of=self._of, lines=self._lines))


class _Reshaped(Document):
    """A document whose keys stand elsewhere in its file."""

    def line(self, *keys: str | int) -> int:
        """Return the line of the entry that `keys` lead to, or of the nearest one around it that exists."""
        origin = self._node.lines.get(keys[:2])
        return int(self._node.of.line(*origin, *keys[2:]) if origin is not None else 1)


Places = Mapping[str, list[_Place]]


def _providers(shaped: _Shaped, data: Mapping[str, Any], places: Places) -> None:
    for index, entry in enumerate((data.get("config") or {}).get("providers") or []):
        shaped.put("providers", entry, "config", "providers", index)


def _modules(shaped: _Shaped, data: Mapping[str, Any], places: Places) -> None:
    for section in MODULE_SECTIONS:
        for index, entry in enumerate((data.get("modules") or {}).get(section) or []):
            shaped.put(section, entry, "modules", section, index)


def _overrides(shaped: _Shaped, data: Mapping[str, Any], places: Places) -> None:
    for module, override in (data.get("overrides") or {}).items():
        for place in places.get(module, []) if override else []:
            shaped.put(place.section, {**dict(place.names), **override}, "overrides", module)


def _sources(shaped: _Shaped, data: Mapping[str, Any], places: Places) -> None:
    for module, source in ((data.get("sources") or {}).get("modules") or {}).items():
        for place in places.get(module, []):
            shaped.put(place.section, {**dict(place.names), "source": source}, "sources", "modules", module)


def _places_in(plan: Mapping[str, Any]) -> dict[str, list[_Place]]:
    """Return where in a plan each module stands; providers of agents count as providers."""
    found: dict[str, list[_Place]] = {}
    agents = [agent for agent in (plan.get("agents") or {}).values() if isinstance(agent, Mapping)]
    for section in MODULE_SECTIONS:
        for entry in plan.get(section) or []:
            _note(found, section, entry)
    for agent in agents:
        for entry in agent.get("providers") or []:
            _note(found, "providers", entry)
    for kind in SESSION_MODULES:
        spec = (plan.get("session") or {}).get(kind)
        _note(found, kind, {"module": spec} if isinstance(spec, str) else spec)
    return {module: list(dict.fromkeys(places)) for module, places in found.items()}


def _note(found: dict[str, list[_Place]], section: str, entry: Any) -> None:
    if isinstance(entry, Mapping) and isinstance(entry.get("module"), str):
        names = tuple((key, str(entry[key])) for key in ("id", "module") if entry.get(key))
        found.setdefault(entry["module"], []).append(_Place(section, names))


def _documents(settings: Settings) -> list[tuple[str, Document]]:
    """Return all that has a say, the weakest first: the files, then what the program was given."""
    given = [(GIVEN, Document(Path("given for this run"), settings.given))] if settings.given else []
    return [*settings.documents, *given]


def _layer(scope: str, document: Document) -> Layer:
    """Return the layer of one scope; what lies in a project is named by the project, the personal file too."""
    from amplifier_foundation.bundles.layer import Layer

    whose: Any = "project" if scope in ("project", "local") else "user"
    return Layer(document, whose, whose, f"settings ({scope})", str(document.path))
