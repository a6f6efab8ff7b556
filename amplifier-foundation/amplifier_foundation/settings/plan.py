"""Apply settings to the plan of a bundle, and say which file decided what.

Variables stay as written, so that a recorded plan holds no secrets.

| where a value comes from, the weakest first | source | config |
|---|---|---|
| the bundle | yes | yes |
| `sources.modules.<module>` | yes | |
| `overrides.<module>` | yes | yes |
| `modules.<section>` | yes | yes |
| `config.providers` | yes | yes |

The first three also hold for modules inside agents. Mappings are merged, lists replaced; the path lists of
tool-filesystem are joined: a setting never takes a denied path away.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.documents import Document
from amplifier_foundation.merge import ANY, OVERLAY, MergePolicy, copied, join_lists, merge, merge_modules
from amplifier_foundation.settings.sections import with_sections
from amplifier_foundation.settings.variables import Expanded, MissingVariable, expand
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_foundation.bundles.bundle import Layer
    from amplifier_foundation.settings.settings import Settings

_FILESYSTEM: Final = "tool-filesystem"
_PATH_LISTS: Final = ("allowed_read_paths", "allowed_write_paths", "denied_write_paths")
#: As an agent is merged over its parent, except for the path lists.
PLAN: Final = MergePolicy(
    "plan", "replace", OVERLAY.modules, tuple(("tools", ANY, "config", name) for name in _PATH_LISTS)
)
#: The same for one module by itself.
_ENTRY: Final = MergePolicy("plan entry", "replace", united=tuple(("config", name) for name in _PATH_LISTS))
#: The parts of an agent that configure modules; the rest is text for models, in which variables are not expanded.
_AGENT_PARTS: Final = ("session", "provider_preferences", *MODULE_SECTIONS)


def apply_settings(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan with merged settings (`Settings.data`) applied; neither is changed."""
    changed: dict[str, Any] = copied(plan)
    settings = with_sections(settings)
    added = _added(settings)
    for section, entries in added.items():
        known = [{key: entry[key] for key in ("id", "module") if key in entry} for entry in entries]
        changed[section] = merge_modules(changed.get(section) or [], known, PLAN, (section,))
    _override(changed, settings)
    for agent in (changed.get("agents") or {}).values():
        if isinstance(agent, dict):
            _override(agent, settings)
    for section, entries in added.items():
        changed[section] = merge_modules(changed[section], entries, PLAN, (section,))
    for part in (changed, *(changed.get("agents") or {}).values()):
        _name_instances(part)
    _allow_project(changed)
    return changed


def expand_plan(plan: Mapping[str, Any], environ: Mapping[str, str]) -> Expanded:
    """Return the plan with variables expanded, and the unset ones. Instructions of agents stay as they are."""
    missing: list[MissingVariable] = []
    expanded: dict[str, Any] = {}
    for key, part in plan.items():
        if key == "agents" and isinstance(part, Mapping):
            expanded[key] = {name: _expand_agent(name, agent, environ, missing) for name, agent in part.items()}
        else:
            expanded[key] = _expand(part, environ, (key,), missing)
    return Expanded(expanded, missing)


