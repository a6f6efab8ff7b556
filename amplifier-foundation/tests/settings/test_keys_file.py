"""The lines of keys.env."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.settings.keys import KeysError, key_line, parse_lines, render_lines

PATH = Path("keys.env")
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
NAMES = st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def values(content: bytes) -> dict[str | None, str | None]:
    return {line.name: line.value for line in parse_lines(PATH, content) if line.name is not None}


@given(st.dictionaries(NAMES, VALUES))
def test_any_value_comes_back(keys: dict[str, str]) -> None:
    """Quotes, backslashes, line breaks and all other characters survive writing and reading."""
    content = render_lines(key_line(name, value) for name, value in keys.items())
    assert values(content) == keys
    assert render_lines(parse_lines(PATH, content)) == content


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('NAME="value"', "value"),
        ("NAME='va\"lue'", 'va"lue'),
        ("NAME=value", "value"),
        ("  export NAME = value  ", "value"),
        ("NAME=value # mine", "value"),
        ("NAME=val#ue", "val#ue"),
        ('NAME="val # ue" # mine', "val # ue"),
        ('NAME="a\\nb\\\\c\\"d"', 'a\nb\\c"d'),
        ('NAME="C:\\dir"', "C:\\dir"),
        ("NAME=a=b==", "a=b=="),
        ("NAME=", ""),
        ("NAME=@keyring", None),
        ('NAME="@keyring"', "@keyring"),
    ],
)
@pytest.mark.parametrize(("mark", "end"), [(b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b"", b"")])
def test_lines_of_other_hands_are_understood(line: str, value: str | None, mark: bytes, end: bytes) -> None:
    """Quoted or bare, with or without export, comment, byte order mark and line end."""
    assert values(mark + line.encode() + end) == {"NAME": value}


def test_comments_and_blank_lines_are_kept() -> None:
    """Comments are kept as they are."""
    content = b'# mine\n\nA="1"\n  # indented\n'
    assert render_lines(parse_lines(PATH, content)) == content


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hunter2hunter2", "not of the form NAME"),
        ("hunter-2=hunter2", "not of the form NAME"),
        ("1A=hunter2", "not of the form NAME"),
        ('A="hunter2', "the quotes of A do not match"),
        ('A="hunter2" hunter2', "the quotes of A do not match"),
        ("A='hunter2\"", "the quotes of A do not match"),
    ],
)
def test_a_malformed_line_is_named_but_not_shown(line: str, expected: str) -> None:
    """The error has file and line, and not a character of the value."""
    with pytest.raises(KeysError) as caught:
        parse_lines(PATH, f'# x\nB="1"\n{line}\n'.encode())
    assert str(caught.value).startswith("keys.env:3: ")
    assert expected in str(caught.value)
    assert "hunter" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_what_is_not_utf8_is_named_but_not_shown() -> None:
    """The error does not carry the content of the file, not even in what caused it."""
    with pytest.raises(KeysError, match=r"keys\.env:2: not UTF-8") as caught:
        parse_lines(PATH, b'A="1"\nB="hunter2\xff"\n')
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800"])
def test_a_value_that_no_variable_can_hold_is_refused(value: str) -> None:
    """Nothing is written that would not come back."""
    with pytest.raises(KeysError, match=r"^NAME: "):
        key_line("NAME", value)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "sk-hunter2", "A\n", "Ä"])
def test_a_bad_name_is_refused_and_not_shown(name: str) -> None:
    """A value that is given in place of the name is not in the error."""
    with pytest.raises(KeysError, match="invalid name of a key") as caught:
        key_line(name, "x")
    assert "hunter2" not in str(caught.value)


def test_no_value_is_in_the_repr() -> None:
    """A line that is logged by accident shows its name only."""
    assert repr(key_line("NAME", "hunter2")) == "KeyLine(name='NAME')"
