"""Long texts lose their middle, never their ends, and say how long they were."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.context.shorten import clip_content, clip_text
from amplifier_kit.engine.context.token_budget import SMALLEST_LIMIT

limits = st.integers(SMALLEST_LIMIT, 2000)
texts = st.text() | st.text(min_size=1, max_size=8).flatmap(lambda part: st.integers(1, 800).map(lambda n: part * n))


@given(texts, limits)
def test_a_text_keeps_within_the_limit(text: str, limit: int) -> None:
    """A clipped text has at most `limit` bytes; one that fits comes back itself."""
    clipped = clip_text(text, limit)
    if len(text.encode()) <= limit:
        assert clipped is text
    else:
        assert len(clipped.encode()) <= limit


@given(texts, limits)
def test_beginning_and_end_stay(text: str, limit: int) -> None:
    """What stands before and after the marker is the beginning and the end of the text."""
    size = len(text.encode())
    if size <= limit:
        return
    marker = f"\n\n[... clipped: the whole result has {size} bytes, {limit} are kept ...]\n\n"
    before, after = clip_text(text, limit).split(marker)
    assert text.startswith(before)
    assert text.endswith(after)
    room = limit - len(marker)
    assert len(before.encode()) > room // 2 - 4
    assert len(after.encode()) > room // 2 - 4


blocks = st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, texts)
    | st.builds(lambda text: {"type": "tool_result", "tool_call_id": "1", "output": text}, texts)
    | st.just({"type": "image", "source": {"data": "AAAA"}})
    | st.builds(lambda value: {"type": "tool_result", "tool_call_id": "1", "output": {"value": value}}, st.integers()),
    max_size=6,
)


def _texts(content: list[Any]) -> list[str]:
    found = [block.get("text", block.get("output")) for block in content]
    return [text for text in found if isinstance(text, str)]


@given(blocks, limits)
def test_blocks_count_as_one_text(content: list[Any], limit: int) -> None:
    """The texts of all blocks together keep within the limit; blocks without text stay, whatever is cut."""
    clipped = clip_content(content, limit)
    size = sum(len(text.encode()) for text in _texts(content))
    if size <= limit:
        assert clipped is content
        return
    assert sum(len(text.encode()) for text in _texts(clipped)) <= limit
    assert sum(f"the whole result has {size} bytes" in text for text in _texts(clipped)) == 1
    others = [block for block in content if not isinstance(block.get("text", block.get("output")), str)]
    assert [block for block in clipped if not isinstance(block.get("text", block.get("output")), str)] == others


def test_the_middle_is_cut_across_blocks() -> None:
    """A block in the middle goes entirely; its neighbours keep the parts that lie outside the cut."""
    content = [{"type": "text", "text": letter * 300} for letter in "abc"]
    first, last = clip_content(content, 256)
    assert first["text"].startswith("aaaa")
    assert "the whole result has 900 bytes" in first["text"]
    assert set(last["text"]) == {"c"}
    assert content[1]["text"] == "b" * 300


def test_what_has_no_text_is_left_alone() -> None:
    """A content that is neither text nor a list of blocks comes back as it is."""
    assert clip_content(None, 256) is None
    assert clip_content(["x" * 10], 256) == ["x" * 10]
    assert len(clip_content(["x" * 400], 256)[0]) == 256
