"""Read patches, and put their hunks into texts; lines that are context stay exactly as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import LineMatch, Text, find_lines, nearest_line
from amplifier_kit.struct import FrozenStruct

Kind = Literal["create_file", "update_file", "delete_file"]
Sign = Literal[" ", "+", "-"]

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_END_OF_FILE: Final = "*** End of File"
_MOVE: Final = "*** Move to: "
_HEADERS: Final[dict[str, Kind]] = {
    "*** Add File: ": "create_file",
    "*** Update File: ": "update_file",
    "*** Delete File: ": "delete_file",
}
#: Lines of git in front of a unified diff.
_PREAMBLE: Final = r"(diff --git |index [0-9a-f]+\.\.|(new|deleted) file mode |(old|new) mode |similarity index )"
#: The head of a hunk in a unified diff. Its numbers are those of a file as a model remembers it: they say nothing.
_UNIFIED: Final = r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@"


class Hunk(FrozenStruct):
    """Lines to find and lines to put there."""

    #: Lines that stand somewhere before, in this order.
    anchors: tuple[str, ...]
    lines: tuple[tuple[Sign, str], ...]
    is_at_end: bool = False
    #: Whether the file shall end without a line end, None to leave that as it is.
    ends_open: bool | None = None
    #: Line of the patch where it begins.
    line: int = 0
    #: Whether its place was given by the line numbers of a unified diff, which say nothing.
    is_numbered: bool = False

    @property
    def old(self) -> list[str]:
        """Return the lines that must be in the file."""
        return [text for sign, text in self.lines if sign != "+"]


class Operation(FrozenStruct):
    """What shall happen to one file."""

    kind: Kind
    path: str
    #: The lines of a new file.
    lines: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None
    #: Whether a new file shall end without a line end.
    ends_open: bool = False


def parse_patch(text: str) -> list[Operation]:
    """Return the operations of an envelope, in order; raises FileError with the line that is wrong."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    numbered = [(number, line) for number, line in enumerate(lines, 1)]
    while numbered and (not numbered[0][1].strip() or numbered[0][1].startswith("```")):
        numbered.pop(0)
    while numbered and (not numbered[-1][1].strip() or numbered[-1][1].startswith("```")):
        numbered.pop()
    if len(numbered) < 2 or numbered[0][1].strip() != _BEGIN or numbered[-1][1].strip() != _END:
        raise _wrong(f"the patch must begin with '{_BEGIN}' and end with '{_END}'")
    operations: list[Operation] = []
    body = numbered[1:-1]
    while body:
        number, line = body[0]
        found = next((header for header in _HEADERS if line.startswith(header)), None)
        if found is None:
            if line.strip():
                raise _wrong(
                    f"line {number}: expected {' or '.join(repr(one.strip()) for one in _HEADERS)}, got {line!r}"
                )
            body = body[1:]
            continue
        length = next((at for at, (_, other) in enumerate(body[1:], 1) if other.startswith(tuple(_HEADERS))), len(body))
        operations.append(_operation(_HEADERS[found], line.removeprefix(found).strip(), number, body[1:length]))
        body = body[length:]
    if not operations:
        raise _wrong("the patch names no file")
    return operations


def parse_diff(kind: Kind, path: str, diff: str) -> Operation:
    """Return the operation of one file, with its lines from a diff; raises FileError with the line that is wrong."""
    lines = diff.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return _operation(kind, path, 1, [(number, line.removesuffix("\r")) for number, line in enumerate(lines, 1)])


def _operation(kind: Kind, path: str, line: int, body: Sequence[tuple[int, str]]) -> Operation:
    if not path:
        raise _wrong(f"line {line}: a file without a name")
    if kind == "delete_file":
        if any(text.strip() for _, text in body):
            raise _wrong(f"line {body[0][0]}: a file that is deleted has no lines")
        return Operation(kind, path)
    move_to = None
    if kind == "update_file" and body and body[0][1].startswith(_MOVE):
        move_to, body = body[0][1].removeprefix(_MOVE).strip(), body[1:]
        if not move_to:
            raise _wrong(f"line {line + 1}: a file is moved to no name")
    body = _without_headers(body)
    if kind == "create_file":
        return _created(path, body)
    hunks = _hunks(body)
    if not hunks and move_to is None:
        raise _wrong(f"{path} is updated by no lines: give lines that begin with '-', '+' or ' '")
    return Operation(kind, path, hunks=tuple(hunks), move_to=move_to)


def _without_headers(body: Sequence[tuple[int, str]]) -> Sequence[tuple[int, str]]:
    """Leave out what git and diff write in front of the hunks; `--- x` alone may be a line that is removed."""
    while body and re.match(_PREAMBLE, body[0][1]):
        body = body[1:]
    if len(body) >= 2 and body[0][1].startswith("--- ") and body[1][1].startswith("+++ "):
        body = body[2:]
    return body


