"""The kinds of values a profile is made of; each takes what YAML gave and returns it typed, or says what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from amplifier_digital_twin.profile.places import Fault, FaultyError, Where
from amplifier_digital_twin.profile.quantities import parse_duration, parse_size
from amplifier_foundation.errors import did_you_mean

T = TypeVar("T")
Kind: TypeAlias = Callable[[Any, Where], T]

_TYPE_NAMES = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}


def wrong(where: Where, value: Any, expected: str) -> FaultyError:
    """Return the fault of a value that is not what it must be."""
    shown = repr(value) if isinstance(value, str | int | float | bool) else _TYPE_NAMES.get(type(value), repr(value))
    return where.fault(
        f"must be {expected}, got {shown[:80]}", f"give {where.name or 'the profile'} as {expected}, or remove it"
    )


def text(value: Any, where: Where) -> str:
    """Take any text."""
    if not isinstance(value, str):
        raise wrong(where, value, "a text (in quotes, if it looks like a number)")
    if "\0" in value:
        raise where.fault("holds a NUL character, which no program can take", "remove the character")
    return value


def filled(value: Any, where: Where) -> str:
    """Take a text that is not blank."""
    if not text(value, where).strip():
        raise wrong(where, value, "a text that is not empty")
    return str(value)


def truth(value: Any, where: Where) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise wrong(where, value, "true or false")
    return value


def whole(low: int, high: int) -> Kind[int]:
    """Make the kind of whole numbers from `low` to `high`."""

    def read(value: Any, where: Where) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise wrong(where, value, f"a whole number from {low} to {high}")
        return value

    return read


def amount(value: Any, where: Where) -> float:
    """Take a number above zero."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (math.isfinite(value) and 0 < value <= 1_000_000):
        raise wrong(where, value, "a number above 0")
    return float(value)


def size(value: Any, where: Where) -> int:
    """Take a number of bytes, `512m` or `2g`."""
    return _quantity(parse_size, value, where)


def duration(value: Any, where: Where) -> float:
    """Take a number of seconds, `90s` or `20m`."""
    return _quantity(parse_duration, value, where)


def _quantity(parse: Callable[[object], T], value: Any, where: Where) -> T:
    try:
        parsed = parse(value)
    except ValueError as error:
        raise where.fault(f"cannot be read: {str(value)[:80]!r}", str(error)) from None
    if not parsed:
        raise where.fault("must be above 0", "leave the key out for the default")
    return parsed


def matching(pattern: str, what: str) -> Kind[str]:
    """Make the kind of texts that match a pattern as a whole."""
    compiled = re.compile(pattern, re.ASCII)

    def read(value: Any, where: Where) -> str:
        if not isinstance(value, str) or compiled.fullmatch(value) is None:
            raise wrong(where, value, what)
        return value

    return read


def one_of(*choices: str) -> Kind[Any]:
    """Make the kind of texts that are one of a few."""

    def read(value: Any, where: Where) -> str:
        if not isinstance(value, str) or value not in choices:
            # YAML reads a bare word like `on` as a truth value: the hint compares what was written.
            raise where.fault(f"cannot be {value!r}", did_you_mean(value, list(choices)))
        return value

    return read


def nothing_or(kind: Kind[T]) -> Kind[T | None]:
    """Make the kind that takes `null` too."""

    def read(value: Any, where: Where) -> T | None:
        return None if value is None else kind(value, where)

    return read


