"""Find for every setting of a composed bundle which file and line set it, and which values it replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.anchors import beside, is_relative, root_above
from amplifier_foundation.bundles.bundle import Bundle, Layer, Owner
from amplifier_foundation.merge import SETTINGS, join_lists, module_key
from amplifier_kit.named_tuple import NamedTuple

Keys = tuple[str, ...]
Place = tuple[str | int, ...]
_SOURCES: Final = ("source", *(f"{kind}_source" for kind in SESSION_MODULES))
#: Lists that settings join instead of replacing them, as they are called inside a module.
_UNITED: Final = frozenset(place[-2:] for place in SETTINGS.united)


class Loser(NamedTuple):
    """A value that another file replaced."""

    value: Any
    #: `file:line`.
    where: str
    bundle: str


class Setting(NamedTuple):
    """One value of a composed bundle and where it comes from."""

    #: Modules go by their id, as in `tools.tool-bash.config.timeout`; names of agents and context may hold dots.
    key: str
    value: Any
    #: `file:line` of the last file to set it.
    set_by: str
    bundle: str
    #: Values that were replaced, in order of composition.
    lost: tuple[Loser, ...] = ()
    #: Earlier lists that this one was joined to.
    joined: tuple[Loser, ...] = ()


@dataclass
class _Record:
    value: Any
    where: str
    bundle: str
    lost: list[Loser] = field(default_factory=list)
    joined: list[Loser] = field(default_factory=list)

    def as_loser(self) -> Loser:
        return Loser(self.value, self.where, self.bundle)


def explain(bundle: Bundle, extra_layers: Sequence[Layer] = ()) -> list[Setting]:
    """Return every setting in the order of first mention.

    `extra_layers` are laid over the bundle, in the shape of bundles: those of settings, whose lists replace others.
    Sources of the bundle are shown as they are in its plan, with absolute paths.
    """
    records: dict[Keys, _Record] = {}
    for layer in bundle.layers:
        for keys, value, place in _leaves(layer):
            _set(records, keys, _meant(keys, value, layer), layer, place, joins=True)
    for keys, record in records.items():
        is_there, value = _value_in(bundle, keys)
        record.value = value if is_there else record.value
    for layer in extra_layers:
        for keys, value, place in _leaves(layer):
            _set(records, keys, value, layer, place, joins=keys[-2:] in _UNITED)
    settings = [_setting(keys, record) for keys, record in records.items()]
    prompt = _prompt(bundle)
    return [prompt, *settings] if prompt is not None else settings


def origin_of(layers: Sequence[Layer], section: str, key: str) -> Layer | None:
    """Return the layer that decides where a module comes from: the last that gives a source, else the first to name it.

    `section` is `session`, `tools` and its like, `spawn.tools`, or these inside an agent as in `agents.explorer.tools`.
    `key` is the module's key in its list; in a session it may also be `orchestrator` or `context`.
    """
    mentions = list(_mentions(layers, section, key))
    with_source = [layer for layer, _, source in mentions if source]
    if with_source:
        return with_source[-1]
    return mentions[0][0] if mentions else None


def named_at(layers: Sequence[Layer], section: str, key: str) -> str | None:
    """Return `file:line` of the words in the layer of `origin_of` that name the module, or its source."""
    origin = origin_of(layers, section, key)
    found = None
    for layer, place, source in _mentions(layers, section, key):
        if layer is origin and (found is None or source):
            is_short_form = str(place[-1]).endswith("_source")
            found = layer.document.where(*place, *(("source",) if source and not is_short_form else ()))
    return found


def config_origin(
    layers: Sequence[Layer], section: str, key: str, config_keys: Sequence[str | int]
) -> tuple[str, Owner] | None:
    """Return `file:line` of the last words that set a key in the config of a module, and whose file it is.

    `section` and `key` are those of `origin_of`. None when no file sets it: an app did, or a default.
    """
    found = None
    for layer, place, _ in _mentions(layers, section, key):
        names = (*place, "config", *config_keys)
        if _is_set(layer.document.data, names):
            found = layer.document.where(*names), layer.owner
    return found


def _is_set(value: Any, keys: Place) -> bool:
    for key in keys:
        is_item = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if not is_item and not (isinstance(value, Mapping) and key in value):
            return False
        value = value[key]
    return True


def _setting(keys: Keys, record: _Record) -> Setting:
    lost = [loser for loser in record.lost if loser.where != record.where and loser.value != record.value]
    joined = [loser for loser in record.joined if loser.where != record.where]
    return Setting(
        ".".join(keys),
        record.value,
        record.where,
        record.bundle,
        _each_once(lost),
        _each_once(joined),
    )


def _each_once(losers: list[Loser]) -> tuple[Loser, ...]:
    return tuple({(loser.where, repr(loser.value)): loser for loser in losers}.values())


def _prompt(bundle: Bundle) -> Setting | None:
    """Return who gave the instruction: the last file that has the very text the bundle has."""
    given = [layer for layer in bundle.layers if layer.document.body]
    if not bundle.instruction:
        return None
    winner = next((layer for layer in reversed(given) if layer.document.body == bundle.instruction), None)
    losers = {
        str(layer.document.path): Loser(layer.document.body, _body_of(layer), layer.bundle)
        for layer in given
        if layer.document.body != bundle.instruction
    }
    where = _body_of(winner) if winner is not None else "in memory"
    by = winner.bundle if winner is not None else bundle.name
    return Setting("instruction", bundle.instruction, where, by, tuple(losers.values()))


def _body_of(layer: Layer) -> str:
    return f"{layer.document.path}:{layer.document.body_line}"


def _leaves(layer: Layer) -> Iterator[tuple[Keys, Any, Place]]:
    """Yield what a file sets: the key it has in the plan, the value, and the keys that lead to it in the file."""
    data = layer.document.data
    for section in ("session", "spawn", "orchestrator"):
        if data.get(section):
            yield from _nested(data[section], (section,), (section,))
    for section in MODULE_SECTIONS:
        for index, entry in enumerate(data.get(section) or ()):
            key = module_key(entry)
            if key is not None:
                yield from _nested(entry, (section, key), (section, index))
    agents, context = data.get("agents"), data.get("context")
    if isinstance(agents, Mapping):
        for index, name in enumerate(agents.get("include") or ()):
            yield ("agents", str(name)), {}, ("agents", "include", index)
        for name, agent in agents.items():
            if name != "include":
                yield ("agents", str(name)), agent, ("agents", name)
    if isinstance(context, Mapping):
        for index, path in enumerate(context.get("include") or ()):
            yield ("context", _context_key(str(path), layer)), path, ("context", "include", index)
        for name, path in context.items():
            if name != "include":
                yield ("context", _context_key(str(name), layer)), path, ("context", name)


def _meant(keys: Keys, value: Any, layer: Layer) -> Any:
    """Return a relative source as the path it means in its file, so that two spellings of one path do not compete."""
    if keys[-1] not in _SOURCES or not isinstance(value, str) or not is_relative(value):
        return value
    file = layer.document.path
    root = root_above(file, Path(file.anchor))
    candidates = [*beside(file.parent, value), *(beside(root.parent, value) if root is not None else ())]
    return str(next((path for path in candidates if path.exists()), candidates[0]))


def _nested(value: Any, keys: Keys, place: Place) -> Iterator[tuple[Keys, Any, Place]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _nested(item, (*keys, str(key)), (*place, key))
    else:
        yield keys, value, place


def _context_key(name: str, layer: Layer) -> str:
    return name if ":" in name else f"{layer.bundle}:{name}"


def _set(records: dict[Keys, _Record], keys: Keys, value: Any, layer: Layer, place: Place, *, joins: bool) -> None:
    """Add a value as composing would: it replaces the earlier one; a list is joined to the earlier one."""
    record = _Record(value, layer.document.where(*place), layer.bundle)
    below = [known for known in records if known[: len(keys)] == keys and known != keys]
    if isinstance(value, Mapping) and not value and below and keys[0] != "agents":
        return  # an empty mapping adds nothing to one that has keys
    for known in below:
        record.lost += [*records[known].lost, records.pop(known).as_loser()]
    for length in range(1, len(keys)):
        above = records.pop(keys[:length], None)
        if above is not None and above.value != {}:
            record.lost += [*above.lost, above.as_loser()]
    before = records.get(keys)
    if before is not None:
        if joins and isinstance(before.value, list) and isinstance(value, list):
            record.joined += [*before.joined, before.as_loser()]
            record.lost += before.lost
            record.value = join_lists(before.value, value)
        else:
            record.lost += [*before.lost, *before.joined, before.as_loser()]
    records[keys] = record


def _value_in(bundle: Bundle, keys: Keys) -> tuple[bool, Any]:
    """Return whether the composed bundle has a value under these keys, and which."""
    value: Any = getattr(bundle, keys[0])
    for key in keys[1:]:
        if isinstance(value, list):
            value = next((entry for entry in value if module_key(entry) == key), None)
        elif isinstance(value, Mapping) and key in value:
            value = value[key]
        else:
            return False, None
    return value is not None, value


def _mentions(layers: Sequence[Layer], section: str, key: str) -> Iterator[tuple[Layer, Place, Any]]:
    """Yield the layers that name a module, where they do, and the source they give."""
    names = _section_names(section)
    chosen = layers
    if names[0] == "agents":  # the last definition of an agent replaces earlier ones
        chosen = [layer for layer in layers if isinstance(_inside(layer.document.data, names[:2]), Mapping)][-1:]
    for layer in chosen:
        part = _inside(layer.document.data, names)
        if names[-1] == "session" and isinstance(part, Mapping):
            yield from _session_mentions(layer, part, names, key)
        for index, entry in enumerate(part if isinstance(part, list) else ()):
            if module_key(entry) == key:
                yield layer, (*names, index), entry.get("source")


def _session_mentions(
    layer: Layer, session: Mapping[str, Any], names: Keys, key: str
) -> Iterator[tuple[Layer, Place, Any]]:
    for kind in SESSION_MODULES:
        spec = session.get(kind)
        module = spec.get("module") if isinstance(spec, Mapping) else spec
        if spec is None or key not in (kind, module):
            continue
        if isinstance(spec, Mapping):
            yield layer, (*names, kind), spec.get("source")
        else:
            yield layer, (*names, kind), None
            if session.get(f"{kind}_source"):
                yield layer, (*names, f"{kind}_source"), session[f"{kind}_source"]


def _section_names(section: str) -> Keys:
    """Return the keys of a section; the name of an agent may hold dots itself."""
    if section.startswith("agents."):
        name, _, part = section.removeprefix("agents.").rpartition(".")
        return ("agents", name, part)
    return tuple(section.split("."))


def _inside(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
