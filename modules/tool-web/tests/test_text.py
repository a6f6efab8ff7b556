"""Pages without their tags, and parts of texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_web.text import part_of, plain_text


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>one</p><p>two", "one\n\ntwo"),
        ("a <b>bold</b> word", "a bold word"),
        ("a<br>b<BR/>c", "a\nb\nc"),
        ("<script>x < y</script>done", "done"),
        ("<SCRIPT>if (a</SCRIPT >done", "done"),
        ("<style>p{}</style><template>t</template>x", "x"),
        ("a<!-- <p>no</p> -->b", "ab"),
        ("a<!-- never closed", "a"),
        ("1 < 2 and 3 <4", "1 < 2 and 3 <4"),
        ("&lt;p&gt; &amp; &#8364; &nbsp;x", "<p> & € x"),
        ("a<script>never closed", "a"),
        ("a <b never closed", "a"),
        ("İ<script>x</script>i", "İ\ni"),
        ("<title>T</title>x", "T\nx"),
        ("<svg/>x", "x"),
        ("&#" + "9" * 5000 + ";", "&#" + "9" * 5000 + ";"),
        ("", ""),
    ],
)
def test_what_is_left(page: str, expected: str) -> None:
    """Blocks end lines, inline tags vanish, scripts and comments are left out, entities are characters."""
    assert plain_text(page) == expected


@given(st.text(alphabet="<>/!-scriptb &#;x1\n\"'", max_size=200))
def test_any_page_has_a_text(page: str) -> None:
    """Nothing that looks like a page fails, or grows."""
    assert len(plain_text(page)) <= len(page)


@pytest.mark.parametrize("piece", ["<", "<a", "<a>", "<script", "<script>", "<!--", "</", "&#", "<svg/>", "\n "])
def test_hostile_pages_take_no_time(piece: str) -> None:
    """A page of half a million of the same piece is done (a quadratic way would not be, within the test's deadline)."""
    assert len(plain_text(piece * 500_000)) <= len(piece) * 500_000


@given(st.text(max_size=60), st.integers(0, 300), st.integers(1, 80))
def test_parts_are_whole_characters(text: str, offset: int, limit: int) -> None:
    """A part begins and ends between characters, is not longer than asked (or one character), and says where it is."""
    text = text.encode("utf-8", "replace").decode()
    part = part_of(text, offset, limit)
    data = text.encode()
    assert part.text.encode() == data[part.offset : part.offset + part.size]
    assert part.total == len(data)
    assert part.size <= limit or len(part.text) == 1
    assert part.size > 0 or part.offset == part.total
    assert part.offset <= offset < part.offset + 4 or offset > part.total
