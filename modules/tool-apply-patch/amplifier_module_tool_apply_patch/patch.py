"""Read patches: the V4A envelope over several files, or the diff of a single one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.struct import FrozenStruct

__all__ = ["Hunk", "Operation", "parse_diff", "parse_patch"]

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


class _Begun:
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
    begun: _Begun | None = None
    for number, line in body:
        if line.startswith("@@") and (line[2:3] in ("", " ")):
            if begun is None or begun.lines:
                hunks += [begun.finished()] if begun is not None else []
                begun = _Begun(number)
            is_numbered = re.match(_UNIFIED, line) is not None
            begun.is_numbered = begun.is_numbered or is_numbered
            anchor = "" if is_numbered else line[3:]
            begun.anchors += [anchor] if anchor.strip() else []
            continue
        begun = begun or _Begun(number)
        _take(begun, number, line)
    if begun is not None and (begun.lines or begun.anchors):
        if not begun.lines:
            raise _wrong(f"line {begun.line}: '@@' is followed by no lines")
        hunks.append(begun.finished())
    return hunks


def _take(begun: _Begun, number: int, line: str) -> None:
    if line.strip() == _END_OF_FILE:
        begun.is_at_end = True
    elif line.startswith("\\ "):
        # "\ No newline at end of file" speaks of the line before it.
        begun.ends_open = not (begun.lines and begun.lines[-1][0] == "-")
    elif not line:
        begun.lines.append((" ", ""))
        begun.blanks += 1
        return
    elif line[0] == " ":
        begun.lines.append((" ", line[1:]))
    elif line[0] == "+":
        begun.lines.append(("+", line[1:]))
    elif line[0] == "-":
        begun.lines.append(("-", line[1:]))
    else:
        raise _wrong(f"line {number}: must begin with ' ', '+', '-' or '@@', got {line!r}")
    begun.blanks = 0


def _wrong(reason: str) -> FileError:
    return FileError("invalid_patch", f"invalid patch: {reason}")
