"""Expand `${VAR}` and `${VAR:default}` to environment variables, in one pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from amplifier_foundation.merge import module_key
from amplifier_kit.named_tuple import NamedTuple

#: `$${VAR}` is how to write `${VAR}` itself.
VARIABLE: Final = r"\$(?P<escape>\$?)\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::(?P<default>[^}]*))?\}"


class MissingVariable(NamedTuple):
    """A variable that is unset and has no default; it was expanded to empty text."""

    name: str
    #: The dotted key of the text that names it.
    key: str


class Expanded(NamedTuple):
    """A copy with expanded variables."""

    value: Any
    missing: list[MissingVariable]


def expand(value: Any, environ: Mapping[str, str], at: tuple[str, ...] = ()) -> Expanded:
    """Return a copy of nested data with variables expanded in all its texts, and the unset ones.

    The value of a variable is not expanded again, so that a `${` in it stays. An unset variable without a default
    becomes empty text. Keys of mappings stay as they are.
    """
    missing: list[MissingVariable] = []
    return Expanded(_expanded(value, environ, at, missing), missing)


def _expanded(value: Any, environ: Mapping[str, str], at: tuple[str, ...], missing: list[MissingVariable]) -> Any:
    if isinstance(value, str):
        return _expanded_text(value, environ, ".".join(at), missing) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: _expanded(item, environ, (*at, str(key)), missing) for key, item in value.items()}
    if isinstance(value, list):
        return [
            _expanded(item, environ, (*at, module_key(item) or str(index)), missing) for index, item in enumerate(value)
        ]
    return value


def _expanded_text(text: str, environ: Mapping[str, str], key: str, missing: list[MissingVariable]) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match["escape"]:
            return match.group()[1:]
        if match["name"] in environ:
            return environ[match["name"]]
        if match["default"] is None:
            missing.append(MissingVariable(match["name"], key))
        return match["default"] or ""

    return re.sub(VARIABLE, value_of, text)
