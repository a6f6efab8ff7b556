"""The variables of a profile: declared with a type, given by `--var`, and put in place of `${NAME}` everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from amplifier_digital_twin.profile.kinds import Key, Table, mapped, matching, one_of, text, truth
from amplifier_digital_twin.profile.places import Fault, FaultyError, Where
from amplifier_foundation.errors import did_you_mean

Value: TypeAlias = str | int | bool
VariableType: TypeAlias = Literal["string", "integer", "boolean", "path"]

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE: Final = re.compile(r"\$\{(" + _NAME + r")\}", re.ASCII)
_OPENING: Final = "${"


@dataclass(frozen=True)
class Variable:
    """What a profile says about one of its variables."""

    type: VariableType = "string"
    default: Any = None
    required: bool = False
    description: str = ""


def _whole_variable(variable: Variable, where: Where) -> None:
    if variable.required and variable.default is not None:
        raise where.fault("is required and has a default", "keep one of them")
    if variable.default is not None:
        _typed(variable, variable.default, where.at("default"), where.reading.default_folder)


_VARIABLE = Table(
    Variable,
    {
        "type": Key(one_of("string", "integer", "boolean", "path")),
        "default": Key(lambda value, where: value),
        "required": Key(truth),
        "description": Key(text),
    },
    _whole_variable,
)
_DECLARATIONS = mapped(matching(_NAME, "the name of a variable (letters, digits, '_')"), _VARIABLE)


def read_declarations(value: Any, where: Where) -> dict[str, Variable]:
    """Return the declared variables by name; raise FaultyError."""
    return dict(_DECLARATIONS(value, where))


def resolve(declared: Mapping[str, Variable], given: Mapping[str, str], where: Where) -> dict[str, Value]:
    """Return the value of every variable that has one.

    Paths that were given start from the current folder, those of a default from the profile's (from the current one
    too, when the profile came with the program). Raises FaultyError for a variable that is given but not declared,
    required but not given, or that is not what its type says.
    """
    faults: list[Fault] = []
    values: dict[str, Value] = {}
    for name in given:
        if name not in declared:
            hint = did_you_mean(name, sorted(declared)) if declared else "it has no variables"
            said = f"--var {name} is given, but the profile does not declare it: {hint}"
            faults.extend(where.fault(said, f"leave --var {name} out, or declare it under `vars`").faults)
    for name, variable in declared.items():
        place = where.at(name)
        try:
            if name in given:
                values[name] = _typed(variable, given[name], place, where.reading.given_folder, is_given=True)
            elif variable.default is not None:
                values[name] = _typed(variable, variable.default, place, where.reading.default_folder)
            elif variable.required:
                about = f" ({variable.description})" if variable.description else ""
                raise place.fault(f"a value is required{about}", f"give it: --var {name}=VALUE")
        except FaultyError as error:
            faults.extend(error.faults)
    if faults:
        raise FaultyError(faults)
    return values


def _typed(variable: Variable, value: Any, where: Where, folder: Path, is_given: bool = False) -> Value:
    """Return a value as its type wants it; what `--var` gives is always a text."""
    if isinstance(value, str) and _OPENING in value:
        raise where.fault("the value of a variable cannot refer to another one", f"give a value without {_OPENING!r}")
    if isinstance(value, str) and "\0" in value:
        raise where.fault("the value holds a NUL character, which no program can take", "remove the character")
    if variable.type == "integer":
        if is_given and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise where.fault(f"must be a whole number, got {value!r}", "give digits only")
    if variable.type == "boolean":
        if is_given and value.lower() in ("true", "false"):
            return bool(value.lower() == "true")
        if isinstance(value, bool):
            return value
        raise where.fault(f"must be true or false, got {value!r}", "give true or false")
    if not isinstance(value, str):
        raise where.fault(f"must be a text, got {value!r}", "put the value in quotes, or declare another 'type'")
    return str(where.reading.host_path(value, folder)) if variable.type == "path" else value


def references(data: Any) -> set[str]:
    """Return the names of all variables that values refer to."""
    if isinstance(data, str):
        return set(_REFERENCE.findall(data))
    if isinstance(data, dict):
        return set().union(*(references(item) for item in data.values()))
    return set().union(*(references(item) for item in data)) if isinstance(data, list) else set()


def substitute(data: Any, values: Mapping[str, Value], where: Where) -> Any:
    """Return the data with every `${NAME}` replaced; a text that is nothing but one keeps the variable's type.

    Raises FaultyError when anything like `${` would be left, in a value or a key.
    """
    faults: list[Fault] = []
    replaced = _substitute(data, values, where, faults)
    if faults:
        raise FaultyError(faults)
    return replaced


def _substitute(data: Any, values: Mapping[str, Value], where: Where, faults: list[Fault]) -> Any:
    if isinstance(data, str):
        return _substitute_text(data, values, where, faults)
    if isinstance(data, list):
        return [_substitute(item, values, where.at(index), faults) for index, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    for key in data:
        if isinstance(key, str) and _OPENING in key:
            faults.extend(where.at(key).fault("a key cannot hold a variable", "write the key itself").faults)
    return {key: _substitute(item, values, where.at(str(key)), faults) for key, item in data.items()}


def _substitute_text(data: str, values: Mapping[str, Value], where: Where, faults: list[Fault]) -> Value:
    if _OPENING not in data:
        return data
    sole = _REFERENCE.fullmatch(data)
    if sole is not None and sole[1] in values:
        return values[sole[1]]
    missing = [name for name in dict.fromkeys(_REFERENCE.findall(data)) if name not in values]
    for name in missing:
        near = f"; {did_you_mean(name, sorted(values))}" if values else ""
        remedy = f"give it: --var {name}=VALUE (a variable of the shell is written ${name}, without braces)"
        faults.extend(where.fault(f"the variable ${{{name}}} has no value{near}", remedy).faults)
    # Not only what is malformed is caught here: a `$` before a reference whose value starts with `{` is, too.
    replaced = _REFERENCE.sub(lambda found: _plain(values.get(found[1], "")), data)
    if _OPENING in replaced and not missing:
        remedy = "write ${NAME} for a variable of the profile, $NAME for one of the shell"
        faults.extend(where.fault(f"{_OPENING!r} is left after variables were filled in", remedy).faults)
    return replaced


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