def listed(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """Make the kind of lists."""

    def read(value: Any, where: Where) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise wrong(where, value, "a list")
        return tuple(_each([(kind, item, where.at(index)) for index, item in enumerate(value)]))

    return read


def one_or_many(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    """Make the kind that takes one value or a list of them."""
    many = listed(kind)

    def read(value: Any, where: Where) -> tuple[T, ...]:
        return many(value, where) if isinstance(value, list) else (kind(value, where),)

    return read


def mapped(name: Kind[str], kind: Kind[T]) -> Kind[tuple[tuple[str, T], ...]]:
    """Make the kind of mappings with names of the author's own."""

    def read(value: Any, where: Where) -> tuple[tuple[str, T], ...]:
        if not isinstance(value, dict):
            raise wrong(where, value, "a mapping")
        names = _each([(name, key, where.at(str(key))) for key in value])
        return tuple(zip(names, _each([(kind, value[key], where.at(key)) for key in names]), strict=True))

    return read


def json_value(value: Any, where: Where) -> Any:
    """Take anything that JSON can say."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise wrong(where, value, "a mapping whose keys are texts (put them in quotes)")
        return {key: json_value(item, where.at(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [json_value(item, where.at(index)) for index, item in enumerate(value)]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise wrong(where, value, "a value that JSON has (put a date in quotes)")


def expression(value: Any, where: Where) -> str:
    """Take a regular expression."""
    try:
        re.compile(filled(value, where))
    except re.error as error:
        raise where.fault(f"no regular expression: {error}", "escape what is meant literally with \\") from None
    return str(value)


def permissions(value: Any, where: Where) -> int:
    """Take permissions in octal, as a text: `"0644"`."""
    if not isinstance(value, str) or re.fullmatch(r"(0o?)?[0-7]{3,4}", value) is None:
        raise wrong(where, value, 'permissions in octal and in quotes, like "0644"')
    return int(value.removeprefix("0o"), 8)


def inner_path(value: Any, where: Where) -> str:
    """Take a path inside the universe, `~` being the user's home."""
    given = filled(value, where)
    if given == "~" or given.startswith("~/"):
        return where.reading.home + given[1:]
    if not given.startswith("/"):
        raise wrong(where, value, "a path inside the universe that starts with / or ~/")
    return given


def host_file(value: Any, where: Where) -> Path:
    """Take the path of a file or folder of the host that exists, relative to the profile."""
    path = where.reading.host_path(filled(value, where))
    if not path.exists():
        raise where.fault(f"there is no {str(path)!r}", "a relative path starts from the folder of the profile")
    return path


def host_folder(value: Any, where: Where) -> Path:
    """Take the path of a folder of the host that exists, relative to the profile."""
    path = host_file(value, where)
    if not path.is_dir():
        raise where.fault(f"{str(path)!r} is no folder", "name the folder")
    return path


@dataclass(frozen=True)
class Key(Generic[T]):
    """One key of a table: what its value must be, whether it must be there, and the name it gets."""

    kind: Kind[T]
    is_required: bool = False
    to: str = ""


@dataclass(frozen=True)
class Table(Generic[T]):
    """A mapping with known keys, made into a `make`; any other key is a fault."""

    make: Callable[..., T]
    keys: Mapping[str, Key[Any]]
    #: What must hold between the keys.
    check: Callable[[T, Where], None] | None = None
    #: The key that a plain text (or number) in place of the mapping stands for.
    short: str = ""

    def __call__(self, value: Any, where: Where) -> T:
        """Read a mapping; raise FaultyError with everything that is wrong in it."""
        # The place of a value in short form is the value itself: it has no key to point at.
        if self.short and isinstance(value, str | int) and not isinstance(value, bool):
            made = self.make(**{self._target(self.short): self.keys[self.short].kind(value, where)})
        elif isinstance(value, dict):
            made = self.make(**self._read(value, where))
        else:
            raise wrong(where, value, f"a mapping of {', '.join(self.keys)}")
        if self.check is not None:
            self.check(made, where)
        return made

    def check_keys(self, value: Mapping[Any, Any], where: Where) -> None:
        """Raise FaultyError for keys that are unknown or missing, without a look at the values."""
        faults = self._key_faults(value, where)
        if faults:
            raise FaultyError(faults)

    def _read(self, value: dict[Any, Any], where: Where) -> dict[str, Any]:
        known = [name for name in self.keys if name in value]
        faults = self._key_faults(value, where)
        values: list[Any] = []
        try:
            values = _each([(self._kind(name), value[name], where.at(name)) for name in known])
        except FaultyError as error:
            faults.extend(error.faults)
        if faults:
            raise FaultyError(faults)
        return {self._target(name): item for name, item in zip(known, values, strict=True)}

    def _target(self, name: str) -> str:
        return self.keys[name].to or name

    def _kind(self, name: str) -> Kind[Any]:
        return self.keys[name].kind

    def _key_faults(self, value: Mapping[Any, Any], where: Where) -> list[Fault]:
        faults: list[Fault] = []
        for key in value:
            if key not in self.keys or not isinstance(key, str):
                place = f" in {where.name}" if where.keys else ""
                hint = did_you_mean(key, list(self.keys))
                said = f"unknown key {str(key)!r}{place}: {hint}"
                faults.extend(where.at(str(key)).fault(said, f"correct {str(key)!r}, or take it out").faults)
        for name, entry in self.keys.items():
            if entry.is_required and name not in value:
                faults.extend(where.fault(f"the key {name!r} is missing", f"add {name!r}").faults)
        return faults


def _each(items: list[tuple[Kind[Any], Any, Where]]) -> list[Any]:
    """Read values one by one; raise FaultyError with the faults of all of them."""
    faults: list[Fault] = []
    values: list[Any] = []
    for kind, value, where in items:
        try:
            values.append(kind(value, where))
        except FaultyError as error:
            faults.extend(error.faults)
    if faults:
        raise FaultyError(faults)
    return values


def exactly_one(*names: str) -> Callable[[Any, Where], None]:
    """Make the check that exactly one of some keys is given."""

    def check(made: Any, where: Where) -> None:
        read = made.get if isinstance(made, dict) else lambda name: getattr(made, name)
        given = [name for name in names if read(name) is not None]
        if len(given) != 1:
            text_ = f"has {' and '.join(given)}" if given else "says nothing to do"
            raise where.fault(
                f"{text_}: exactly one of {', '.join(names)} is needed", f"keep one of {', '.join(names)}"
            )

    return check
