"""What a session is made of, as plain data: composed once, recorded with the session, used again when it is resumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Final, TypedDict

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.json_codec import decode, encode
from amplifier_foundation.trust.check import PACKAGES, ModuleUse, ValueUse
from amplifier_kit.struct import FrozenStruct

_VERSION: Final = 1


class RecordError(FoundationError):
    """The record of what a session was made of cannot be used."""

    code = "record_invalid"


class PinRecord(TypedDict):
    """Commit and content hash of one source when it was fetched."""

    commit: str | None
    sha256: str | None


class Composed(FrozenStruct):
    """A bundle with its includes and the user's settings, before any of it is fetched, installed or run.

    `plan` still has its `${VARIABLES}`: a record of it holds no key.
    """

    reference: str
    name: str
    version: str
    uri: str
    plan: dict[str, Any]
    instruction: str = ""
    #: Context files by name, and the roots of namespaces, as absolute paths.
    context: dict[str, str] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)
    modules: tuple[ModuleUse, ...] = ()
    #: Commit and content of everything that was fetched.
    pins: dict[str, PinRecord] = field(default_factory=dict)
    #: The path of the bundle's lock.
    lock: str = ""
    #: The folders of the fetched sources that files of the bundle were read from, by address.
    roots: dict[str, str] = field(default_factory=dict)
    #: What needs the project to be trusted, besides modules.
    values: tuple[ValueUse, ...] = ()
    #: The files that contain the instructions of the bundle and of its agents, by the hash of the instruction.
    texts: dict[str, str] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Return the data to record with a session, as JSON values."""
        record = {
            **asdict(self),
            "modules": [use._asdict() for use in self.modules],
            "values": [use._asdict() for use in self.values],
        }
        return {"record": _VERSION, **record, "plan": encode(self.plan)}

    def moved(self, before: str, now: str) -> Composed:
        """Return a copy in which every path in the folder `before` is in `now` instead."""

        def move(value: Any) -> Any:
            if isinstance(value, str):
                return now + value.removeprefix(before) if f"{value}/".startswith(f"{before}/") else value
            if isinstance(value, dict):
                return {key: move(item) for key, item in value.items()}
            return [move(item) for item in value] if isinstance(value, list) else value

        return replace(
            self,
            plan=move(self.plan),
            context=move(self.context),
            namespaces=move(self.namespaces),
            roots=move(self.roots),
            texts=move(self.texts),
            modules=tuple(use._replace(source=move(use.source)) for use in self.modules),
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any], where: str) -> Composed:
        """Parse a record; raise RecordError, naming `where`, for an invalid one."""
        version = record.get("record")
        if version != _VERSION:
            raise RecordError(f"{where}: written by another version of the program (record version {version!r})")
        given = {key: value for key, value in record.items() if key != "record"}
        try:
            given["plan"] = decode(given["plan"])
            given["modules"] = tuple(ModuleUse(**use) for use in given.get("modules", ()))
            given["values"] = tuple(ValueUse(**use) for use in given.get("values", ()))
            composed = cls(**given)
            for part in fields(cls):
                if not isinstance(getattr(composed, part.name), _KINDS[part.name]):
                    raise TypeError(f"{part.name!r} is of the wrong kind")
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RecordError(f"{where}: not a record of what a session is made of: {error}") from error
        return composed


#: What `--provider`, `--model` and `--max-tokens` set for one session: which model answers is said anyway.
_CHOSEN: Final = r"providers\..+\.config\.(default_model|max_tokens|priority)"
_TEXTS: Final = ("reference", "name", "version", "uri", "instruction", "lock")
_MAPPINGS: Final = ("plan", "context", "namespaces", "pins", "roots", "texts")
_KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(_TEXTS, str),
    **dict.fromkeys(_MAPPINGS, dict),
    **dict.fromkeys(("modules", "values"), tuple),
}


def differences(recorded: Composed, current: Composed) -> list[str]:
    """Return, in readable lines and without secrets, how the record of a session differs from its current parts."""
    from amplifier_kit.guard.redaction.redactor import Redactor

    lines: list[str] = []
    for what, was, would_be in (
        ("bundle", f"{recorded.name} {recorded.version}", f"{current.name} {current.version}"),
        ("bundle source", recorded.uri, current.uri),
    ):
        if was != would_be:
            lines.append(f"{what}: {was} when the session was made, {would_be} now")
    if recorded.instruction != current.instruction:
        lines.append("instruction: the system instruction has changed")
    before, now = _leaves(recorded.plan), _leaves(current.plan)
    lines += [
        f"{key}: {_shown(before, key)} when the session was made, {_shown(now, key)} now"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key) and repr(before.get(key)) != repr(now.get(key))
        if key in now or not re.fullmatch(_CHOSEN, key)
    ]
    lines += _placed_differences(recorded, current)
    lines += _pin_differences(recorded, current)
    lines += _context_differences(recorded, current)
    redactor = Redactor(rules=("secrets",))
    return [redactor.scrub_text(line) for line in lines]


