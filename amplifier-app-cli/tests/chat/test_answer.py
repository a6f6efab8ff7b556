"""Markdown that arrives in pieces: blocks come out complete, and no word is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.chat.answer import MarkdownStream, render_markdown
from amplifier_app_cli.ui.layout import columns

_LINES = st.sampled_from(
    [
        "",
        "",
        "word",
        "# Title",
        "- item",
        "  more",
        "1. one",
        "```",
        "```python",
        "~~~",
        "| a | b |",
        "    code",
        "`x`",
        "> q",
    ]
)


def _fed(text: str, cuts: list[int]) -> tuple[list[str], MarkdownStream]:
    stream = MarkdownStream()
    blocks: list[str] = []
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        blocks += stream.feed(text[start:end])
    return blocks, stream


@given(st.lists(_LINES, max_size=80).map("\n".join), st.lists(st.integers(0, 10_000), max_size=10))
def test_blocks_do_not_depend_on_the_pieces(text: str, cuts: list[int]) -> None:
    """The same text gives the same blocks, however it is cut."""
    blocks, stream = _fed(text, cuts)
    whole, other = _fed(text, [])
    assert blocks + stream.end() == whole + other.end()


@given(st.lists(_LINES, max_size=80).map("\n".join), st.lists(st.integers(0, 10_000), max_size=10))
def test_no_word_is_lost(text: str, cuts: list[int]) -> None:
    """Blocks and rest hold every line of the text in order, and nothing else but fences around parts of code."""
    blocks, stream = _fed(text, cuts)
    shown = [line for block in blocks + stream.end() for line in block.split("\n") if line.strip()]
    wanted = [line for line in text.split("\n") if line.strip()]
    for line in wanted:
        assert line in shown
    without_fences = [line for line in shown if not line.lstrip().startswith(("```", "~~~"))]
    assert without_fences == [line for line in wanted if not line.lstrip().startswith(("```", "~~~"))]


def test_paragraph_is_complete_at_the_next_one() -> None:
    """A paragraph is given out when another block begins; until then it is the rest."""
    stream = MarkdownStream()
    assert stream.feed("One par") == []
    assert stream.tail == "One par"
    assert stream.feed("agraph.\n\nAno") == []
    assert stream.feed("ther.\n\n# T\n") == ["One paragraph.", "Another."]
    assert stream.end() == ["# T"]


def test_code_is_kept_together() -> None:
    """Blank lines inside of code end no block; the closing fence does."""
    stream = MarkdownStream()
    assert stream.feed("```py\na = 1\n\nb = 2\n") == []
    assert stream.feed("```\n") == ["```py\na = 1\n\nb = 2\n```"]


def test_list_is_kept_together() -> None:
    """Items with blank lines between them are one list, with their numbers."""
    stream = MarkdownStream()
    blocks = stream.feed("1. one\n\n   more of one\n\n2. two\n\nAfter.\n")
    assert blocks == ["1. one\n\n   more of one\n\n2. two"]


def test_long_code_comes_in_parts() -> None:
    """A long code block is given out in parts, each a code block of the same language."""
    stream = MarkdownStream()
    blocks = stream.feed("```py\n" + "".join(f"line {number}\n" for number in range(100)) + "```\n")
    assert len(blocks) > 2
    assert all(block.startswith("```py\n") and block.endswith("\n```") for block in blocks)


def test_rendered_fits_the_width() -> None:
    """Nothing is wider than asked for, wide characters counted as wide, and links show where they lead."""
    import re

    text = render_markdown("# Ein Titel\n\n" + "漢字" * 30 + "\n\n- [here](http://there.example)\n", 29)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(columns(line) <= 29 for line in bare.split("\n"))
    assert "漢字" * 30 in bare.replace("\n", "")
    assert "there.example" in bare.replace("\n", "")
    assert "\x1b]8" not in text


def test_rendered_blocks_have_no_blank_edges() -> None:
    """Blank lines around a block, which tables and lists bring along, are left to whoever puts blocks together."""
    for text in ("| a | b |\n|---|---|\n| 1 | 2 |", "- one\n- two", "```\ncode\n```", "# T"):
        lines = render_markdown(text, 40).split("\n")
        assert lines[0].strip()
        assert lines[-1].strip()
    assert render_markdown("<!-- nothing -->", 40) == ""


@pytest.mark.parametrize("width", [40, 24])
def test_cells_of_tables_lose_nothing(width: int) -> None:
    """What is too wide for its column goes on in the next line: nothing of a model's table is cut off."""
    import re

    heading, sentence, path = "Überschrift" * 2, "漢字かな交じり" * 4, "one/path/without/any/space/" * 2
    text = render_markdown(f"| {heading} | b |\n|---|---|\n| {sentence} | x |\n| {path} | y |\n", width)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")
    assert all(columns(line) <= width for line in lines)
    shown = "".join(line.strip().removesuffix(" b").removesuffix(" x").removesuffix(" y").strip() for line in lines)
    for whole in (heading, sentence, path):
        assert whole in shown
