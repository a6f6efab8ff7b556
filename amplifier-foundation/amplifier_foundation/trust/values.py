"""Find the values in a project's files that only a trusted project may set.

These are endpoints, variables of the environment, paths out of the project, and values that loosen a protection. An
untrusted project may tighten protections, never loosen them:

| A setting that | For example | Needs trust in a project's file |
|---|---|---|
| denies something | `denied_commands`, `blocked_domains` | when it replaces another value |
| allows more | `private_hosts`, `pass_env` | always, unless it is `false` |
| lists all that is allowed | `allowed_domains`, `allowed_paths` | when the user has such a list |
| configures an observer | all of hooks-logging, hooks-approval | always; rules that a bundle adds do not |

A test, `test_protections.py`, classifies every setting of every module that ships.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS
from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.bundles.plan_modules import mentions, said_of
from amplifier_foundation.documents import Document
from amplifier_foundation.merge import SETTINGS, module_key
from amplifier_foundation.settings.settings import Settings
from amplifier_foundation.settings.variables import VARIABLE
from amplifier_foundation.trust.check import ValueUse
from amplifier_foundation.trust.modules import AgentFiles
from amplifier_kit.struct import FrozenStruct

#: What of an agent configures modules; the rest is text for models.
_AGENT_PARTS: Final = ("session", "orchestrator", "spawn", "provider_preferences", *MODULE_SECTIONS)
_PLAN_PARTS: Final = ("session", "orchestrator", "spawn", *MODULE_SECTIONS)
#: Places of settings that end up in a plan.
_SETTINGS: Final = (("config", "providers"), ("modules",), ("overrides",))
#: Names of settings that say where a module reads or writes.
_PATHS: Final = r"(^|_)(cwd|dirs?|director(y|ies)|files?|folders?|paths?|record|roots?|scenario|skills|template)(_|$)"

#: Names of settings that say what a module reads and never writes.
_READ: Final = r"(^|_)(files|model|read|scenario|skills)(_|$)"

#: Names of settings, in small letters and with `_`, that say where a provider sends what it sends, or whom it believes.
_ENDPOINT_NAMES: Final = (
    "address|api_base|authority|base|baseurl|cafile|capath|extra_body|insecure|port|region|resource|server|transport"
)
_ENDPOINT_PARTS: Final = (
    r"(^|_)(api_?keys?|auth|bearer|ca|cacert|certs?|certificates?|credentials?|endpoints?|headers?|hosts?|hostname"
    r"|identity|password|prox(y|ies)|secrets?|ssl|tls|token|ur[il]s?|verify)(_|$)"
)
#: Settings that look like the above by their name and are harmless: they count tokens.
_HARMLESS: Final = frozenset({"token_limit", "token_budget", "max_token"})

_DENIES: Final = r"(denied|blocked)_\w+|instruction_filters|live_values|require_approval|safety_\w+"
#: Some are nested keys, such as `safety_overrides.allow`.
_ALLOWS: Final = (
    r"(^|\.)(pass_env|private_hosts|allowed_commands|safety_overrides\.allow|allowlist|exclude_(events|hooks)"
    r"|inherit_hooks|enable_web_search|enable_state|prompt_cache_retention|auto_cleanup_days|auto_pull|free|price_list"
    r"|deployment_type)(\.|$)"
)
_ALLOW_LISTS: Final = r"allowed_(domains|hosts|(\w+_)?paths)|(exclude|inherit)_tools"
#: Two spellings of one list; when both are set, the second wins.
_TOOLS: Final = frozenset({"exclude_tools", "inherit_tools"})
#: Lists that allow nothing when they are empty; other empty lists allow everything.
_EMPTY_ALLOWS_NOTHING: Final = r"allowed_(\w+_)?paths"
#: Modules that watch or record a session; an invalid config would remove them.
_OBSERVERS: Final = ("hooks-approval", "hooks-logging")
#: Protections of single modules.
_MODULE_SETTINGS: Final = {
    "hooks-mode": re.compile(r"infrastructure_tools"),
    "hooks-redaction": re.compile(r"rules"),
    "tool-mode": re.compile(r"gate_policy"),
    # In the project, it may hold recipes whose gates are approved already.
    "tool-recipes": re.compile(r"session_dir"),
}
#: Sections whose lists replace earlier ones.
_REPLACING: Final = ("overrides", "modules", "agents")

Place = tuple[str | int, ...]


class _Part(FrozenStruct):
    """A part of one file of the project, or of what such a file brings."""

    #: The prefix of the part's keys, in a message.
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
    found += _loosened(parts, [*layers, *of_settings], agents)
    found += _left_out_bundles(settings)
    found += _notifications(settings)
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
    """Yield name, definition and place of the agents whose origin is the project."""
    for name, agent in agents.definitions.items():
        origin = agents.origin(name, layers)
        # An unknown origin counts as the project.
        if origin is None or (origin[0].named_by == "project" and not origin[0].given_by_user):
            yield name, agent, origin[1] if origin is not None else f"agents.{name}"


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


def _loosened(parts: Sequence[_Part], layers: Sequence[Layer], agents: AgentFiles) -> Iterator[ValueUse]:
    """Yield the values that loosen a protection."""
    if not parts:
        return
    mine = [layer.document.data for layer in layers if layer.named_by != "project" or layer.given_by_user]
    theirs = {name for name, _, _ in _agents_of_project(layers, agents)}
    others = [agent for name, agent in agents.definitions.items() if name not in theirs]
    protections = Protections(mine, others, [part.data for part in parts])
    for part in parts:
        for keys, names, value in _values(part.data):
            inner = names if part.prefix[-1] == "spawn" and "config" not in keys else _inner(keys, names)
            setting = Setting(part.prefix, names, inner, value)
            if not isinstance(value, Mapping) and protections.are_loosened_by(setting):
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


def _notifications(settings: Settings) -> Iterator[ValueUse]:
    """Yield the settings of notifications in the project: they decide who is told what a session does."""
    for scope, document in settings.documents:
        config = document.data.get("config") if scope in ("project", "local") else None
        if isinstance(config, Mapping) and config.get("notifications"):
            yield ValueUse("endpoint", "config.notifications", document.where("config", "notifications"))


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
    found: list[Place] = []
    for keys, names, _ in _values(part.data):
        shown = ".".join((*part.prefix, *names))
        if decides_where_credentials_go(shown) and not any(keys[: len(one)] == one for one in found):
            found.append(keys)
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
    """Return the names behind `config`, which the module itself reads; an id `config` does not count."""
    return names[keys.index("config") + 1 :] if "config" in keys else ()


def _names_a_path(inner: tuple[str, ...]) -> bool:
    """Return whether a module's setting, or one around it, says where it reads or writes; denying is harmless."""
    return any(re.search(_PATHS, name) for name in inner) and not any(name.startswith("denied") for name in inner)


