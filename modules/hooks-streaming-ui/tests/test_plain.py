"""Text that cannot steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_streaming_ui.plain import plain

SCRAPS = st.sampled_from(
    ["\x1b", "\x9b", "[", "]", "0;", "\x07", "\\", "31m", "P", "\x9c", "\x90", "\n", "\r", "\u202e"]
)
TEXTS = st.lists(st.one_of(SCRAPS, st.text(st.characters(), max_size=5))).map("".join)


@given(TEXTS)
def test_no_control_is_left(text: str) -> None:
    """Whatever goes in, nothing but text, tabs and newlines comes out, and it can be encoded."""
    shown = plain(text)
    assert not [char for char in shown if ord(char) < 32 and char not in "\t\n"]
    assert not [char for char in shown if 0x7F <= ord(char) <= 0x9F]
    assert not set(shown) & set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    shown.encode("utf-8")


@given(TEXTS)
def test_plain_text_stays_plain(text: str) -> None:
    """Cleaning twice changes nothing more."""
    assert plain(plain(text)) == plain(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], include_characters="\t\n")))
def test_harmless_text_is_not_changed(text: str) -> None:
    """Letters, numbers, signs and blanks of every script stay as they are."""
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]never ended, still shown", "never ended, still shown"),
        ("\x1b(Bline\x1b7\x1b8", "line"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x9b2Jeight bit", "eight bit"),
        ("\x1b\x1b[31m[31mtwice", "[31mtwice"),
        ("lone \ud83d half", "lone \ufffd half"),
    ],
)
def test_sequences(text: str, expected: str) -> None:
    """Sequences go as a whole; one that is not ended properly hides nothing of what follows."""
    assert plain(text) == expected