def _created(path: str, body: Sequence[tuple[int, str]]) -> Operation:
    body, ends_open = list(body), False
    # Without a diff's markers, lines that look like parts of a diff are content of the file.
    if any(text.startswith("+") or re.match(_UNIFIED, text) for _, text in body):
        ends_open = body[-1][1].startswith("\\ ")
        body = [one for one in body if not re.match(_UNIFIED, one[1]) and not one[1].startswith("\\ ")]
    while body and not body[-1][1]:
        body.pop()
    plain = [text for _, text in body]
    if not any(text.startswith("+") for text in plain):
        return Operation("create_file", path, lines=tuple(plain), ends_open=ends_open)
    for number, text in body:
        if text and not text.startswith("+"):
            raise _wrong(f"line {number}: every line of a new file must begin with '+', got {text!r}")
    return Operation("create_file", path, lines=tuple(text[1:] for text in plain), ends_open=ends_open)


class _HunkBuilder:
    """A hunk that is being read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.anchors: list[str] = []
        self.lines: list[tuple[Sign, str]] = []
        #: How many lines at the end are empty, without even the space of context.
        self.blanks = 0
        self.is_at_end = False
        self.is_numbered = False
        self.ends_open: bool | None = None

    def finished(self) -> Hunk:
        """Return the hunk."""
        # Empty lines at the end are air between hunks as often as context, and the hunk is found without them.
        lines = self.lines[: len(self.lines) - self.blanks] or self.lines
        anchors = tuple(self.anchors)
        return Hunk(anchors, tuple(lines), self.is_at_end, self.ends_open, self.line, self.is_numbered)


def _hunks(body: Sequence[tuple[int, str]]) -> list[Hunk]:
    hunks: list[Hunk] = []
    builder: _HunkBuilder | None = None
    for number, line in body:
        if line.startswith("@@") and (line[2:3] in ("", " ")):
            if builder is None or builder.lines:
                hunks += [builder.finished()] if builder is not None else []
                builder = _HunkBuilder(number)
            is_numbered = re.match(_UNIFIED, line) is not None
            builder.is_numbered = builder.is_numbered or is_numbered
            anchor = "" if is_numbered else line[3:]
            builder.anchors += [anchor] if anchor.strip() else []
            continue
        builder = builder or _HunkBuilder(number)
        _take(builder, number, line)
    if builder is not None and (builder.lines or builder.anchors):
        if not builder.lines:
            raise _wrong(f"line {builder.line}: '@@' is followed by no lines")
        hunks.append(builder.finished())
    return hunks


def _take(builder: _HunkBuilder, number: int, line: str) -> None:
    if line.strip() == _END_OF_FILE:
        builder.is_at_end = True
    elif line.startswith("\\ "):
        # "\ No newline at end of file" speaks of the line before it.
        builder.ends_open = not (builder.lines and builder.lines[-1][0] == "-")
    elif not line:
        builder.lines.append((" ", ""))
        builder.blanks += 1
        return
    elif line[0] == " ":
        builder.lines.append((" ", line[1:]))
    elif line[0] == "+":
        builder.lines.append(("+", line[1:]))
    elif line[0] == "-":
        builder.lines.append(("-", line[1:]))
    else:
        raise _wrong(f"line {number}: must begin with ' ', '+', '-' or '@@', got {line!r}")
    builder.blanks = 0


def _wrong(reason: str) -> FileError:
    return FileError("invalid_patch", f"invalid patch: {reason}")


# --- messages about files ---


#: Lines of a file that a message shows.
MOST_LINES: Final = 200
_LONGEST: Final = 500


class CurrentContent:
    """The content of a file, for messages."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name = name
        self._lines = lines

    def mismatch(self, reason: str, wanted: Sequence[str]) -> FileError:
        """Return the error of a hunk that does not fit, with the lines around where it may have been meant."""
        return FileError("context_mismatch", f"{self.name}: {reason}. {self.excerpt(wanted)}")

    def exists(self) -> FileError:
        """Return the error for a file that was to be new."""
        return FileError("already_exists", f"{self.name} exists already; update it instead. {self.excerpt([])}")

    def excerpt(self, wanted: Sequence[str]) -> str:
        """Return the file, or the part of it that matters, with a line that says which."""
        total = len(self._lines)
        if not total:
            return "It is empty."
        at = nearest_line(self._lines, wanted) or 0
        first = max(0, min(at - MOST_LINES // 2, total - MOST_LINES))
        part = self._lines[first : first + MOST_LINES]
        which = (
            "It holds now:" if len(part) == total else f"Lines {first + 1} to {first + len(part)} of {total} are now:"
        )
        return "\n".join([which, *(line[:_LONGEST] for line in part)])


# --- hunks ---


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
    current = CurrentContent(name, file.lines)
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


def _placed(lines: Sequence[str], hunk: Hunk, cursor: int, current: CurrentContent) -> tuple[_Edit, str]:
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


def _after_anchors(lines: Sequence[str], hunk: Hunk, cursor: int, current: CurrentContent) -> int | None:
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


def _found(lines: Sequence[str], hunk: Hunk, start: int, current: CurrentContent, *, is_anchored: bool) -> LineMatch:
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