def _may_write_control_file(inner: tuple[str, ...], text: str, part: _Part, project: Path) -> bool:
    """Return whether a setting leads to a control file that a module may write; modules do so without asking."""
    from amplifier_kit.guard.control_files import is_control_file

    if not _names_a_path(inner) or any(re.search(_READ, name) for name in inner):
        return False
    try:
        named = Path(text).expanduser()
        # Modules take paths as relative to the project, the file's author perhaps to the file.
        return any(is_control_file(folder / named, project) for folder in (project, part.folder))
    except (OSError, RuntimeError, ValueError):
        return True  # as below


def _leads_out(text: str, part: _Part, inner: tuple[str, ...], project: Path) -> bool:
    """Return whether a path leads out of the project, links followed.

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
        # Fetched files are elsewhere, and may name what comes with them.
        limits = [base if is_plain and not is_inside(base, project) else project for base in bases]
        return not all(is_inside(base / path, limit) for base, limit in zip(bases, limits, strict=True))
    except (OSError, RuntimeError, ValueError):
        return True  # the home of another user, links in a circle, or a name that no file can have


def decides_where_credentials_go(key: str) -> bool:
    """Return whether a dotted key is a provider's setting for an endpoint, a proxy, a certificate or a credential.

    A name that only resembles one needs trust too: asking once too often is better than sending a key away.
    """
    parts = key.split(".")
    if not any(part == "providers" or "provider" in part for part in parts):
        return False
    after_config = parts[parts.index("config") + 1 :] if "config" in parts else []
    if after_config[:1] == ["providers"]:  # the settings' own `config.providers.<module>.config.<name>`
        rest = after_config[1:]
        after_config = rest[rest.index("config") + 1 :] if "config" in rest else []
    return any(_is_sensitive(part) for part in after_config)


def _is_sensitive(name: str) -> bool:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    if plain in _HARMLESS:
        return False
    return re.fullmatch(_ENDPOINT_NAMES, plain) is not None or re.search(_ENDPOINT_PARTS, plain) is not None


class Setting(FrozenStruct):
    """One value in a file of the project."""

    #: The section of the file, which precedes the keys in messages.
    prefix: tuple[str, ...]
    #: The keys to it, with the names of modules instead of indexes.
    names: tuple[str, ...]
    #: The keys after `config`, which the module reads; all keys of `spawn`.
    inner: tuple[str, ...]
    value: Any


class Protections:
    """The protections in force that a project's file could loosen."""

    def __init__(self, mine: Iterable[Mapping[str, Any]], agents: Iterable[Mapping[str, Any]], theirs: Any) -> None:
        """`mine` are the files of the user and the product, `agents` the agents they define, `theirs` the project's."""
        files, defined = list(mine), list(agents)
        self._modules = _modules_by_id([*files, *defined, theirs])
        self._has_hooks = any(
            said.get("config") or said.get("hook-shell")
            for file in files
            for said in said_of(file, "hook-shell")
            if isinstance(said, Mapping)
        )
        self._has_sandbox = any(mentions(file, "sandbox") for file in files)
        self._has_approval = any(mentions(file, "hooks-approval") for file in files)
        plans = [{key: value for key, value in file.items() if key != "agents"} for file in files]
        self._limits = set(_keys_in(plans))
        self._limits_of_agents = self._limits | set(_keys_in([*files, *defined]))

    def are_loosened_by(self, setting: Setting) -> bool:
        """Return whether a value of the project loosens a protection."""
        modules = {module for name in (*setting.names, *setting.prefix) for module in self._modules.get(name, {name})}
        is_replaced, inner, value = setting.prefix[0] in _REPLACING, setting.inner, setting.value
        first = inner[0] if inner else ""
        if "sandbox" in (inner or (setting.names[:1] if setting.prefix[-1] == "session" else ())):
            return self._has_sandbox and value != "required" and setting.prefix[0] != "agents"  # those can only tighten
        if "hook-shell" in modules or value == "hook-shell":
            return self._has_hooks or (bool(first) and first not in ("hooks", "files"))
        if first and not modules.isdisjoint(_OBSERVERS):
            return is_replaced or "hooks-logging" in modules or (first != "rules" and self._has_approval)
        if any(module in modules and known.fullmatch(first) for module, known in _MODULE_SETTINGS.items()):
            return True
        if value is not False and re.search(_ALLOWS, ".".join(inner)):
            return True
        return self._replaces_denial(setting, is_replaced) or self._widens(setting)

    def _replaces_denial(self, setting: Setting, is_replaced: bool) -> bool:
        """Return whether a value replaces one that denies something."""
        at = next((index for index, name in enumerate(setting.inner) if re.fullmatch(_DENIES, name)), None)
        if at is None:
            return False
        is_list = isinstance(setting.value, list) or len(setting.inner) > at + 1
        return not (is_list and (not is_replaced or _is_united(setting, setting.inner[at])))

    def _widens(self, setting: Setting) -> bool:
        """Return whether a value replaces or extends a list of what is allowed."""
        known = self._limits_of_agents if setting.prefix[0] == "overrides" else self._limits
        if known & _TOOLS:
            known = known | _TOOLS
        return any(
            name in known and not (setting.value == [] and re.fullmatch(_EMPTY_ALLOWS_NOTHING, name))
            for name in setting.inner
        )


def _is_united(setting: Setting, name: str) -> bool:
    """Return whether settings extend this list instead of replacing it."""
    place = (*setting.prefix, *setting.names[: setting.names.index(name) + 1])
    return place in SETTINGS.united


def _modules_by_id(data: Any) -> dict[str, set[str]]:
    """Return the modules that each id of an entry refers to."""
    found: dict[str, set[str]] = {}
    for entry in _mappings(data):
        name, module = entry.get("id"), entry.get("module")
        if isinstance(name, str) and isinstance(module, str):
            found.setdefault(name, {name}).add(module)
    return found


def _keys_in(data: Any) -> Iterator[str]:
    return (key for one in _mappings(data) for key in one if isinstance(key, str) and re.fullmatch(_ALLOW_LISTS, key))


def _mappings(value: Any) -> Iterator[Mapping[Any, Any]]:
    if isinstance(value, Mapping):
        yield value
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from _mappings(item)
