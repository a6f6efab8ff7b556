"""Text that cannot steer the terminal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.ui.plain import on_one_line, plain, visible
from amplifier_kit.guard.invisible_characters import printable_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]52;c;AAAA\x1b\\clip", "clip"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("a\rb\x08c", "abc"),
        ("\x9b31mcsi", "31mcsi"),
        ("tab\tand\nnewline ü 漢", "tab\tand\nnewline ü 漢"),
        ("\x1b", ""),
        ("safe\u202eexe.txt\u2066", "safeexe.txt"),
    ],
)
def test_escapes_are_taken_out(text: str, shown: str) -> None:
    """Escape sequences and control characters disappear; ordinary text, tab and newline stay."""
    assert plain(text) == shown


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    """Whatever goes in, no control character but tab and newline comes out."""
    assert not [character for character in plain(text) if (ord(character) < 32 and character not in "\t\n")]
    assert not [character for character in plain(text) if 127 <= ord(character) < 160]


@given(st.text())
def test_json_keeps_its_meaning(text: str) -> None:
    """Escaping what JSON leaves as it is changes nothing that the JSON says, and leaves no control character."""
    shown = printable_json(json.dumps([text], ensure_ascii=False))
    assert json.loads(shown) == [text]
    assert not [character for character in shown if ord(character) < 32 or 127 <= ord(character) < 160]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;a\nrm -r x\n\x07", "\\x1b]0;a\nrm -r x\n\\x07"),
        ("ls \u202egnp.x", "ls \\u202egnp.x"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\rb\x08\x9b", "a\\rb\\x08\\x9b"),
        ("tab\tand\nnewline ü 漢", "tab\tand\nnewline ü 漢"),
        ("\u2028\U000e0041\ud800", "\\u2028\\U000e0041\\ud800"),
        ("rm\u00a0x\u2003y\u3000z", "rm\\xa0x\\u2003y\\u3000z"),
        ("a\ufe0f\U000e0100b", "a\\ufe0f\\U000e0100b"),
        ("\u115f\u1160\u3164\uffa0\u2800\u034f", "\\u115f\\u1160\\u3164\\uffa0\\u2800\\u034f"),
        ("\u180b\u180f\u17b4\u17b5\u1680\u202f\u205f", "\\u180b\\u180f\\u17b4\\u17b5\\u1680\\u202f\\u205f"),
    ],
)
def test_what_is_decided_on_is_shown_whole(text: str, shown: str) -> None:
    """What a terminal would obey or swallow is written out, in its place."""
    assert visible(text) == shown


@given(st.text())
def test_nothing_is_left_out(text: str) -> None:
    """Every character is there, as it is or written out, and none is left that cannot be seen."""
    shown = visible(text)
    assert len(shown) >= len(text)
    assert all(character in "\t\n" or character.isprintable() for character in shown)


def test_answers_keep_their_emoji() -> None:
    """What a model says is not decided on: selectors of variants and blanks of other widths stay in it."""
    assert plain("done \u2714\ufe0f 10\u00a0km") == "done \u2714\ufe0f 10\u00a0km"


def test_words_of_others_make_no_lines() -> None:
    """A text of somebody else is shown on one line, with its line feeds written out."""
    assert on_one_line("a\ntool: b\x1b") == "a\\ntool: b\\x1b"


def test_questions_and_json_know_the_same_characters() -> None:
    """There is one table of what cannot be seen: what JSON escapes, a question writes out."""
    every = [chr(code) for code in range(0x20, 0x110000)]
    # All of them at once: a line feed, which both leave as it is, keeps each apart from the next.
    asked, printed = (show("\n".join(every)).split("\n") for show in (visible, printable_json))
    assert len(asked) == len(printed) == len(every)
    written_out = [one for one, shown in zip(every, asked, strict=True) if shown != one]
    assert [one for one, shown in zip(every, printed, strict=True) if shown != one] == written_out
