"""What a session is made of, as plain data: composed once, recorded with the session, used again when it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypedDict

from amplifier_foundation.errors import FoundationError

_VERSION: Final = 1


class RecordError(FoundationError):
    """The record of what a session was made of cannot be used."""

    code = "record_invalid"


class PinRecord(TypedDict):
    """Commit and content of one source when it was fetched."""

    commit: str | None
    sha256: str | None


@dataclass(frozen=True)
class ModuleUse:
    """One module that is not installed with the program: where it comes from, and on whose word."""

    #: The place in the plan: `tools`, `agents.explorer.tools`, `session`, or `packages` for a bundle's own package.
    section: str
    module: str
    #: A source address, a path, or None when the module was found by its id.
    source: str
    owner: str
    named_by: str
    given_by_user: bool
    #: `file:line` of the words that name it.
    where: str


@dataclass(frozen=True)
class Composed:
    """A bundle with its includes and the user's settings, before anything of it is fetched, installed or run.

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
    #: Where the lock of the bundle lies.
    lock: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return the plain data to keep with a session."""
        return {"record": _VERSION, **asdict(self), "modules": [asdict(use) for use in self.modules]}

    def moved(self, before: str, now: str) -> Composed:
        """Return the same with every path in the folder `before` lying in `now` instead."""

        def move(value: Any) -> Any:
            if isinstance(value, str):
                return now + value.removeprefix(before) if f"{value}/".startswith(f"{before}/") else value
            if isinstance(value, dict):
                return {key: move(item) for key, item in value.items()}
            return [move(item) for item in value] if isinstance(value, list) else value

        return replace(self, plan=move(self.plan), context=move(self.context), namespaces=move(self.namespaces))

    @classmethod
    def from_record(cls, record: Mapping[str, Any], where: str) -> Composed:
        """Return what a record says; raise RecordError, naming `where`, for one that cannot be understood."""
        version = record.get("record")
        if version != _VERSION:
            raise RecordError(f"{where}: written by another version of the program (record version {version!r})")
        fields = {key: value for key, value in record.items() if key != "record"}
        try:
            fields["modules"] = tuple(ModuleUse(**use) for use in fields.get("modules", ()))
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise RecordError(f"{where}: not a record of what a session is made of: {error}") from error


def differences(recorded: Composed, current: Composed) -> list[str]:
    """Return, in readable lines and without secrets, how what a session was made of differs from what there is now."""
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
        if before.get(key) != now.get(key)
    ]
    lines += _pin_differences(recorded, current)
    lines += [
        f"context: {name} {'is gone' if name in recorded.context else 'is new'}"
        for name in sorted(recorded.context.keys() ^ current.context.keys())
    ]
    return lines


def with_secrets_of(recorded: Composed, current: Composed) -> Composed:
    """Return the recorded one with values that were masked in the record taken from what there is now."""
    return replace(recorded, plan=_unmasked(recorded.plan, current.plan))


def _unmasked(recorded: Any, current: Any) -> Any:
    from amplifier_foundation.merge import module_key
    from amplifier_kit.redaction import MASK

    if isinstance(recorded, str):
        return current if MASK in recorded and isinstance(current, str) else recorded
    if isinstance(recorded, dict):
        known = current if isinstance(current, dict) else {}
        return {key: _unmasked(value, known.get(key)) for key, value in recorded.items()}
    if isinstance(recorded, list):
        # Modules are told apart by their id; of other lists the same place counts.
        by_id = {module_key(item): item for item in current} if isinstance(current, list) else {}
        by_place = dict(enumerate(current)) if isinstance(current, list) else {}
        return [
            _unmasked(item, by_id.get(module_key(item)) if module_key(item) else by_place.get(place))
            for place, item in enumerate(recorded)
        ]
    return recorded


def _pin_differences(recorded: Composed, current: Composed) -> list[str]:
    """Return the sources that both name and that would be fetched in another state now."""
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
    from amplifier_kit.redaction import Redactor

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
