"""What is said to the person fits the terminal, and is left alone elsewhere."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.ui.layout import columns
from amplifier_app_cli.ui.say import complain, say, show_warnings


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Be a terminal."""
        return True


def _said(text: str, width: int, stream: io.StringIO) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setattr(sys, "stderr", stream)
        say(text)
    return stream.getvalue().removesuffix("\n").split("\n")


def test_lines_are_broken_between_words() -> None:
    """A line that is too long goes on in the next one with a whole word, in the same indentation."""
    assert _said("one two three four", 9, _Terminal()) == ["one two", "three", "four"]
    assert _said("  one two three", 9, _Terminal()) == ["  one two", "  three"]
    assert _said("short   line\n    as it  is", 14, _Terminal()) == ["short   line", "    as it  is"]


def test_ids_and_paths_are_never_broken() -> None:
    """A word longer than the terminal stays whole, on a line of its own."""
    path = "/a/very/long/path/to/a/file.jsonl"
    assert _said(f"log: {path} is kept", 20, _Terminal()) == ["log:", path, "is kept"]


def test_without_a_terminal_nothing_is_broken() -> None:
    """Who reads it by a program or a file gets the line as it is."""
    text = "word " * 100 + "end"
    assert _said(text, 20, io.StringIO()) == [text]


@given(st.text("ab 日\n", max_size=120), st.integers(1, 30))
def test_no_word_is_lost(text: str, width: int) -> None:
    """All words come, in order, and only a line of a single word is wider than the terminal."""
    lines = _said(text, width, _Terminal())
    assert " ".join(lines).split() == text.split()
    assert all(columns(line) <= width or len(line.split()) == 1 for line in lines)


def test_warnings_are_said_once_and_without_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a warning is shown, safely and once; infos and tracebacks are not."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    show_warnings()
    show_warnings()
    logger = logging.getLogger("amplifier_test")
    for _ in range(2):
        logger.error("bad \x1b[31m%s", "thing", exc_info=ValueError("inside"))
    logger.info("nothing of interest")
    logger.warning("does not fit %s %s", "one")
    assert shown.getvalue() == "amplifier: bad thing\namplifier: does not fit %s %s\n"


@pytest.mark.parametrize("closed", [True, False])
def test_nobody_to_tell(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    """Where there is no standard error, or a closed one, saying something is no failure."""
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", gone if closed else None)
    say("anything")
    assert complain(7, "anything") == 7
