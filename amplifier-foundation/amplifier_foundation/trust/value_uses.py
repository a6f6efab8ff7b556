"""Find the values in a project's files that only a trusted project may set: endpoints, variables, ways out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.bundles.layer import Layer
from amplifier_foundation.documents import Document
from amplifier_foundation.merge import module_key
from amplifier_foundation.plan.composed import ValueUse
from amplifier_foundation.settings import Settings
from amplifier_foundation.settings.variables import VARIABLE
from amplifier_foundation.trust.guards import Guards, Setting
from amplifier_foundation.trust.module_uses import AgentFiles

#: What of an agent configures modules; the rest is text for models.
_AGENT_PARTS: Final = ("session", "orchestrator", "spawn", "provider_preferences", *MODULE_SECTIONS)
_PLAN_PARTS: Final = ("session", "orchestrator", "spawn", *MODULE_SECTIONS)
#: Places of settings that end up in a plan.
_SETTINGS: Final = (("config", "providers"), ("modules",), ("overrides",))
#: Names of settings that say where a module reads or writes.
_PATHS: Final = re.compile(
    r"(^|_)(cwd|dirs?|director(y|ies)|files?|folders?|paths?|record|roots?|scenario|skills|template)(_|$)"
)

#: Names of settings that say what a module reads and never writes.
_READ: Final = re.compile(r"(^|_)(files|model|read|scenario|skills)(_|$)")

Place = tuple[str | int, ...]


class _Part(NamedTuple):
    """A part of one file of the project, or of what such a file brings."""

    #: What stands before the keys of the part, in a message.
    prefix: tuple[str, ...]
    data: Any
    #: The file's folder, which relative paths start from.
    folder: Path
    #: The document that `data` is part of, below `place`; None when lines are not known.
    document: Document | None
    place: Place
    where: str = ""

    def at(self, keys: Place) -> str:
        return self.document.where(*self.place, *keys) if self.document is not None else self.where


def value_uses(
    layers: Sequence[Layer], of_settings: Sequence[Layer], settings: Settings, agents: AgentFiles, project: Path
) -> list[ValueUse]:
    """Return every value that a file of the project sets, or one that it brought, and that needs trust.

    `layers` are the bundle's, `of_settings` those of settings. What the user gives for this very run is the user's.
    """
    parts = [*_of_layers(layers), *_of_settings(settings), *_of_agents(layers, agents)]
    found = [use for part in parts for use in _uses(part, project)]
    found += _endpoints([*layers, *of_settings])
    found += _guards(parts, [*layers, *of_settings], agents)
    found += _left_out_bundles(settings)
    return list(dict.fromkeys(found))


def _of_layers(layers: Sequence[Layer]) -> Iterator[_Part]:
    for layer in layers:
        document = layer.document
        if layer.named_by == "project" and not layer.given_by_user:
            for section in _PLAN_PARTS:
                yield _Part((section,), document.data.get(section), document.path.parent, document, (section,))


def _of_settings(settings: Settings) -> Iterator[_Part]:
    for scope, document in settings.documents:
        for keys in _SETTINGS if scope in ("project", "local") else ():
            data: Any = document.data
            for key in keys:
                data = data.get(key) if isinstance(data, Mapping) else None
            yield _Part(keys, data, document.path.parent, document, keys)


def _of_agents(layers: Sequence[Layer], agents: AgentFiles) -> Iterator[_Part]:
    for name, agent, where in _agents_of_project(layers, agents):
        folder = agents.files.get(name, Path(where)).parent
        for section in _AGENT_PARTS:
            yield _Part(("agents", name, section), agent.get(section), folder, None, (), where)


def _agents_of_project(layers: Sequence[Layer], agents: AgentFiles) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the agents that the project speaks for: the name, what it is, and where that stands."""
    for name, agent in agents.definitions.items():
        spoken = agents.spoken_for(name, layers)
        # When nobody knows who put it on the roster, it is taken for the project's.
        if spoken is None or (spoken[0].named_by == "project" and not spoken[0].given_by_user):
            yield name, agent, spoken[1] if spoken is not None else f"agents.{name}"


def _uses(part: _Part, project: Path) -> Iterator[ValueUse]:
    """Yield the variables and the ways out of a part; of an agent the endpoints too, which no layer shows."""
    for keys, names, value in _values(part.data):
        shown = ".".join((*part.prefix, *names))
        if isinstance(value, str) and _has_variable(value):
            yield ValueUse("variable", shown, part.at(keys))
        inner = _inner(keys, names)
        if isinstance(value, str) and _names_a_path(inner) and _leads_out(value, part, inner, project):
            yield ValueUse("path", shown, part.at(keys))
        if isinstance(value, str) and _may_write_control_file(inner, value, part, project):
            yield ValueUse("control", shown, part.at(keys))
    if part.prefix[0] == "agents":
        yield from _endpoints_in(part)


