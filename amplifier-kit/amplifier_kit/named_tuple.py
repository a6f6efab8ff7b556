"""`NamedTuple`, at next to no cost for the definition.

That of `typing` compiles a constructor and every annotation for each class. A program that imports a hundred of them
and creates a few instances of ten spends more time on defining them than on using them. This one is declared and
behaves the same, and is the same to type checkers. Creating an instance takes about twice as long: where many thousands
are created, use that of `typing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Meta(type):
        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            """Make each annotation of a direct subclass a property, and its value the default."""
            # Without slots each instance could have a dictionary, and attributes that are no fields.
            namespace.setdefault("__slots__", ())
            if tuple not in bases and NamedTuple in bases:  # else it adds methods to the fields of another one
                fields = tuple(namespace.get("__annotations__", ()))
                namespace["_fields"] = namespace["__match_args__"] = fields
                namespace["_field_defaults"] = {field: namespace[field] for field in fields if field in namespace}
                namespace.update({field: property(itemgetter(at)) for at, field in enumerate(fields)})
            return super().__new__(cls, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_Meta):
        """A tuple whose entries are the annotations of the class that derives from it directly."""

        _fields: ClassVar[tuple[str, ...]] = ()
        _field_defaults: ClassVar[dict[str, Any]] = {}

        def __new__(cls, /, *given: Any, **named: Any) -> Self:
            """Create an instance from values in their order or by name; raise TypeError as a function does."""
            fields = cls._fields
            if named or len(given) != len(fields):
                given = (*given, *_rest(cls, len(given), named))
            return tuple.__new__(cls, given)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            return cls(*values)

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changes: Any) -> Self:
            return type(self)(**{**self._asdict(), **changes})

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    def _rest(cls: type[NamedTuple], count: int, named: dict[str, Any]) -> Iterable[Any]:
        """Yield the values after the first `count`, from names and defaults; raise TypeError for what does not fit."""
        fields, defaults = cls._fields, cls._field_defaults
        if count > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} values, got {count}")
        for name in named:
            if name not in fields[count:]:
                problem = "given twice" if name in fields else "unknown"
                raise TypeError(f"{cls.__name__}: argument {name!r} is {problem}")
        for name in fields[count:]:
            if name in named:
                yield named[name]
            elif name in defaults:
                yield defaults[name]
            else:
                raise TypeError(f"{cls.__name__}: argument {name!r} is missing")
