"""Text is told from other bytes, and written down again exactly as it was."""

from __future__ import annotations

import codecs
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.text import TextFormat, decode, encode, is_binary, newline_of

MARKS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}


@given(
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), encoding=st.sampled_from([*MARKS])
)
def test_marked_text_comes_back(text: str, encoding: str) -> None:
    """Text with a byte order mark is read in its encoding and written in the same bytes."""
    data = MARKS[encoding] + text.encode(encoding)
    if encoding == "utf-16-le" and text.startswith("\0"):
        return
    source = decode(data, "f")
    assert source.text == text
    assert encode(source.text, source.format, "f") == data


@given(data=st.binary(max_size=300))
def test_bytes_come_back_or_are_refused(data: bytes) -> None:
    """Whatever bytes are taken for text are written again as the same bytes."""
    try:
        source = decode(data, "f")
    except FileError:
        return
    assert encode(source.text, source.format, "f") == data


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_plain_utf8_is_text(text: str) -> None:
    """UTF-8 without zeros is text, whatever letters it has."""
    data = text.encode()
    if not data.startswith(b"%PDF-"):
        assert not is_binary(data)


def test_a_cut_letter_does_not_make_a_file_binary() -> None:
    """The sample may end in the middle of a letter."""
    assert not is_binary(("a" * 65_535 + "é").encode())


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"%PDF-1.7\n", os.urandom(4096), b"text\0more"]
)
def test_binary_files_are_known(data: bytes) -> None:
    """Programs, pictures, documents and noise are not text."""
    assert is_binary(data)
    with pytest.raises(FileError, match="binary file"):
        decode(data, "f")


def test_a_late_zero_is_found() -> None:
    """A zero anywhere makes a file binary before it is edited."""
    with pytest.raises(FileError) as caught:
        decode(b"x" * 100_000 + b"\0", "f")
    assert caught.value.code == "binary_file"


def test_older_encodings_are_carried_along() -> None:
    """Latin-1 is text of unknown encoding, and its bytes come back."""
    data = "Grüße\nfür alle\n".encode("latin-1")
    source = decode(data, "f")
    assert not source.format.is_known
    assert encode(source.text.replace("alle", "niemand"), source.format, "f") == data.replace(b"alle", b"niemand")


def test_a_broken_mark_is_refused() -> None:
    """A file that begins like UTF-16 and is not is no text."""
    with pytest.raises(FileError) as caught:
        decode(codecs.BOM_UTF16_LE + b"a", "f")
    assert caught.value.code == "binary_file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("\n", False)),
        ("a\nb\n", ("\n", False)),
        ("a\r\nb\r\n", ("\r\n", False)),
        ("a\r\nb\r\nc\n", ("\r\n", True)),
        ("a\rb\r", ("\r", False)),
        ("50 %\r100 %\ndone\n", ("\n", False)),
    ],
)
def test_line_ends_are_known(text: str, expected: tuple[str, bool]) -> None:
    """The line end of a text is what most of its lines end with; a return inside a line is none."""
    assert newline_of(text) == expected


def test_what_cannot_be_written_is_told() -> None:
    """A lone surrogate in a new text is refused with its place."""
    with pytest.raises(FileError, match="cannot be written") as caught:
        encode("ab\ud800", TextFormat(), "f")
    assert caught.value.code == "not_encodable"
