"""Immutable values with named parts, like frozen dataclasses, which cost next to nothing to define.

Every method that `dataclass` writes is compiled when the class is defined. A launch defines some fifty classes, which
took more of its time than the values themselves: of these it makes a few hundred.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from typing import Any, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value:
    """Compares, hashes and shows itself by its parts; `dataclasses.replace`, `fields` and `asdict` know it."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Find the parts of a new kind of value."""
        super().__init_subclass__(**options)
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, *given: Any, **named: Any) -> None:
        """Take the parts in their order or by name; raise TypeError for one that is missing, twice or unknown."""
        parts = type(self).__dataclass_fields__
        if len(given) > len(parts):
            raise TypeError(f"{type(self).__name__} has {len(parts)} parts, and {len(given)} were given")
        values = dict(zip(parts, given, strict=False))
        for name, value in named.items():
            if name not in parts or name in values:
                why = "is given twice" if name in values else "is no part of it"
                raise TypeError(f"{type(self).__name__}: {name!r} {why}")
            values[name] = value
        for name, part in parts.items():
            if name not in values:
                values[name] = _default(self, part)
        self.__dict__.update({name: values[name] for name in parts})

    def __eq__(self, other: object) -> bool:
        """Tell whether it is of the same kind and has the same parts."""
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash of all its parts."""
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        """Show it as it could be written, without the parts that are not to be shown."""
        shown = (name for name, part in type(self).__dataclass_fields__.items() if part.repr)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: `dataclasses.replace` makes another."""
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse."""
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _default(value: Value, part: Field[Any]) -> Any:
    if part.default is not MISSING:
        return part.default
    if part.default_factory is not MISSING:
        return part.default_factory()
    raise TypeError(f"{type(value).__name__}: {part.name!r} is missing")
