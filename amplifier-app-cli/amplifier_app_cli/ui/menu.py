"""A menu: options of which the user picks one with the arrow keys, or by typing what stands before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import columns, single_line, wrap_text
from amplifier_app_cli.ui.plain import plain
from amplifier_kit.named_tuple import NamedTuple

_MARK: Final = "❯ "
_NO_MARK: Final = "  "
HINT: Final = "↑ ↓ and Enter choose"


class Option(NamedTuple):
    """One entry of a menu: what is typed for it, and what it means. Both may come from a server or a model."""

    answer: str
    meaning: str = ""

    @property
    def name(self) -> str:
        """Return the answer as it may be shown."""
        return single_line(self.answer)


class Menu:
    """Options and the selected one. Nothing is selected at first: an Enter that was meant for something else is none.

    `at` selects an option from the start, where picking it by mistake does no harm.
    """

    def __init__(self, options: Sequence[Option], at: int | None = None) -> None:
        self._options = tuple(options)
        self._at = at if self._options else None

    def __bool__(self) -> bool:
        return bool(self._options)

    @property
    def selected(self) -> Option | None:
        """Return the option that Enter picks."""
        return None if self._at is None else self._options[self._at]

    def move(self, step: int) -> None:
        """Select the next option, or with -1 the one before; the ends meet."""
        if self._at is None:
            self._at = 0 if step > 0 else len(self._options) - 1
        else:
            self._at = (self._at + step) % len(self._options)

    def lines(self, width: int, rows: int, ink: Ink) -> list[str]:
        """Return the options around the selected one that fit into so many rows."""
        indent = max((columns(option.name) for option in self._options), default=0) + 2
        shown = [self._shown(number, option, indent, width, ink) for number, option in enumerate(self._options)]
        first, last = self._window(shown, rows)
        lines = [line for entry in shown[first:last] for line in entry]
        above, below = first, len(shown) - last
        hidden = " · ".join(
            text for text in (f"{above} above" if above else "", f"{below} below" if below else "") if text
        )
        return [*lines, ink("dim", f"{_NO_MARK}… {hidden}")] if hidden else lines

    def _shown(self, number: int, option: Option, indent: int, width: int, ink: Ink) -> list[str]:
        is_selected = number == self._at
        start = _MARK if is_selected else _NO_MARK
        if not option.meaning:
            lines = [start + option.name]
        else:
            room = max(width - len(start) - indent, 10)
            first, *rest = [line.rstrip() for line in wrap_text(plain(option.meaning), room)]
            name = option.name + " " * (indent - columns(option.name))
            lines = [f"{start}{name}{first}", *(" " * (len(start) + indent) + line for line in rest)]
        return [ink("bold" if is_selected else "dim", line) for line in lines]

    def _window(self, shown: Sequence[Sequence[str]], rows: int) -> tuple[int, int]:
        """Return the first option to show and the one after the last."""
        if sum(map(len, shown)) <= rows:
            return 0, len(shown)
        first = last = self._at or 0
        left = max(rows - 1, 1)  # a line says that there are more
        while True:
            for number in (last, first - 1):
                if 0 <= number < len(shown) and (len(shown[number]) <= left or first == last):
                    left -= len(shown[number])
                    first, last = min(first, number), max(last, number + 1)
                    break
            else:
                return first, last
