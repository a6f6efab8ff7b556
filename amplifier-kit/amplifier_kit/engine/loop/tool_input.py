"""Check the input of a call against the schema of its tool, before the tool runs.

Published tools have careless schemas, and models send null for what they leave out. A schema that is invalid is
reported once and not applied, and null passes for properties that are not required.

A schema may come from an MCP server that means harm, and nothing can stop a check that runs in the event loop. So the
parts of a schema that may take for ever are left to the tool: regular expressions, and what is not evaluated elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from amplifier_kit.named_tuple import NamedTuple

logger = logging.getLogger(__name__)

#: How many mismatches one message names, and how much it quotes of each: an input may hold a whole file.
_MOST_NAMED: Final = 3
_LONGEST: Final = 200
#: References that one check follows: a few lines of schema can lead to billions.
_MOST_REFERENCES: Final = 10_000
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LEFT_TO_TOOL: Final = ("pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties")


class _Checked(NamedTuple):
    """A schema as it was when it was read, and its validator; None for a schema that is not applied."""

    schema: Any
    validator: Any


class _TooManyReferencesError(Exception):
    """A check followed more references than it may."""

    def __str__(self) -> str:
        return f"it leads to more than {_MOST_REFERENCES:,} references"


_validators: WeakKeyDictionary[Any, _Checked] = WeakKeyDictionary()
#: How many references the running check has followed.
_followed: ContextVar[list[int]] = ContextVar("followed")


def find_mismatch(tool: Any, name: str, tool_input: Mapping[str, Any]) -> str | None:
    """Return where and why an input does not match the schema of its tool; None when it matches."""
    try:
        schema = getattr(tool, "input_schema", None)
    except Exception as error:
        logger.warning("Tool '%s': reading input_schema raised %s; its inputs are not checked", name, error)
        return None
    if not isinstance(schema, Mapping) or not schema:
        return None
    validator = _validator_of(tool, name, schema)
    if validator is None:
        return None
    required = schema.get("required")
    required = required if isinstance(required, list) else ()
    given = {key: value for key, value in tool_input.items() if value is not None or key in required}
    _followed.set([0])
    try:
        found = list(islice(validator.iter_errors(given), _MOST_NAMED))
    except Exception as error:  # a reference that leads nowhere, or a regular expression that Python does not know
        _report(name, str(error))
        _remember(tool, _Checked(schema, None))
        return None
    return "; ".join(f"at {one.json_path}: {_shortened(one.message)}" for one in found) or None


def _validator_of(tool: Any, name: str, schema: Mapping[str, Any]) -> Any:
    try:
        known = _validators.get(tool)
    except TypeError:  # a tool that cannot be hashed
        known = None
    if known is not None and known.schema == schema:
        return known.validator
    # Imported for the first call that has a schema: a run without tools does not need it.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    schema, validator = dict(schema), None
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(schema)
        validator = _bounded(kind)(schema, registry=Registry())  # which fetches no references from the network
    except SchemaError as error:
        _report(name, f"at {error.json_path}: {_shortened(error.message)}")
    except Exception as error:  # such as a `$schema` that is no text, or one that is nested too deeply
        _report(name, f"{type(error).__name__}: {_shortened(str(error))}")
    _remember(tool, _Checked(schema, validator))
    return validator


def _bounded(kind: Any) -> Any:
    """Return a kind of validator that leaves to the tool what may take for ever."""
    from jsonschema.validators import extend

    known = kind.VALIDATORS
    checks: dict[str, Any] = dict.fromkeys(_LEFT_TO_TOOL)
    if others := known.get("additionalProperties"):
        checks["additionalProperties"] = _without_patterns(others)
    return extend(kind, checks | {name: _counted(known[name]) for name in _REFERENCES if name in known})


def _without_patterns(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check of additional properties that does nothing where regular expressions say which those are."""

    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from check(validator, value, instance, schema) or ()

    return checked


def _counted(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return a check of a reference that raises _TooManyReferencesError after too many in one input."""

    def checked(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        count = _followed.get()
        count[0] += 1
        if count[0] > _MOST_REFERENCES:
            raise _TooManyReferencesError
        yield from check(validator, value, instance, schema) or ()

    return checked


def _remember(tool: Any, checked: _Checked) -> None:
    try:
        _validators[tool] = checked
    except TypeError:
        pass  # without a weak reference the schema is read again for each call


def _report(name: str, why: str) -> None:
    logger.warning("Tool '%s' has an invalid input_schema, so its inputs are not checked: %s", name, why)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
