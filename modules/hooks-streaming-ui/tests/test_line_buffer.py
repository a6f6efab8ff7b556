"""Pieces become lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_streaming_ui.line_buffer import LineBuffer

PIECES = st.lists(st.text("ab \t\n", max_size=30), max_size=20)


def lines_of(pieces: list[str]) -> list[str]:
    """Return what comes of pieces in a narrow buffer."""
    buffer = LineBuffer(width=10, longest=25)
    return [line for piece in pieces for line in buffer.feed(piece)] + buffer.flush()


@given(PIECES)
def test_it_does_not_matter_how_text_is_cut(pieces: list[str]) -> None:
    """The same text gives the same lines, in pieces, letter by letter or at once."""
    text = "".join(pieces)
    assert lines_of(pieces) == lines_of(list(text)) == lines_of([text])


@given(PIECES)
def test_nothing_is_lost(pieces: list[str]) -> None:
    """Every letter comes out once, in order; lines have no line breaks and keep to the limits."""
    lines = lines_of(pieces)
    assert "".join("".join(lines).split()) == "".join("".join(pieces).split())
    assert all("\n" not in line and len(line) <= 25 for line in lines)
    assert all(len(line) <= 10 or not set(line[1:11]) & set(" \t") for line in lines)


def test_a_line_is_given_as_soon_as_it_is_complete() -> None:
    """A newline completes a line, and so does a word that does not fit any more."""
    buffer = LineBuffer(width=10)
    assert buffer.feed("one") == []
    assert buffer.feed(" two\nthree") == ["one two"]
    assert buffer.feed(" four ") == ["three four"]
    assert buffer.feed("five") == []
    assert (buffer.flush(), buffer.flush()) == (["five"], [])


def test_a_long_word_stays_whole() -> None:
    """A word over the width is not broken before it is very long, so that what it says can be recognised."""
    buffer = LineBuffer(width=10, longest=1000)
    assert buffer.feed("x" * 500) == []
    assert buffer.feed(" y") == ["x" * 500]


def test_blanks_at_the_end_are_no_line() -> None:
    """What is left over shows as a line only when there is something to read in it."""
    buffer = LineBuffer()
    assert buffer.feed("one\n \t ") == ["one"]
    assert buffer.flush() == []