def with_secrets_of(recorded: Composed, current: Composed) -> Composed:
    """Return the recorded one with masked values taken from the current one, as far as they fit."""
    now = {(use.section, use.module): use.source for use in current.modules}
    modules = tuple(
        use._replace(source=_unmasked(use.source, now.get((use.section, use.module)))) for use in recorded.modules
    )
    addresses = [*current.roots, *now.values()]
    return replace(
        recorded,
        plan=_unmasked(recorded.plan, current.plan),
        uri=_unmasked(recorded.uri, current.uri),
        instruction=_unmasked(recorded.instruction, current.instruction),
        context=_unmasked(recorded.context, current.context),
        namespaces=_unmasked(recorded.namespaces, current.namespaces),
        modules=modules,
        pins={_address(uri, [*current.pins]): pin for uri, pin in recorded.pins.items()},
        roots={_address(uri, addresses): root for uri, root in recorded.roots.items()},
    )


def masked_keys(composed: Composed) -> list[str]:
    """Return the dotted keys of the plan whose values are masked, since a record must not contain secrets."""
    return [key for key, value in _leaves(composed.plan).items() if _is_masked(value)]


def _address(uri: str, addresses: list[str]) -> str:
    return next((address for address in addresses if _fits(uri, address)), uri) if _is_masked(uri) else uri


def _is_masked(value: Any) -> bool:
    from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK

    if isinstance(value, list):
        return any(map(_is_masked, value))
    if isinstance(value, dict):
        return any(map(_is_masked, value.values()))
    return isinstance(value, str) and (MASK in value or PII_MASK in value)


def _fits(masked: str, text: Any) -> bool:
    """Return whether a text equals the masked one except for the masked parts."""
    import re

    from amplifier_kit.guard.redaction.prefilter import MASK, PII_MASK

    if not isinstance(text, str):
        return False
    parts = re.split("|".join(map(re.escape, (MASK, PII_MASK))), masked)
    return re.fullmatch(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None


def _unmasked(recorded: Any, current: Any) -> Any:
    from amplifier_foundation.merge import module_key

    if isinstance(recorded, str):
        return current if _is_masked(recorded) and _fits(recorded, current) else recorded
    if isinstance(recorded, dict):
        known = current if isinstance(current, dict) else {}
        return {key: _unmasked(value, known.get(key)) for key, value in recorded.items()}
    if isinstance(recorded, list):
        # Modules are matched by their id, entries of other lists by their position.
        by_id = {module_key(item): item for item in current} if isinstance(current, list) else {}
        by_place = dict(enumerate(current)) if isinstance(current, list) else {}
        return [
            _unmasked(item, by_id.get(module_key(item)) if module_key(item) else by_place.get(place))
            for place, item in enumerate(recorded)
        ]
    return recorded


def _placed_differences(recorded: Composed, current: Composed) -> list[str]:
    """Return the modules whose source in the plan is overridden by a folder, then or now."""
    before, now = _placed(recorded), _placed(current)
    return [
        f"module {name}: from {before.get(name, 'where the plan says')} when the session was made, "
        f"from {now.get(name, 'where the plan says')} now"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _placed(composed: Composed) -> dict[str, str]:
    named = {value for value in _leaves(composed.plan).values() if isinstance(value, str)}
    return {use.module: use.source for use in composed.modules if use.section != PACKAGES and use.source not in named}


def _context_differences(recorded: Composed, current: Composed) -> list[str]:
    """Return the context files that were added, removed or replaced; a moved source does not replace its files."""
    lines = [
        f"context: {name} {'is gone' if name in recorded.context else 'is new'}"
        for name in sorted(recorded.context.keys() ^ current.context.keys())
    ]
    for name in sorted(recorded.context.keys() & current.context.keys()):
        before, now = recorded.context[name], current.context[name]
        if _in_source(before, recorded.roots) != _in_source(now, current.roots):
            lines.append(f"context: {name} was {before} when the session was made, is {now} now")
    return lines


def _in_source(path: str, roots: Mapping[str, str]) -> str:
    """Return a path with the folder of its source replaced by that source's address."""
    for uri, root in roots.items():
        if f"{path}/".startswith(f"{root}/"):
            return uri + path.removeprefix(root)
    return path


def _pin_differences(recorded: Composed, current: Composed) -> list[str]:
    """Return the sources that both name and of which a different state would be fetched now."""
    lines = []
    for uri in sorted(recorded.pins.keys() & current.pins.keys()):
        before, now = recorded.pins[uri], current.pins[uri]
        if before != now:
            lines.append(f"lock: {uri} was {_pin(before)}, is {_pin(now)} now")
    return lines


def _pin(pin: PinRecord) -> str:
    return (pin.get("commit") or pin.get("sha256") or "unknown")[:12]


def _shown(leaves: Mapping[str, Any], key: str) -> str:
    if key not in leaves:
        return "not set"
    from amplifier_kit.guard.redaction.redactor import Redactor

    name = key.rpartition(".")[2]
    text = repr(Redactor([]).scrub({name: leaves[key]}).value[name])
    return text if len(text) <= 80 else f"{text[:79]}…"


def _leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return a plan's values by dotted key; modules of a list go by their id, so that a new one moves no other."""
    from amplifier_foundation.merge import module_key

    if isinstance(value, dict) and value:
        entries = list(value.items())
    elif isinstance(value, list) and value and all(module_key(item) for item in value):
        entries = [(module_key(item), item) for item in value]
    else:
        return {prefix: value}
    leaves: dict[str, Any] = {}
    for key, item in entries:
        leaves |= _leaves(item, f"{prefix}.{key}" if prefix else str(key))
    return leaves
