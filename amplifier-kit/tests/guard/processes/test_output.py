"""Of long output the beginning and the end are shown, and nothing is without bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.processes.output import Output


@given(text=st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P"))), limit=st.integers(1, 50))
def test_text_is_never_damaged(text: str, limit: int) -> None:
    """Of a text, a beginning and an end are shown, with nothing in them that was not there."""
    output = Output(limit)
    for character in text:
        output.feed(character.encode())
    shown = output.shown()
    if not shown.is_cut:
        assert shown.text == text
        return
    head, _, rest = shown.text.partition("[...")
    tail = rest.partition("...]\n")[2]
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail)


def test_what_steers_a_terminal_is_taken_out() -> None:
    """Colours, titles and cursor movements are gone; other control characters are seen as such."""
    output = Output(1000)
    output.feed(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b(B\ttab\r\nbell\x07 nul\x00 \xff end")
    assert output.shown().text == "red plain\ttab\r\nbell\ufffd nul\ufffd \ufffd end"


def test_the_last_line() -> None:
    """The last line with something in it is known at any time, also of a progress bar."""
    output = Output(100)
    assert output.last_line() == ""
    output.feed(b"first\n\x1b[32m 50 %\r 51 %\n\n")
    assert output.last_line() == "51 %"
    output.feed(b"x" * 200 + b"\nlast\n")
    assert output.last_line() == "last"


TOKEN = "ghp_" + "Q7w8E9r0T1" * 4


@pytest.mark.parametrize("before", range(350, 405, 2))
def test_what_is_shown_of_a_long_line_holds_no_half_secret(before: int) -> None:
    """Where a line is cut for the result, it is cut between words: half a secret would be masked by nothing."""
    output = Output(1000)
    output.feed(b"x" * before + b" " + TOKEN.encode() + b" " + b"y " * 1000 + TOKEN.encode() + b" " + b"z" * before)
    text = output.shown().text
    assert text.count("Q7w8") in (0, text.count(TOKEN) * 4)


def test_the_last_line_holds_no_half_secret() -> None:
    """A line that is still being written is shown without its last word."""
    output = Output(10_000)
    output.feed(f"done\nusing {TOKEN[:-1]}".encode())
    assert output.last_line() == "using"
    output.feed(f"{TOKEN[-1]} now\n".encode())
    assert output.last_line() == f"using {TOKEN} now"
