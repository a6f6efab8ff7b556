"""Tables for terminals of every width and every script."""

from __future__ import annotations

import io
import os
import pty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.ui.layout import columns, shortened, table, terminal_width

_TEXTS = st.text(max_size=30) | st.sampled_from(
    ["日本語のテキスト", "a\tb\nc", "\x1b[31mred", "é" * 20, "👩‍💻 work", "\u202eabc"]
)


def test_columns_line_up() -> None:
    """Cells start in the same column as their heading, wide characters counted as two."""
    shown = table(["ID", "NAME"], [["1", "漢字"], ["漢字漢", "x"]]).splitlines()
    assert shown == ["ID      NAME", "1       漢字", "漢字漢  x"]


def test_without_a_terminal_nothing_is_cut() -> None:
    """Whoever pipes a table gets all of it."""
    assert "x" * 500 in table(["A"], [["x" * 500]], None)


def test_the_widest_column_gives_way() -> None:
    """Cutting starts at the widest column; what is short stays whole."""
    shown = table(["ID", "TEXT"], [["12345678", "word " * 30]], 40).splitlines()
    assert shown[1].startswith("12345678  word")
    assert shown[1].endswith("…")
    assert columns(shown[1]) == 40


def test_columns_of_one_width_give_alike() -> None:
    """Of two columns that are too wide none is cut to nothing while the other keeps its room."""
    first, second = table(["A", "B"], [["a" * 31, "b" * 43]], 40).splitlines()[1].split()
    assert (len(first), len(second)) == (19, 19)


def test_columns_that_are_never_cut() -> None:
    """What has to be typed again stays whole, in its column or on lines of its own, and others give way."""
    rows = [["m" * 30, "text " * 10, "2"]]
    shown = table(["ID", "TEXT", "N"], rows, 50, whole=("ID",)).splitlines()
    assert shown[1].startswith("m" * 30 + "  text")
    assert columns(shown[1]) <= 50
    stacked = table(["ID", "TEXT", "N"], rows, 20, whole=("ID",)).splitlines()
    assert stacked[:3] == ["ID:", "m" * 30, "TEXT:"]


def test_a_terminal_too_narrow_for_columns() -> None:
    """Then every value is on a line of its own, with its heading, and empty ones are left out."""
    shown = table(["ID", "NAME", "MORE"], [["1" * 20, "漢字", ""], ["2", "b" * 20, "c" * 10]], 20)
    assert shown.splitlines() == [
        "ID:",
        "  " + "1" * 17 + "…",
        "NAME: 漢字",
        "",
        "ID: 2",
        "NAME:",
        "  " + "b" * 17 + "…",
        "MORE: " + "c" * 10,
    ]


@given(
    st.integers(1, 4).flatmap(
        lambda count: st.tuples(
            st.lists(st.sampled_from(["ID", "NAME", "名前"]), min_size=count, max_size=count),
            st.lists(st.lists(_TEXTS, min_size=count, max_size=count), max_size=4),
        )
    ),
    st.integers(1, 120),
)
def test_every_table_fits(parts: tuple[list[str], list[list[str]]], width: int) -> None:
    """Whatever is in it, no line is wider than the terminal, and nothing in it steers the terminal."""
    headings, rows = parts
    shown = table(headings, rows, width)
    assert all(columns(line) <= width for line in shown.split("\n"))
    assert not [one for one in shown if (ord(one) < 32 and one != "\n") or 127 <= ord(one) < 160]


@given(_TEXTS, st.integers(0, 40))
def test_shortened_texts_fit(text: str, width: int) -> None:
    """A shortened text is its own beginning, and takes no more columns than it may."""
    shown = shortened(text, width)
    assert columns(shown) <= width or shown == text
    assert text.startswith(shown.removesuffix("…"))


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has none; a terminal that does not know its own has the usual one; COLUMNS counts more."""
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width(io.StringIO()) is None
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as stream:
            assert terminal_width(stream) == 80
            monkeypatch.setenv("COLUMNS", "33")
            assert terminal_width(stream) == 33
            monkeypatch.setenv("COLUMNS", "nonsense")
            assert terminal_width(stream) == 80
    finally:
        os.close(leader)
