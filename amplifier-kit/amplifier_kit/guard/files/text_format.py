"""Detect text, its encoding and its line ends, so that an edited file keeps them."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from amplifier_kit.guard.files.errors import FileError

__all__ = ["SAMPLE", "Text", "TextFormat", "decode", "encode", "is_binary", "newline_of", "sniff"]

#: How many bytes are looked at to tell what a file is.
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
#: Text of an unknown 8-bit encoding has no more control characters than that.
_MOST_CONTROLS: Final = 0.02

Newline = Literal["\n", "\r\n", "\r"]


@dataclass(frozen=True)
class TextFormat:
    """Encoding, byte order mark and line ends of a text file."""

    encoding: str = "utf-8"
    #: The mark that the file begins with, if any.
    mark: bytes = b""
    #: What ends its lines, or most of them.
    newline: Newline = "\n"
    is_mixed: bool = False
    #: False for text in an unknown 8-bit encoding: not valid UTF-8.
    is_known: bool = True

    @property
    def is_crlf(self) -> bool:
        """Tell whether every line ends as on Windows."""
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
    """Tell whether the first bytes of a file are binary: they have zeros or many control characters."""
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
    """Return what ends the lines of a text, or most of them, and whether there are several kinds."""
    both = text.count("\r\n")
    counts: dict[Newline, int] = {
        "\n": text.count("\n") - both,
        "\r\n": both,
        "\r": text.count("\r") - both,
    }
    if counts["\n"] or counts["\r\n"]:
        counts["\r"] = 0  # beside line feeds, a carriage return alone is a character of the line
    most = max(counts, key=lambda newline: counts[newline])
    return most, sum(count > 0 for count in counts.values()) > 1
