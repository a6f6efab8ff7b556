"""Check the shape of data from a file: tables say which keys there are and what they hold.

Not pydantic models: most commands read settings and bundles, and building the models would take longer than all the
rest of them. Values are not shown, for one in the wrong place may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from amplifier_foundation.errors import did_you_mean

Keys = tuple[str | int, ...]
#: How similar a key must be to a known one to count as mistyped.
_SLIP: Final = 0.65


class Problems:
    """Collect what is wrong with one file, each with its place."""

    def __init__(self, where: Callable[..., str], *, is_lenient: bool = False, allows_foreign: bool = False) -> None:
        """`where` returns `file:line` of the entry that keys lead to.

        `is_lenient` makes unknown keys warnings; `allows_foreign` only those that do not look like a known key.
        """
        self._where = where
        self._is_lenient = is_lenient
        self._allows_foreign = allows_foreign
        self.faults: list[str] = []
        self.warnings: list[str] = []

    def fault(self, at: Keys, text: str) -> None:
        """Add a wrong value."""
        self.faults.append(f"{self._where(*at)}: {text}")

    def warn(self, at: Keys, text: str) -> None:
        """Add something that has no effect."""
        self.warnings.append(f"{self._where(*at)}: {text}")

    def unknown(self, at: Keys, text: str, *, is_slip: bool = True) -> None:
        """Add a key that is not understood; `is_slip` says that it looks like a known one."""
        is_allowed = self._is_lenient or (self._allows_foreign and not is_slip)
        (self.warn if is_allowed else self.fault)(at, text)

    def expect(self, holds: bool, wanted: str, value: Any, at: Keys, hint: str = "") -> bool:
        """Return whether it holds, and add a fault when it does not."""
        if not holds:
            place = f"'{dotted(at)}'" if at else "the file"
            self.fault(at, f"{place} must be {wanted}, got {kind(value)}{hint}")
        return holds


#: Checks one value, which the keys lead to.
Shape = Callable[[Any, Keys, Problems], None]


def fields(shapes: Mapping[str, Shape], what: str = "a mapping") -> Shape:
    """Return the shape of a mapping with these keys and no others; null means an empty one, or an unset key."""

    def check(value: Any, at: Keys, problems: Problems) -> None:
        if value is None or not problems.expect(isinstance(value, Mapping), what, value, at):
            return
        for key, item in value.items():
            if key not in shapes:
                import difflib

                place = f" in {dotted(at)}" if at else ""
                hint = did_you_mean(key, list(shapes))
                is_slip = bool(difflib.get_close_matches(str(key), shapes, 1, _SLIP))
                problems.unknown((*at, key), f"unknown key {key!r}{place}: {hint}", is_slip=is_slip)
            elif item is not None:
                shapes[key](item, (*at, key), problems)

    return check


def mapping_of(each: Shape) -> Shape:
    """Return the shape of a mapping with any texts as keys."""

    def check(value: Any, at: Keys, problems: Problems) -> None:
        if problems.expect(isinstance(value, Mapping), "a mapping", value, at):
            for key, item in value.items():
                if isinstance(key, str):
                    each(item, (*at, key), problems)
                else:
                    text = f"the key {key!r} in '{dotted(at)}' must be text, got {kind(key)}: put it in quotes"
                    problems.fault((*at, key), text)

    return check


def list_of(each: Shape, what: str = "a list") -> Shape:
    """Return the shape of a list."""

    def check(value: Any, at: Keys, problems: Problems) -> None:
        if problems.expect(isinstance(value, list), what, value, at):
            for index, item in enumerate(value):
                each(item, (*at, index), problems)

    return check


def mapping(value: Any, at: Keys, problems: Problems) -> None:
    """Expect a mapping with any keys."""
    problems.expect(isinstance(value, Mapping), "a mapping", value, at)


def text(value: Any, at: Keys, problems: Problems) -> None:
    """Expect text, which may be empty."""
    problems.expect(isinstance(value, str), "text", value, at)


def filled_text(value: Any, at: Keys, problems: Problems) -> None:
    """Expect text that is not blank."""
    problems.expect(isinstance(value, str) and bool(value.strip()), "text", value, at)


def anything(value: Any, at: Keys, problems: Problems) -> None:
    """Accept any value: its reader checks it."""


def kind(value: Any) -> str:
    """Return in plain words what kind of value it is."""
    if value is None:
        return "nothing"
    if isinstance(value, str) and not value.strip():
        return "empty text"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return names.get(type(value), type(value).__name__)


def dotted(at: Keys) -> str:
    """Return keys as one text: `tools[0].config`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in at).removeprefix(".")
