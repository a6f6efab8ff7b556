"""Read the config of a module: pydantic models say which keys exist, what they accept and what they default to.

A module declares a model and reads its config with `read_config`:

    class WebConfig(Config):
        timeout: Seconds = Field(10.0, description="Seconds for one request.")

    CONFIG = WebConfig  # published in the package, for tools that check plans or write documentation

    async def mount(coordinator, config=None):
        settings = read_config(WebConfig, config, module="tool-web")

Values are strict: "3" is not a number and 1 is not true. null means the default, except for keys whose type includes
None. A wrong value is an error that names module, key, value and what was expected. A key that the model does not have
is a warning at mount, where its origin is unknown; an app that knows the file checks plans with `check_config` first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, Strict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from amplifier_kit.struct import FrozenStruct

__all__ = [
    "Config",
    "ConfigError",
    "ConfigKey",
    "ConfigProblem",
    "Count",
    "PathText",
    "Paths",
    "Seconds",
    "Text",
    "Texts",
    "check_config",
    "config_keys",
    "config_model",
    "config_schema",
    "expects",
    "read_config",
    "salvage_config",
]

logger = logging.getLogger(__name__)

#: The key of a schema that describes the accepted values, where that says more than the type.
_EXPECTED: Final = "expected"
_LONGEST_VALUE: Final = 200

# -- types of values that several modules share --


def expects(text: str, **constraints: Any) -> Any:
    """Return an annotation that describes a type, and its constraints, in messages: "must be <text>, got ..."."""
    return Field(json_schema_extra={_EXPECTED: text}, **constraints)


Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), expects("a positive number of seconds")]
Text = Annotated[str, Field(pattern=r"\S"), expects("text that is not empty")]
#: A list, which YAML and JSON have in place of a tuple.
Texts = Annotated[tuple[Text, ...], Strict(False), expects("a list of texts that are not empty")]


def _path(value: Any) -> str:
    # Not pydantic's own check of texts: file names need not be valid Unicode.
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text or "\0" in text:
        raise PydanticCustomError("path", "not a path")
    return text


#: An app that makes plans itself may give a `Path`.
PathText = Annotated[str, PlainValidator(_path, json_schema_input_type=str), expects("a path")]
Paths = Annotated[tuple[PathText, ...], Strict(False), expects("a list of paths")]


class Config(BaseModel):
    """Base of all config models.

    Defaults are not checked, so that an empty config costs nothing.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    #: Keys that other readers of the same mapping use: not read, and not unknown.
    tolerated_keys: ClassVar[frozenset[str]] = frozenset()
    #: Keys whose wrong value is a warning and leaves the default, because the published module does so.
    forgiven_keys: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def is_unset(cls, key: str, value: Any) -> bool:
        """Return whether a value leaves a key at its default; null does, unless the key's type includes None."""
        return value is None

    @model_validator(mode="before")
    @classmethod
    def _drop_unset(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        known, nullable = cls.model_fields, _nullable_keys(cls)
        given = {str(key): value for key, value in data.items() if key not in cls.tolerated_keys}
        return {
            key: value
            for key, value in given.items()
            if key not in known or (value is None and key in nullable) or not cls.is_unset(key, value)
        }


_Model = TypeVar("_Model", bound=Config)


@cache
def _nullable_keys(model: type[Config]) -> frozenset[str]:
    fields = model.model_fields.items()
    return frozenset(key for key, field in fields if type(None) in get_args(field.annotation))


# -- problems --


class ConfigProblem(FrozenStruct):
    """One key that is unknown, or has a wrong value."""

    #: The keys that lead to it; empty for the config as a whole.
    keys: tuple[str | int, ...]
    #: The problem and what to do, without the module and the file.
    text: str
    is_unknown: bool = False
    #: Whether the module runs without it: an unknown key, or one of `forgiven_keys`.
    is_ignored: bool = False


class ConfigError(ValueError):
    """The config of a module has wrong values; the message names each of them."""

    def __init__(self, module: str, problems: Collection[ConfigProblem]) -> None:
        super().__init__("\n".join(f"{module}: {problem.text}" for problem in problems))
        self.module = module
        self.problems = tuple(problems)


# -- reading --


def read_config(model: type[_Model], config: Any, *, module: str) -> _Model:
    """Return the config of a module; unknown keys are ignored with a warning.

    Raises ConfigError, a ValueError, that names every wrong value.
    """
    read, problems = _read(model, config)
    for problem in problems:
        if problem.is_ignored:
            logger.warning("%s: %s (ignored)", module, problem.text)
    if read is None:
        raise ConfigError(module, [problem for problem in problems if not problem.is_ignored])
    return read


def salvage_config(model: type[_Model], config: Any) -> tuple[_Model, list[ConfigProblem]]:
    """Return the config with defaults in place of its wrong values, and all problems.

    For guards, which must run whatever their config says. Never raises.
    """
    read, problems = _read(model, config)
    if read is not None:
        return read, problems
    rest = config if isinstance(config, Mapping) else {}
    for problem in problems:
        rest = _without(rest, problem.keys)
    read, _ = _read(model, rest)
    return read if read is not None else _defaults(model), problems


def check_config(model: type[Config], config: Any) -> list[ConfigProblem]:
    """Return all problems of a config, unknown keys included."""
    return _read(model, config)[1]


def _defaults(model: type[_Model]) -> _Model:
    """Return the defaults without building the validator of the model: most modules of a plan have no config."""
    return cast("_Model", model.model_construct())


def _read(model: type[_Model], config: Any) -> tuple[_Model | None, list[ConfigProblem]]:
    given = {} if config is None else config
    if not isinstance(given, Mapping):
        return None, [ConfigProblem((), f"the config must be a mapping, got {_shown((), given)}")]
    if not given.keys() - model.tolerated_keys:
        return _defaults(model), []
    try:
        return model.model_validate(dict(given)), []
    except ValidationError as error:
        problems = _problems(model, given, error)
    if not all(problem.is_ignored for problem in problems):
        return None, problems
    for problem in problems:
        if not problem.is_unknown:
            given = _without(given, problem.keys)
    return model.model_validate(dict(given), extra="ignore"), problems


def _problems(model: type[Config], given: Mapping[str, Any], error: ValidationError) -> list[ConfigProblem]:
    schema = config_schema(model)
    forgiven = {(key,) for key in model.forgiven_keys}
    found: dict[tuple[str | int, ...], ConfigProblem] = {}
    for fault in error.errors(include_url=False, include_input=False):
        if fault["type"] == "extra_forbidden":
            found.setdefault(fault["loc"], _unknown(schema, fault["loc"]))
            continue
        keys, text = _explain(model, schema, given, fault)
        found.setdefault(keys, ConfigProblem(keys, text, is_ignored=keys[:1] in forgiven))
    return list(found.values())


def _unknown(schema: Mapping[str, Any], keys: tuple[str | int, ...]) -> ConfigProblem:
    from difflib import get_close_matches  # rarely needed, and every start would pay for it

    known = sorted(_resolve(schema, _inside(schema, keys[:-1])).get("properties", {}))
    close = get_close_matches(str(keys[-1]), known, n=1)
    if close:
        hint = f"did you mean {_dotted((*keys[:-1], close[0]))!r}?"
    else:
        hint = f"known keys are {', '.join(known)}" if known else "the module has no config keys"
    return ConfigProblem(keys, f"unknown config key {_dotted(keys)!r}: {hint}", is_unknown=True, is_ignored=True)


def _explain(
    model: type[Config], schema: Mapping[str, Any], given: Mapping[str, Any], fault: Mapping[str, Any]
) -> tuple[tuple[str | int, ...], str]:
    """Return the keys that an error of pydantic is about, and the text of the problem."""
    loc: tuple[str | int, ...] = fault["loc"]
    keys, value = _locate(given, loc[:-2] if loc[-1:] == ("[key]",) else loc)
    reason = f": {fault['ctx']['error']}" if fault["type"] == "value_error" else ""
    is_missing = fault["type"] == "missing"
    if not keys:
        # A validator of the model has changed the value into the form that the error is about.
        keys, shown = loc, ""
    else:
        field = model.model_fields.get(str(keys[0]))
        shown = f", got {type(value).__name__ if field is not None and not field.repr else _shown(keys, value)}"
    if not keys:
        return keys, reason.removeprefix(": ")
    keys, shown = (loc, "") if is_missing else (keys, shown)
    kind = "is missing: it must be" if is_missing else "must be"
    return keys, f"config key {_dotted(keys)!r} {kind} {_describe(schema, _inside(schema, keys))}{shown}{reason}"


def _locate(given: Any, loc: tuple[str | int, ...]) -> tuple[tuple[str | int, ...], Any]:
    """Return the keys and the value that an error is about; of a list of plain values, the list."""
    keys: list[str | int] = []
    for part in loc:
        is_entry = isinstance(given, list | tuple) and isinstance(part, int) and isinstance(given[part], Mapping)
        if not is_entry and not (isinstance(given, Mapping) and part in given):
            break
        given = given[part]
        keys.append(part)
    return tuple(keys), given


def _without(given: Mapping[str, Any], keys: tuple[str | int, ...]) -> dict[str, Any]:
    """Return a copy without the entry that keys lead to; of a list, without the list."""
    if not keys:
        return {}
    first, rest = keys[0], keys[1:]
    inner = given.get(str(first))
    kept = {key: value for key, value in given.items() if key != first}
    return {**kept, str(first): _without(inner, rest)} if rest and isinstance(inner, Mapping) else kept


def _shown(keys: tuple[str | int, ...], value: Any) -> str:
    """Return a value for a message, cut and without secrets."""
    from amplifier_kit.guard.redaction.field_names import is_secret_name
    from amplifier_kit.guard.redaction.prefilter import MASK
    from amplifier_kit.guard.redaction.redactor import Redactor

    if any(is_secret_name(str(key)) for key in keys):
        return MASK
    text = repr(Redactor([]).scrub({"value": value}).value["value"])
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _dotted(keys: Collection[str | int]) -> str:
    return ".".join(map(str, keys))


# -- schemas, for messages, tools and documentation --


class ConfigKey(FrozenStruct):
    """One key of a config, for tables: keys of a section are dotted."""

    key: str
    expected: str
    default: Any
    description: str
    is_required: bool = False


def config_model(package: Any) -> type[Config] | None:
    """Return the model that a module's package publishes as `CONFIG`, None when it publishes no model."""
    model = getattr(package, "CONFIG", None)
    return model if isinstance(model, type) and issubclass(model, Config) else None


@cache
def config_schema(model: type[Config]) -> dict[str, Any]:
    return model.model_json_schema()


def config_keys(model: type[Config]) -> list[ConfigKey]:
    """Return all keys in the order of the model, those of sections after the section they belong to."""
    return list(_keys(model, config_schema(model), ""))


def _keys(model: type[Config], schema: Mapping[str, Any], prefix: str) -> Iterator[ConfigKey]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Config):
            yield from _keys(section, schema, f"{key}.")
            continue
        yield ConfigKey(
            key,
            _describe(schema, _inside(schema, tuple(key.split(".")))),
            None if field.is_required() else field.get_default(call_default_factory=True, validated_data={}),
            field.description or "",
            field.is_required(),
        )


