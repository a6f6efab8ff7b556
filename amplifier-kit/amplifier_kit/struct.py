"""Classes with named fields, like data classes, that cost next to nothing to define.

`@dataclass` writes and compiles the methods of every class when it is defined. Defining the classes that a run imports
took longer than anything it does with them: it creates a few hundred instances. Structs share their methods, and find
their fields when the first instance is created.

Declare fields as in a data class, with `dataclasses.field` where a default needs it; `replace`, `fields` and `asdict`
of `dataclasses` accept structs. Where thousands of instances are created, a data class or a named tuple is faster.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from inspect import get_annotations
from typing import Any, ClassVar, Final, NoReturn, dataclass_transform


class _DataclassFields:
    """Make a struct a data class when `dataclasses` asks for its fields."""

    def __get__(self, struct: object, owner: type[_Fields]) -> dict[str, Field[Any]]:
        if owner in _BASES:
            raise AttributeError("__dataclass_fields__")
        dataclass(init=False, repr=False, eq=False)(owner)
        made: dict[str, Field[Any]] = owner.__dict__["__dataclass_fields__"]
        return made


class _Fields:
    """What frozen and other structs have in common."""

    __dataclass_fields__ = _DataclassFields()
    __struct_fields__: ClassVar[dict[str, Field[Any]]]

    def __init__(self, *given: Any, **named: Any) -> None:
        """Set the fields from arguments in their order or by name; raise TypeError as a function does."""
        declared = _fields_of(type(self))
        if len(given) > len(declared):
            raise TypeError(f"{type(self).__name__} takes {len(declared)} arguments, got {len(given)}")
        values = dict(zip(declared, given, strict=False))
        for name, value in named.items():
            if name not in declared or name in values:
                problem = "given twice" if name in values else "unknown"
                raise TypeError(f"{type(self).__name__}: argument {name!r} is {problem}")
            values[name] = value
        # In the order of the fields, which the hash relies on.
        self.__dict__.update(
            {name: values[name] if name in values else _default(self, name, one) for name, one in declared.items()}
        )
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields; for subclasses, which may raise what describes the problem."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._compared())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, one in _fields_of(type(self)).items() if one.repr)
        return f"{type(self).__qualname__}({shown})"

    def _compared(self) -> list[str]:
        return [name for name, one in _fields_of(type(self)).items() if one.compare]


@dataclass_transform(field_specifiers=(field,))
class Struct(_Fields):
    """A class whose fields are its annotations; instances are equal if they have the same type and equal fields."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class FrozenStruct(_Fields):
    """A struct that cannot be changed; hashable if its fields are."""

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self._compared()))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


_BASES: Final = (_Fields, Struct, FrozenStruct)


def _fields_of(struct: type[_Fields]) -> dict[str, Field[Any]]:
    """Return the fields of a class by name, those of its bases first."""
    known: dict[str, Field[Any]] | None = struct.__dict__.get("__struct_fields__")
    if known is None:
        known = {}
        for base in reversed(struct.__mro__[1:]):
            if issubclass(base, _Fields) and base not in _BASES:
                known |= _fields_of(base)
        for name, annotation in get_annotations(struct).items():
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
                default = struct.__dict__.get(name, MISSING)
                known[name] = default if isinstance(default, Field) else field(default=default)
        struct.__struct_fields__ = known
    return known


def _default(struct: _Fields, name: str, missing: Field[Any]) -> Any:
    if missing.default is not MISSING:
        return missing.default
    if missing.default_factory is not MISSING:
        return missing.default_factory()
    raise TypeError(f"{type(struct).__name__}: argument {name!r} is missing")