def _guards(parts: Sequence[_Part], layers: Sequence[Layer], agents: AgentFiles) -> Iterator[ValueUse]:
    """Yield what loosens something that keeps things from happening, or hands out your variables."""
    mine = [layer.document.data for layer in layers if layer.named_by != "project" or layer.given_by_user]
    theirs = {name for name, _, _ in _agents_of_project(layers, agents)}
    others = [agent for name, agent in agents.definitions.items() if name not in theirs]
    guards = Guards(mine, others, [part.data for part in parts])
    for part in parts:
        for keys, names, value in _values(part.data):
            inner = names if part.prefix[-1] == "spawn" and "config" not in keys else _inner(keys, names)
            setting = Setting(part.prefix, names, inner, value)
            if not isinstance(value, Mapping) and guards.is_loosened_by(setting):
                yield ValueUse("guard", ".".join((*part.prefix, *names)), part.at(keys))


def bundles_of_user(settings: Settings) -> set[str]:
    """Return the bundles that the user wants in every session; they may hold what guards them."""
    return {name for scope, _, names in _app_bundles(settings) if scope not in ("project", "local") for name in names}


def _left_out_bundles(settings: Settings) -> Iterator[ValueUse]:
    """Yield a list of bundles for every session that lacks one of the user's."""
    mine = bundles_of_user(settings)
    for scope, document, names in _app_bundles(settings):
        if scope in ("project", "local") and not mine.issubset(names):
            yield ValueUse("guard", "bundle.app", document.where("bundle", "app"))


def _app_bundles(settings: Settings) -> Iterator[tuple[str, Document, list[str]]]:
    for scope, document in settings.documents:
        section = document.data.get("bundle")
        named = section.get("app") if isinstance(section, Mapping) else None
        if isinstance(named, list):
            yield scope, document, [str(name) for name in named]


def _endpoints(layers: Sequence[Layer]) -> Iterator[ValueUse]:
    for layer in layers:
        document = layer.document
        if layer.named_by == "project" and not layer.given_by_user:
            data = document.data.get("providers")
            yield from _endpoints_in(_Part(("providers",), data, document.path.parent, document, ("providers",)))


def _endpoints_in(part: _Part) -> Iterator[ValueUse]:
    """Yield what decides where credentials go; of nested values the outermost."""
    from amplifier_foundation.trust.rules import decides_where_credentials_go

    told: list[Place] = []
    for keys, names, _ in _values(part.data):
        shown = ".".join((*part.prefix, *names))
        if decides_where_credentials_go(shown) and not any(keys[: len(one)] == one for one in told):
            told.append(keys)
            yield ValueUse("endpoint", shown, part.at(keys))


def _values(value: Any, keys: Place = (), names: tuple[str, ...] = ()) -> Iterator[tuple[Place, tuple[str, ...], Any]]:
    """Yield all values in nested data: the keys to each in the file, the same by the names of modules, and itself."""
    if keys:
        yield keys, names, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _values(item, (*keys, key), (*names, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _values(item, (*keys, index), (*names, module_key(item) or str(index)))


def _has_variable(text: str) -> bool:
    return "${" in text and any(not found["escape"] for found in re.finditer(VARIABLE, text))


def _inner(keys: Place, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names behind `config`, which the module itself reads; an id that is `config` is no such key."""
    return names[keys.index("config") + 1 :] if "config" in keys else ()


def _names_a_path(inner: tuple[str, ...]) -> bool:
    """Tell whether a module's setting, or one around it, says where it reads or writes; what it denies harms nobody."""
    return any(_PATHS.search(name) for name in inner) and not any(name.startswith("denied") for name in inner)


def _may_write_control_file(inner: tuple[str, ...], text: str, part: _Part, project: Path) -> bool:
    """Tell whether a module may write where a setting leads, and that is a control file; they do so without asking."""
    from amplifier_kit.guard.control_files import is_control_file

    if not _names_a_path(inner) or any(_READ.search(name) for name in inner):
        return False
    try:
        named = Path(text).expanduser()
        # Modules take paths as relative to the project, the file's author perhaps to the file.
        return any(is_control_file(folder / named, project) for folder in (project, part.folder))
    except (OSError, RuntimeError, ValueError):
        return True  # as below


def _leads_out(text: str, part: _Part, inner: tuple[str, ...], project: Path) -> bool:
    """Tell whether a path leads out of the project, links followed.

    Modules take relative paths from the folder that the session works in, bundles a scenario from the file that has it
    or from the root of the bundle, see `anchors.anchor_sources`.
    """
    from amplifier_foundation.bundles.anchors import is_inside

    try:
        path = Path(text.removeprefix("file://")).expanduser()
        is_plain = not path.is_absolute() and ".." not in path.parts
        bases = [part.folder]
        if is_plain or inner != ("scenario",):
            bases.append(project)
        if is_plain and inner == ("scenario",):
            bases += [folder for folder in part.folder.parents if is_inside(folder, project)]
        # What was fetched lies elsewhere, and may name what it brings.
        limits = [base if is_plain and not is_inside(base, project) else project for base in bases]
        return not all(is_inside(base / path, limit) for base, limit in zip(bases, limits, strict=True))
    except (OSError, RuntimeError, ValueError):
        return True  # the home of somebody else, links in a circle, or a name that no file can have
