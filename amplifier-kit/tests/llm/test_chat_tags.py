"""Thinking that a server leaves in the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.llm.chat.response import ThinkTags


def _split(pieces: list[str], *, enabled: bool = True) -> list[tuple[str, str]]:
    tags = ThinkTags(enabled=enabled)
    said = [part for piece in pieces for part in tags.feed(piece)] + tags.flush()
    return [
        (kind, "".join(text for _, text in group)) for kind, group in itertools.groupby(said, key=lambda part: part[0])
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain", [("text", "plain")]),
        ("<think>\nhm</think>\n\nyes", [("thinking", "hm"), ("text", "yes")]),
        (" \n<think>hm</think>yes", [("thinking", "hm"), ("text", "yes")]),
        ("<think></think>yes", [("text", "yes")]),
        ("<think>cut", [("thinking", "cut")]),
        ("<think>cut</thi", [("thinking", "cut</thi")]),
        ("<thin", [("text", "<thin")]),
        ("  ", [("text", "  ")]),
        ("a <think>no</think> b", [("text", "a <think>no</think> b")]),
        ("<think>a < b</think>c <think>d", [("thinking", "a < b"), ("text", "c <think>d")]),
        ("<think>only</think>\n", [("thinking", "only")]),
        ("", []),
    ],
)
def test_what_is_thinking(text: str, said: list[tuple[str, str]]) -> None:
    """Only what stands between marks at the beginning is thinking; blank lines around it are dropped."""
    assert _split([text]) == said


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", "/", "\n", " ", "a", "bc"]), max_size=12))
def test_pieces_do_not_matter(pieces: list[str]) -> None:
    """However a text is cut, even inside a mark, it means the same."""
    whole = "".join(pieces)
    assert _split(pieces) == _split(list(whole)) == _split([whole])


def test_switched_off() -> None:
    """Without marks to look for, everything is text and nothing is held back."""
    tags = ThinkTags(enabled=False)
    assert not tags.is_splitting
    assert tags.feed("<think>x</think>") == [("text", "<think>x</think>")]
