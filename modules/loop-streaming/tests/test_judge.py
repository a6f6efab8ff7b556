"""What the judge sees of the work: its end, in bounds."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_loop_streaming.config import StreamingConfig
from amplifier_module_loop_streaming.judge import render_transcript


def message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_the_end_is_shown() -> None:
    """Only the last messages are shown, oldest first."""
    shown = render_transcript(
        [message("user", str(n)) for n in range(50)], StreamingConfig(goal_max_transcript_messages=2)
    )
    assert shown == "[user] 48\n[user] 49"


def test_tool_results_are_clipped() -> None:
    """Long results are cut and say by how much; what people say is not."""
    settings = StreamingConfig(goal_tool_content_clip_chars=3)
    shown = render_transcript([message("tool", "abcdef"), message("user", "abcdef")], settings)
    assert shown == "[tool] abc… (3 characters more)\n[user] abcdef"


def test_blocks_are_shown_as_data() -> None:
    """Content that is no text is shown as JSON."""
    assert '"text": "hé"' in render_transcript(
        [message("assistant", [{"type": "text", "text": "hé"}])], StreamingConfig()
    )


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 200))
def test_the_budget_holds(texts: list[str], budget: int) -> None:
    """The transcript is never longer than its budget, line ends aside."""
    shown = render_transcript(
        [message("user", text) for text in texts], StreamingConfig(goal_transcript_char_budget=budget)
    )
    assert len(shown) <= budget + len(texts)
