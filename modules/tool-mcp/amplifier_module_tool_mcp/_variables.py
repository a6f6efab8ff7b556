"""Put variables of the environment into a config, and keep what they hold out of everything that is said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from amplifier_module_tool_mcp._faults import ServerFault

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
#: Shorter values are not secrets, and masking them would hit ordinary words.
_SHORTEST: Final = 4


class Mask:
    """Put names in the place of values: `${NAME}` for what a variable held, `[hidden]` for what stood in a config."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._secret: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Mask({len(self._said)} values)"

    def add(self, value: str, name: str, *, is_secret: bool) -> None:
        """Hide a value from now on; one that is secret also in what the server itself answers."""
        for part in _forms(value):
            self._said[part] = name
            if is_secret:
                self._secret[part] = name

    def diagnostic(self, text: str) -> str:
        """Return what may be said in errors, events and logs: no value that came in by a variable."""
        return _replaced(text, self._said)

    def answer(self, text: str) -> str:
        """Return what a model may read of the server's own answers: no secret; a path such as `$HOME` stays."""
        return _replaced(text, self._secret)


def _forms(value: str) -> set[str]:
    """Return how a value may be written: as it is, and, of one that may be a secret, in the forms of live values."""
    from amplifier_kit.guard.redaction.known_values import LEAST, forms_of

    parts = {part for part in (value, value.strip()) if len(part) >= _SHORTEST}
    return parts | {form for part in parts if len(part) >= LEAST for form in forms_of(part) if len(form) >= LEAST}


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for value in sorted(names, key=len, reverse=True):
        if value in text:
            text = text.replace(value, names[value])
    return text


def expanded(text: str, environment: Mapping[str, str], mask: Mask, *, is_secret: bool) -> str:
    """Return a text with its `${NAME}` and `${NAME:-default}` replaced; what they held is hidden by the mask.

    The default stands for a variable that is not set, or empty. Raises ServerFault, which names the variable, for one
    that is neither set nor has a default.
    """
    from amplifier_kit.guard.processes.programs import is_secret_variable

    def value_of(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        value = environment.get(name)
        if not value and default is not None:
            return default
        if value is None:
            raise ServerFault(
                "variable_missing", f"the variable {name} is not set: set it, or write ${{{name}:-default}}"
            )
        mask.add(value, f"${{{name}}}", is_secret=is_secret or is_secret_variable(name))
        return value

    return _REFERENCE.sub(value_of, text)


def references(texts: Iterable[str]) -> list[str]:
    """Return the names of the variables that texts refer to."""
    return sorted({found.group(1) for text in texts for found in _REFERENCE.finditer(text)})


def is_only_reference(text: str) -> bool:
    """Return whether a text is exactly one reference, and so contains no value itself."""
    return _REFERENCE.fullmatch(text) is not None
