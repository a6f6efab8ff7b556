"""First looks at a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.prefilter import LONG, VERY_LONG, Glance, any_in, fold, is_word


@given(st.text())
def test_folding_moves_nothing(text: str) -> None:
    """Every character of a folded text is where it was, and every ASCII letter is lower case."""
    folded = fold(text)
    assert len(folded) == len(text)
    assert [new for old, new in zip(text, folded, strict=True) if old.isascii()] == [
        old.lower() for old in text if old.isascii()
    ]


def test_folding_a_letter_that_becomes_two() -> None:
    """The one letter that is longer in lower case stays as it is."""
    assert fold("İ TOKEN") == "İ token"


@given(st.text(), st.text(alphabet="abcXYZ019_-+/=.%", min_size=VERY_LONG), st.text())
def test_long_words_are_found(before: str, word: str, after: str) -> None:
    """A word of one piece is among the long words, whatever stands around it."""
    glance = Glance(f"{before}{word}{after}")
    assert word in glance.long_words()
    assert word in glance.long_words(VERY_LONG)


def test_short_words_are_left_out() -> None:
    """What is shorter than LONG is not among them."""
    assert Glance("a few short words, éééééééééé too").long_words() == ""
    assert Glance("x" * LONG + " " + "y" * VERY_LONG).long_words() == "x" * LONG + " " + "y" * VERY_LONG
    assert Glance("x" * LONG + " " + "y" * VERY_LONG).long_words(VERY_LONG) == "y" * VERY_LONG


def test_digits_are_one_digit() -> None:
    """All digits look the same, and nothing else changes."""
    assert Glance("Tel. 12-34").digits() == b"Tel. 00-00"


def test_lone_surrogates_are_no_trouble() -> None:
    """Text that no file can hold can be looked at."""
    assert "abcdefgh" in Glance("\ud800abcdefgh").long_words()


def test_words_and_texts() -> None:
    """A word has nothing in it that separates words."""
    assert is_word("a-b_c%2F=")
    assert not is_word("a b")
    assert not is_word("pässword")
    assert any_in(("x", "y"), "day")
    assert not any_in((), "day")
