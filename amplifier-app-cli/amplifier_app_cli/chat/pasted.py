"""Know what of an input was typed key by key, and what came in as a whole: that is text, and mentions no files.

A terminal marks what is pasted, so that it arrives as one piece (bracketed paste). Whatever is put into the input in
pieces of more than one character counts alike: a paste, a paste that was undone and brought back, what was cut and put
in elsewhere. A completion counts as typed with the `@` before it, which somebody has typed.
"""

from __future__ import annotations

from prompt_toolkit.buffer import Buffer

from amplifier_foundation.prompt.user_input import Span, UserInput


class PastedText:
    """Follow the changes of a buffer, and remember which stretches of its text were not typed."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        #: Text and stretches of each line that was looked at: arrow keys go through what was said before, and back.
        self._lines: dict[int, tuple[str, tuple[Span, ...]]] = {}
        self.start()
        buffer.on_text_changed += self._on_change

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return the stretches that were not typed."""
        return self._lines.get(self._line, ("", ()))[1]

    def start(self, spans: tuple[Span, ...] = ()) -> None:
        """Begin with what the buffer holds now, of which `spans` were not typed; call it after every reset."""
        self._lines = {self._line: (self._buffer.text, spans)}

    def taken(self, text: str) -> UserInput:
        """Return the text of the buffer, as it is sent, with what of it was typed."""
        return UserInput.of_typed(text, self.spans)

    @property
    def _line(self) -> int:
        """Return which line is edited, counted from the end: what was said before is loaded little by little."""
        return len(self._buffer._working_lines) - self._buffer.working_index

    def _on_change(self, buffer: Buffer) -> None:
        line, new = self._line, buffer.text
        if line not in self._lines:  # from the history, where mentions that were pasted are escaped
            self._lines[line] = (new, ())
            return
        old, spans = self._lines[line]
        start, removed, added = _change(old, new, buffer.cursor_position)
        kept = [moved for span in spans if (moved := _moved(span, start, removed, added)) is not None]
        if added > 1:
            kept.append((start, start + added))
        self._lines[line] = (new, tuple(sorted(kept)))


def _change(old: str, new: str, cursor: int) -> tuple[int, int, int]:
    """Return where a text was changed, how many characters went, and how many came."""
    added = len(new) - len(old)
    if added > 0:
        # The cursor stands where the text was put in, or behind it: the texts alone may not tell.
        for start in (cursor, cursor - added):
            if start >= 0 and old[:start] == new[:start] and old[start:] == new[start + added :]:
                return start, 0, added
    start = 0
    shortest = min(len(old), len(new))
    while start < shortest and old[start] == new[start]:
        start += 1
    end = 0
    while end < shortest - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, len(old) - start - end, len(new) - start - end


def _moved(span: Span, start: int, removed: int, added: int) -> Span | None:
    """Return where a stretch is after a change, what was put into it included; None when nothing is left of it."""
    first, last = span
    end = start + removed
    first = first if first < start or (first == start and not added) else max(first, end) + added - removed
    last = last if last <= start else max(last, end) + added - removed
    return (first, last) if first < last else None
