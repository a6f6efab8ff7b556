"""The variables of a profile: declared with a type, set by `--var`, and filled in for `${NAME}` everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile import values
from amplifier_digital_twin.profile.model import Model
from amplifier_digital_twin.profile.values import Reading, shown
from amplifier_foundation.errors import did_you_mean

Value: TypeAlias = str | int | bool
Keys: TypeAlias = tuple[str | int, ...]
#: What is wrong, and the keys that lead to it.
Problems: TypeAlias = list[tuple[Keys, str]]

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_OPENING: Final = "${"


class Variable(Model):
    """What a profile says about one of its variables."""

    type: Literal["string", "integer", "boolean", "path"] = "string"
    default: values.Json = None
    required: values.Truth = False
    description: values.Text = ""


def parse_variables(given: Sequence[str]) -> dict[str, str]:
    """Return what `--var NAME=VALUE` options say, by name; raise TwinError for one without a value, or given twice."""
    parsed: dict[str, str] = {}
    for item in given:
        name, separator, value = item.partition("=")
        # Only the name is repeated: the value may be something that should not be shown.
        if not separator or not name:
            raise TwinError("bad_argument", f"--var {name!r} has no value", "write --var NAME=VALUE")
        if name in parsed:
            raise TwinError("bad_argument", f"--var {name} is given twice", "give each variable once")
        parsed[name] = value
    return parsed


def resolve(
    declared: Mapping[str, Variable], given: Mapping[str, str], reading: Reading, problems: Problems
) -> dict[str, Value]:
    """Return the value of every variable that has one, and add what is wrong to `problems`.

    Given paths start from the current folder, those of a default from the profile's (from the current one for profiles
    that ship).
    """
    resolved: dict[str, Value] = {}
    for name in given:
        if name not in declared:
            hint = did_you_mean(name, sorted(declared)) if declared else "the profile has no variables"
            problems.append((("vars",), f"--var {name} is given, but the profile does not declare it: {hint}"))
    for name, variable in declared.items():
        try:
            if variable.required and variable.default is not None:
                raise ValueError("is required and has a default: keep one of them")
            if name in given:
                resolved[name] = _typed(variable, given[name], reading, Path.cwd(), is_given=True)
            elif variable.default is not None:
                resolved[name] = _typed(variable, variable.default, reading, reading.default_folder)
            elif variable.required:
                about = f" ({variable.description})" if variable.description else ""
                raise ValueError(f"a value is required{about}: give it with --var {name}=VALUE")
        except ValueError as error:
            problems.append((("vars", name), str(error)))
    return resolved


def _typed(variable: Variable, value: Any, reading: Reading, folder: Path, *, is_given: bool = False) -> Value:
    """Return a value as its type wants it; `--var` always gives text. Raises ValueError."""
    if isinstance(value, str) and _OPENING in value:
        raise ValueError(f"the value of a variable cannot refer to another one: give a value without {_OPENING!r}")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("the value holds a NUL character, which no program accepts")
    if variable.type == "integer":
        if is_given and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"must be a whole number, got {shown(value)}")
    if variable.type == "boolean":
        if is_given and value.lower() in ("true", "false"):
            return bool(value.lower() == "true")
        if isinstance(value, bool):
            return value
        raise ValueError(f"must be true or false, got {shown(value)}")
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {shown(value)}: put it in quotes, or declare another 'type'")
    return str(reading.host_path(value, folder)) if variable.type == "path" else value


def references(data: Any) -> set[str]:
    """Return the names of all variables that values refer to."""
    if isinstance(data, str):
        return set(_REFERENCE.findall(data))
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return set().union(*map(references, items))


def substitute(data: Any, known: Mapping[str, Value], problems: Problems, keys: Keys = ()) -> Any:
    """Return the data with every `${NAME}` replaced; a text that is nothing but one keeps the variable's type.

    What cannot be replaced is added to `problems`: nothing like `${` is ever left.
    """
    if isinstance(data, list):
        return [substitute(item, known, problems, (*keys, index)) for index, item in enumerate(data)]
    if isinstance(data, dict):
        for key in data:
            if isinstance(key, str) and _OPENING in key:
                problems.append(((*keys, key), "a key cannot hold a variable: write the key itself"))
        return {key: substitute(item, known, problems, (*keys, str(key))) for key, item in data.items()}
    if not isinstance(data, str) or _OPENING not in data:
        return data
    sole = _REFERENCE.fullmatch(data)
    if sole is not None and sole[1] in known:
        return known[sole[1]]
    missing = [name for name in dict.fromkeys(_REFERENCE.findall(data)) if name not in known]
    for name in missing:
        near = f": {did_you_mean(name, sorted(known))}" if known else ""
        remedy = f"give it with --var {name}=VALUE (a variable of the shell is written ${name}, without braces)"
        problems.append((keys, f"the variable ${{{name}}} has no value{near}; {remedy}"))
    replaced = _REFERENCE.sub(lambda found: _plain(known.get(found[1], "")), data)
    if _OPENING in replaced and not missing:
        remedy = "write ${NAME} for a variable of the profile, $NAME for one of the shell"
        problems.append((keys, f"{_OPENING!r} is left after variables were filled in: {remedy}"))
    return replaced


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
