"""Put the hunks of a patch into a text; lines that are context stay exactly as they are."""

from __future__ import annotations

from collections.abc import Sequence

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import LineMatch, Text, find_lines
from amplifier_kit.struct import FrozenStruct
from amplifier_module_tool_apply_patch.current import Current
from amplifier_module_tool_apply_patch.patch import Hunk

__all__ = ["Patched", "patched"]


class Patched(FrozenStruct):
    """The new text, and what was not quite as the patch said."""

    text: str
    notes: list[str]


class _Edit(FrozenStruct):
    """Lines from `start` to `end` become `lines`; the index of a line says that it stays."""

    start: int
    end: int
    lines: list[int | str]


def patched(source: Text, name: str, hunks: Sequence[Hunk]) -> Patched:
    """Return the text with all hunks in it; raises FileError with the current content when one does not fit."""
    file = _File(source)
    current = Current(name, file.lines)
    edits: list[_Edit] = []
    notes: list[str] = []
    cursor = 0
    for hunk in hunks:
        edit, note = _placed(file.lines, hunk, cursor, current)
        notes += [note] if note else []
        edits.append(edit)
        cursor = edit.end
    ends_open = next((hunk.ends_open for hunk in reversed(hunks) if hunk.ends_open is not None), None)
    return Patched(file.with_edits(edits, ends_open), notes)


class _File:
    """The lines of a text, and what ends each of them."""

    def __init__(self, source: Text) -> None:
        self.newline = source.format.newline
        pieces = source.text.split("\r" if self.newline == "\r" else "\n")
        self.ends_open = pieces[-1] != ""
        if not self.ends_open:
            pieces.pop()
        self.lines: list[str] = []
        self.ends: list[str] = []
        for number, piece in enumerate(pieces, 1):
            # A carriage return at the very end, with no line feed behind it, is a character of the last line.
            has_end = number < len(pieces) or not self.ends_open
            is_windows = has_end and self.newline != "\r" and piece.endswith("\r")
            self.lines.append(piece[:-1] if is_windows else piece)
            self.ends.append("\r\n" if is_windows else "\r" if self.newline == "\r" else "\n")
        if self.ends_open and self.ends:
            self.ends[-1] = self.newline

    def with_edits(self, edits: Sequence[_Edit], ends_open: bool | None) -> str:
        result: list[tuple[str, str]] = []
        position = 0
        for edit in edits:
            result += self._kept(position, edit.start)
            end = self.ends[edit.start] if edit.start < len(self.ends) else self.newline
            for line in edit.lines:
                result.append((self.lines[line], self.ends[line]) if isinstance(line, int) else (line, end))
            position = edit.end
        result += self._kept(position, len(self.lines))
        is_open = self.ends_open if ends_open is None else ends_open
        if is_open and self.lines and result:
            result[-1] = (result[-1][0], "")
        return "".join(line + end for line, end in result)

    def _kept(self, start: int, end: int) -> list[tuple[str, str]]:
        return list(zip(self.lines[start:end], self.ends[start:end], strict=True))


def _placed(lines: Sequence[str], hunk: Hunk, cursor: int, current: Current) -> tuple[_Edit, str]:
    anchored = _after_anchors(lines, hunk, cursor, current)
    if not hunk.old:
        if hunk.is_numbered and anchored is None and not hunk.is_at_end and lines:
            raise current.mismatch(
                f"the hunk at line {hunk.line} of the patch adds lines without any around them, and line numbers of a "
                "diff are not used. Give lines of context, or '@@' with the line that stands before",
                [],
            )
        at = len(lines) if anchored is None or hunk.is_at_end else anchored
        return _Edit(at, at, [text for _, text in hunk.lines]), ""
    match = _found(lines, hunk, cursor if anchored is None else anchored, current, is_anchored=anchored is not None)
    number = match.first
    result: list[int | str] = []
    for sign, text in hunk.lines:
        if sign == "+":
            result.append(match.indent(text))
            continue
        if sign == " ":
            result.append(number)
        number += 1
    note = f"Lines {match.first + 1} to {number} of {current.name} were taken, {match.difference}."
    return _Edit(match.first, number, result), note if match.difference else ""


def _after_anchors(lines: Sequence[str], hunk: Hunk, cursor: int, current: Current) -> int | None:
    """Return the line after the last anchor, None when the hunk has none."""
    if not hunk.anchors:
        return None
    for anchor in hunk.anchors:
        exact = (number for number in range(cursor, len(lines)) if lines[number] == anchor)
        alike = (number for number in range(cursor, len(lines)) if lines[number].strip() == anchor.strip())
        found = next(exact, None)
        if found is None:
            found = next(alike, None)
        if found is None:
            raise current.mismatch(f"'@@ {anchor}' (line {hunk.line} of the patch) is not in the file", [anchor])
        cursor = found + 1
    return cursor


def _found(lines: Sequence[str], hunk: Hunk, start: int, current: Current, *, is_anchored: bool) -> LineMatch:
    """Return where the hunk belongs: the first place after its anchor, otherwise the only one there is."""
    old = hunk.old
    added = [text for sign, text in hunk.lines if sign == "+"]
    # A hunk may repeat its anchor as its first line.
    matches = find_lines(lines, old, start) or (find_lines(lines, old, start - 1) if is_anchored else [])
    matches = [match for match in matches if match.fits(added)]
    if hunk.is_at_end:
        matches = [match for match in matches if match.first + len(old) == len(lines)] or matches
    if not matches:
        where = f"after line {start} " if start else ""
        raise current.mismatch(
            f"the lines of the hunk at line {hunk.line} of the patch are not {where}in the file", old
        )
    if len(matches) > 1 and not (is_anchored and matches[0].kind == "exact"):
        numbers = ", ".join(str(match.first + 1) for match in matches[:10])
        raise FileError(
            "ambiguous_context",
            f"{current.name}: the hunk at line {hunk.line} of the patch fits at lines {numbers}. Add lines around it, "
            "or '@@' with a line that stands before it",
        )
    return matches[0]
