"""Pydantic models that are made when the first value is checked.

Making the class of a pydantic model takes longer than all that most modules of a session do with their config, which is
to read its defaults. A subclass of `DeferredModel` is written like a model, with annotations, `Field`, validators and
private attributes, and is a plain class: its defaults are read from the class, and pydantic makes a model of the same
fields and validators when there is something to check, dump or describe. Type checkers see a `BaseModel`.

Validators cannot use `super()` without arguments, because they run in that model.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from copy import deepcopy
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel
from pydantic.fields import FieldInfo, ModelPrivateAttr
from pydantic_core import PydanticUndefined, SchemaSerializer, core_schema

__all__ = ["DeferredModel"]

if TYPE_CHECKING:
    from pydantic import BaseModel as DeferredModel
else:
    #: What the interpreter adds to every class, and no model may inherit.
    _OF_CLASSES: Final = ("__dict__", "__weakref__", "__slots__")
    _IMMUTABLE: Final = (str, int, float, bool, type(None), tuple, frozenset)

    _DUMP: Final = core_schema.plain_serializer_function_ser_schema(lambda value: value.model_dump())

    class _DeferredType(type):
        def __getattr__(cls, name: str) -> Any:
            """Return what only the model has: its fields, its JSON schema."""
            if name.startswith("__"):
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
            return getattr(_model_of(cls), name)

    class DeferredModel(metaclass=_DeferredType):
        """Base of models that are made late."""

        __slots__ = ("__dict__", "model_fields_set")
        #: How `pydantic_core` makes JSON of an instance, wherever it finds one.
        __pydantic_serializer__ = SchemaSerializer(core_schema.any_schema(serialization=_DUMP))

        def __init__(self, **given: Any) -> None:
            """Set and check the fields; raise ValidationError."""
            _fill(self, _model_of(type(self))(**given))

        @classmethod
        def model_construct(cls, **given: Any) -> Self:
            """Return an instance of these values and the defaults, unchecked."""
            return _filled(cls, {**_defaults(cls), **given}, set(given))

        @classmethod
        def model_validate(cls, value: Any, **options: Any) -> Self:
            """Return an instance of a mapping; raise ValidationError."""
            if isinstance(value, cls):
                return value
            return _fill(object.__new__(cls), _model_of(cls).model_validate(value, **options))

        def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
            """Return a copy with other values, unchecked."""
            changes = dict(update or {})
            return _filled(type(self), {**vars(self), **changes}, self.model_fields_set | changes.keys())

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
            """Let other models have fields of this type."""

            def read(value: Any, validate: Any) -> Any:
                return value if isinstance(value, cls) else _fill(object.__new__(cls), validate(value))

            schema = handler.generate_schema(_model_of(cls))
            return core_schema.no_info_wrap_validator_function(read, schema, serialization=_DUMP)

        def __getattr__(self, name: str) -> Any:
            """Return what only an instance of the model has: its dumps."""
            if not name.startswith("model_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(_as_model(self), name)

        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_") and name != "model_fields_set":
                setattr(_as_model(self), name, value)  # which raises an error, or checks the value
            object.__setattr__(self, name, value)

        def __iter__(self) -> Iterator[tuple[str, Any]]:
            """Yield the fields with their values."""
            return ((name, value) for name, value in vars(self).items() if not name.startswith("_"))

        def __eq__(self, other: object) -> bool:
            return type(other) is type(self) and vars(self) == vars(other)

        def __hash__(self) -> int:
            return hash((type(self), *vars(self).values()))

        def __repr__(self) -> str:
            return repr(_as_model(self))

    def _model_of(cls: type[DeferredModel]) -> type[BaseModel]:
        """Return the pydantic model of a class."""
        made: type[BaseModel] | None = cls.__dict__.get("_deferred_model")
        if made is None:
            bases = tuple(_model_of(base) for base in cls.__bases__ if base is not DeferredModel) or (BaseModel,)
            # Class methods stay those of the class, where `super()` works.
            body = {
                name: staticmethod(getattr(cls, name)) if isinstance(value, classmethod) else value
                for name, value in vars(cls).items()
                if name not in _OF_CLASSES
            }
            made = types.new_class(cls.__name__, bases, exec_body=lambda namespace: namespace.update(body))
            cls._deferred_model = made
        return made

    def _defaults(cls: type[DeferredModel]) -> dict[str, Any]:
        """Return the defaults of all fields and private attributes, read from the class if it has all of them."""
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            for name, annotation in get_annotations(base).items() if isinstance(base, _DeferredType) else ():
                given = base.__dict__.get(name, PydanticUndefined)
                if name == "model_config" or "ClassVar" in str(annotation):
                    continue
                value = _default(given)
                if value is PydanticUndefined:  # required, or its default is in the annotation
                    model = _model_of(cls).model_construct()
                    return {**vars(model), **(model.__pydantic_private__ or {})}
                found[name] = value
        return found

    def _default(given: Any) -> Any:
        """Return the default of one field."""
        if isinstance(given, FieldInfo):
            return given.get_default(call_default_factory=True, validated_data={})
        if isinstance(given, ModelPrivateAttr):
            return given.get_default()
        return given if isinstance(given, _IMMUTABLE) or given is PydanticUndefined else deepcopy(given)

    def _fill(empty: Any, model: BaseModel) -> Any:
        """Take the values of a checked model."""
        vars(empty).update(vars(model), **(model.__pydantic_private__ or {}))
        empty.model_fields_set = model.model_fields_set
        return empty

    def _filled(cls: type[DeferredModel], values: Mapping[str, Any], given: set[str]) -> Any:
        made = object.__new__(cls)
        vars(made).update(values)
        made.model_fields_set = given
        return made

    def _as_model(self: DeferredModel) -> BaseModel:
        return _model_of(type(self)).model_construct(self.model_fields_set, **vars(self))