def _added(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the module entries of settings by section, those of `config.providers` on top."""
    modules = settings.get("modules") or {}
    found = {section: list(modules.get(section) or []) for section in MODULE_SECTIONS}
    providers = (settings.get("config") or {}).get("providers") or []
    found["providers"] = merge_modules(found["providers"], providers, PLAN, ("providers",))
    return {section: entries for section, entries in found.items() if entries}


def _override(part: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Apply sources and overrides to every module of a plan, or of an agent."""
    session = part.get("session")
    if isinstance(session, dict):
        for kind in SESSION_MODULES:
            _override_single(part, session, kind, settings)
    for section in MODULE_SECTIONS:
        if isinstance(part.get(section), list):
            part[section] = [_overridden(entry, settings) for entry in part[section]]


def _override_single(part: dict[str, Any], session: dict[str, Any], kind: str, settings: Mapping[str, Any]) -> None:
    """Apply overrides to the orchestrator or context, which may be given by its id alone."""
    spec = session.get(kind)
    if isinstance(spec, dict):
        session[kind] = _overridden(spec, settings)
    elif isinstance(spec, str) and _override_of(spec, settings):
        beside = part.get(kind)
        entry: dict[str, Any] = {"module": spec}
        if session.get(f"{kind}_source"):
            entry["source"] = session.pop(f"{kind}_source")
        if isinstance(beside, Mapping) and beside.get("config"):
            entry["config"] = beside["config"]  # the kernel reads it only beside an id
        session[kind] = _overridden(entry, settings)


def _overridden(entry: Any, settings: Mapping[str, Any]) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return merge(entry, _override_of(entry.get("module"), settings), _ENTRY)


def _override_of(module: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source and config that settings override of a module."""
    if not isinstance(module, str):
        return {}
    source = ((settings.get("sources") or {}).get("modules") or {}).get(module)
    override = (settings.get("overrides") or {}).get(module) or {}
    return {**({"source": source} if source else {}), **{key: value for key, value in override.items() if value}}


def _name_instances(part: Any) -> None:
    """Copy `id` to `instance_id`, by which the kernel distinguishes two providers of one module."""
    for entry in (part.get("providers") or []) if isinstance(part, dict) else []:
        if isinstance(entry, dict) and entry.get("id"):
            entry.setdefault("instance_id", entry["id"])


def _allow_project(plan: dict[str, Any]) -> None:
    """Let the file tool of the session write in the project. Agents may have been given less on purpose."""
    for entry in plan.get("tools") or []:
        if isinstance(entry, dict) and entry.get("module") == _FILESYSTEM:
            config = entry["config"] = dict(entry.get("config") or {})
            config["allowed_write_paths"] = join_lists(list(config.get("allowed_write_paths") or []), ["."])


def _expand_agent(name: str, agent: Any, environ: Mapping[str, str], missing: list[MissingVariable]) -> Any:
    if not isinstance(agent, Mapping):
        return agent
    return {
        key: _expand(value, environ, ("agents", name, key), missing) if key in _AGENT_PARTS else copied(value)
        for key, value in agent.items()
    }


def _expand(value: Any, environ: Mapping[str, str], at: tuple[str, ...], missing: list[MissingVariable]) -> Any:
    expanded = expand(value, environ, at)
    missing += expanded.missing
    return expanded.value


# -- settings files as layers of a plan, for explaining it and for trust --


class _Place(NamedTuple):
    """Where a plan has a module, and under what name."""

    section: str
    #: What identifies the entry: its id and module.
    names: tuple[tuple[str, str], ...]


def settings_layers(settings: Settings, plan: Mapping[str, Any] | None = None) -> list[Layer]:
    """Return the settings files in the shape of plans, the weakest first, with the line of every entry.

    The kind of a setting counts more than its scope: sources, overrides, modules, providers. `plan` says in which
    section a module is that settings only override; without it such overrides are left out. Overrides of a provider
    that only agents have are shown among the providers, so that callers see where credentials go; for other modules of
    agents call `override_origin`.
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
    """Return the settings file that decides the source of a module, in agents too, and `file:line`.

    None when neither `overrides` nor `sources` of any scope name a source.
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
    """A document under construction: entries of another one under other keys, each with its line."""

    def __init__(self, document: Document) -> None:
        self._of = document
        self.data: dict[str, Any] = {}
        self._lines: dict[tuple[str | int, ...], tuple[str | int, ...]] = {}

    def put(self, section: str, entry: Mapping[str, Any], *origin: str | int) -> None:
        """Add a module entry that the file has under the keys `origin`."""
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
    """A document whose keys are elsewhere in its file."""

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
    """Return where a plan has each module; providers of agents count as providers."""
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
    """Return all sources of settings, the weakest first: the files, then what the program was given."""
    given = [("given", Document(Path("given for this run"), settings.given))] if settings.given else []
    return [*settings.documents, *given]


def _layer(scope: str, document: Document) -> Layer:
    """Return the layer of one scope; files in a project belong to the project, the user's own there too."""
    from amplifier_foundation.bundles.bundle import Layer

    whose: Any = "project" if scope in ("project", "local") else "user"
    return Layer(document, whose, whose, f"settings ({scope})", str(document.path))
