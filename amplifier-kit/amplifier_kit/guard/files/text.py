"""Text files: their encoding and line ends, which an edit keeps, and the search for lines by their text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final, Literal

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.named_tuple import NamedTuple

#: How many bytes are examined to recognise a file's format.
SAMPLE: Final = 65_536

# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROLS: Final = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\b\x1b")
#: Text of an unknown 8-bit encoding has at most this share of control characters.
_MOST_CONTROLS: Final = 0.02

#: Limits of the search for similar lines: lines between hits, lines compared, characters of a line.
_AROUND: Final = 2
_MOST_COMPARED: Final = 20_000
_LONGEST_LINE: Final = 300

Newline = Literal["\n", "\r\n", "\r"]


# -- encoding and line ends --


class TextFormat(NamedTuple):
    """Encoding, byte order mark and line ends of a text file."""

    encoding: str = "utf-8"
    #: The byte order mark that the file begins with, if any.
    mark: bytes = b""
    #: The line end of all lines, or of most.
    newline: Newline = "\n"
    is_mixed: bool = False
    #: False for text in an unknown 8-bit encoding: not valid UTF-8.
    is_known: bool = True

    @property
    def is_crlf(self) -> bool:
        """Return whether every line ends as on Windows."""
        return self.newline == "\r\n" and not self.is_mixed


class Text(NamedTuple):
    """Text with its original line ends, and its format."""

    text: str
    format: TextFormat


def sniff(sample: bytes) -> tuple[str, bytes]:
    """Return the encoding and the mark that bytes begin with; UTF-8 and an empty mark by default."""
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding, mark
    return "utf-8", b""


def is_binary(sample: bytes) -> bool:
    """Return whether the first bytes of a file are binary: they have zeros or many control characters."""
    sample = sample[:SAMPLE]
    encoding, mark = sniff(sample)
    if encoding != "utf-8":
        return False
    if b"\0" in sample or sample.startswith(b"%PDF-"):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample[len(mark) :])
    except UnicodeDecodeError:
        controls = len(sample) - len(sample.translate(None, _CONTROLS))
        return controls > len(sample) * _MOST_CONTROLS
    return False


def decode(data: bytes, name: str) -> Text:
    """Return the text of a whole file, from which `encode` makes the very same bytes.

    Invalid UTF-8 is kept as lone surrogates. Raises FileError for binary data.
    """
    encoding, mark = sniff(data)
    body = data[len(mark) :]
    is_known = True
    if is_binary(data) or (encoding == "utf-8" and b"\0" in body):
        raise FileError("binary_file", f"{name} is a binary file ({len(data):,} bytes), which cannot be edited as text")
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise FileError(
                "binary_file", f"{name} begins like {encoding.upper()} but is not: byte {error.start + len(mark)}"
            ) from None
        text, is_known = body.decode("utf-8", "surrogateescape"), False
    newline, is_mixed = newline_of(text)
    return Text(text, TextFormat(encoding, mark, newline, is_mixed, is_known))


def encode(text: str, form: TextFormat, name: str) -> bytes:
    """Return a text as bytes in that format; raises FileError when a character does not fit the encoding."""
    try:
        return form.mark + text.encode(form.encoding, "strict" if form.is_known else "surrogateescape")
    except UnicodeEncodeError as error:
        found = error.object[error.start]
        raise FileError(
            "not_encodable", f"{name}: the character {found!r} at {error.start} cannot be written as {form.encoding}"
        ) from None


def newline_of(text: str) -> tuple[Newline, bool]:
    """Return the line end of most lines, and whether there are several kinds."""
    both = text.count("\r\n")
    counts: dict[Newline, int] = {"\n": text.count("\n") - both, "\r\n": both, "\r": text.count("\r") - both}
    if counts["\n"] or counts["\r\n"]:
        counts["\r"] = 0  # beside line feeds, a carriage return alone is a character of the line
    most = max(counts, key=lambda newline: counts[newline])
    return most, sum(count > 0 for count in counts.values()) > 1


# -- searching lines --


class LineMatch(NamedTuple):
    """Lines that match, from the line with index `first` on."""

    first: int
    kind: Literal["exact", "trailing", "indented"]
    #: Indentation that the found lines have in addition to the wanted ones, or lack.
    more: str = ""
    less: str = ""

    @property
    def difference(self) -> str:
        """Return how the lines differ from the wanted ones, for messages; empty for an exact match."""
        return {
            "exact": "",
            "trailing": "which differ in white space at line ends",
            "indented": "which are indented differently, so the new lines were indented as they are",
        }[self.kind]

    def fits(self, new: Sequence[str]) -> bool:
        """Return whether new lines can be indented like the found ones."""
        return all(line.startswith(self.less) for line in new if line.strip())

    def indent(self, line: str) -> str:
        """Return a new line, indented like the found ones."""
        return self.more + line.removeprefix(self.less) if line.strip() else line


def find_lines(have: Sequence[str], wanted: Sequence[str], start: int = 0, stop: int | None = None) -> list[LineMatch]:
    """Return all matches of `wanted` from line `start` on, of the closest kind that is found at all.

    Kinds: exactly; with other white space at line ends; with one and the same indentation more or less on every line.
    """
    if not wanted:
        return []
    last = (len(have) if stop is None else stop) - len(wanted)
    first = wanted[0].strip()
    found: dict[str, list[LineMatch]] = {"exact": [], "trailing": [], "indented": []}
    for number in range(start, last + 1):
        if have[number].strip() == first:
            match = _compare(number, have[number : number + len(wanted)], wanted)
            if match is not None:
                found[match.kind].append(match)
    return found["exact"] or found["trailing"] or found["indented"]


def _compare(first: int, there: Sequence[str], wanted: Sequence[str]) -> LineMatch | None:
    pairs = [(one.rstrip(), other.rstrip()) for one, other in zip(there, wanted, strict=True)]
    if all(one == other for one, other in pairs):
        return LineMatch(first, "exact" if list(there) == list(wanted) else "trailing")
    if any(one.lstrip() != other.lstrip() for one, other in pairs):
        return None
    texts = [pair for pair in pairs if pair[0]]
    more = {one[: len(one) - len(other)] if one.endswith(other) else "" for one, other in texts}
    if len(more) == 1 and "" not in more:
        return LineMatch(first, "indented", more=more.pop())
    less = {other[: len(other) - len(one)] if other.endswith(one) else "" for one, other in texts}
    return LineMatch(first, "indented", less=less.pop()) if len(less) == 1 and "" not in less else None


def nearest_line(have: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the line that `wanted` most likely means, white space aside; None when nothing is similar.

    That is where most of its lines are near one another, else the line most similar to its longest one; a bounded
    number of lines is compared.
    """
    wanted = [line.strip() for line in wanted if line.strip()]
    if not wanted:
        return None
    stripped = [line.strip() for line in have]
    sought, reach = set(wanted), len(wanted) + _AROUND
    hits = [number for number, line in enumerate(stripped) if line in sought][:_MOST_COMPARED]
    if hits:
        return max(hits, key=lambda number: len(sought.intersection(stripped[number : number + min(reach, 200)])))
    from difflib import get_close_matches  # slow to import, and rarely needed

    compared = [line[:_LONGEST_LINE] for line in stripped[:_MOST_COMPARED]]
    close = get_close_matches(max(wanted, key=len)[:_LONGEST_LINE], compared, n=1)
    return compared.index(close[0]) if close else None
