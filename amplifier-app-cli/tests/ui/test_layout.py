"""Text that fits a terminal."""

from __future__ import annotations

import pytest

from amplifier_app_cli.ui.layout import counted, folded, size_text


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("as it is", 20, "as it is"),
        ("one two three", 8, "one two\nthree"),
        ("  one two three", 8, "  one\n  two\n  three"),
        ("log: /a/path/that/is/never/torn", 10, "log:\n/a/path/that/is/never/torn"),
        ("日本 日本 日本", 9, "日本 日本\n日本"),
        ("first\nsecond line", 7, "first\nsecond\nline"),
    ],
)
def test_between_words(text: str, width: int, wanted: str) -> None:
    """Lines end between words, wide characters count as two, and a long word stays whole."""
    assert folded(text, width) == wanted


@pytest.mark.parametrize(("number", "wanted"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns"), (1200, "1,200 turns")])
def test_one_is_no_plural(number: int, wanted: str) -> None:
    """One is said as one."""
    assert counted(number, "turn") == wanted


@pytest.mark.parametrize(("size", "text"), [(0, "0 bytes"), (1000, "1.0 kB"), (25 * 10**11, "2500.0 GB")])
def test_readable_sizes(size: int, text: str) -> None:
    """Sizes are short and have a unit."""
    assert size_text(size) == text