def _inside(schema: Mapping[str, Any], keys: Collection[str | int]) -> Mapping[str, Any]:
    """Return the part of a schema that describes the value which keys lead to."""
    part = schema
    for key in keys:
        options = [_resolve(schema, one) for one in (part, *part.get("anyOf", ()), *part.get("allOf", ()))]
        part = next((found for one in options if (found := _child(one, key)) is not None), {})
    return part


def _child(schema: Mapping[str, Any], key: str | int) -> Mapping[str, Any] | None:
    if isinstance(key, int):
        found = schema.get("items")
    else:
        free = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
        found = schema.get("properties", {}).get(key, free)
    return found if isinstance(found, Mapping) else None


def _resolve(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = part.get("$ref")
    found: Mapping[str, Any] = schema["$defs"][reference.rpartition("/")[2]] if reference else part
    return found


def _describe(schema: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """Return in words what a part of a schema accepts."""
    for meant in (part, _resolve(schema, part)):
        if _EXPECTED in meant:
            return str(meant[_EXPECTED])
    part = _resolve(schema, part)
    if "anyOf" in part:
        texts = [_describe(schema, option) for option in part["anyOf"]]
        return ", or ".join(dict.fromkeys(texts))
    if "enum" in part or "const" in part:
        options = part.get("enum") or [part["const"]]
        return f"one of {', '.join(map(str, options))}" if len(options) > 1 else repr(options[0])
    items = _resolve(schema, part.get("items", {}))
    if _EXPECTED in items:
        return f"a list, each entry {items[_EXPECTED]}"
    return _KINDS.get(str(part.get("type")), "a value") + _range(part)


_KINDS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


def _range(part: Mapping[str, Any]) -> str:
    least, above, most = part.get("minimum"), part.get("exclusiveMinimum"), part.get("maximum")
    if most is not None:
        return f" from {f'above {above:g}' if above is not None else f'{least or 0:g}'} to {most:g}"
    if above is not None:
        return f" above {above:g}"
    return "" if least is None else f" of at least {least}"
