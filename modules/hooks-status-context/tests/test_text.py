"""How text of others is made safe."""

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_status_context.text import one_line

PARTS = st.one_of(st.text(), st.sampled_from(["<", "/", " ", "\n", "system-reminder", "SYSTEM-REMINDER>"]))


@given(st.lists(PARTS).map("".join), st.integers(1, 60))
def test_any_text_is_one_safe_line(text: str, limit: int) -> None:
    """One printable line, not longer than allowed, without a tag of ours, and safe text is not changed again."""
    line = one_line(text, limit)
    assert line.isprintable()
    assert len(line) <= limit
    assert "<system-reminder" not in line.lower().replace(" ", "").replace("/", "")
    assert one_line(line, limit) == line


def test_plain_text_is_left_alone() -> None:
    """What is harmless stays as it is; what is too long ends with an ellipsis."""
    assert one_line("src/naïve <file>.py") == "src/naïve <file>.py"
    assert one_line("abcdef", 4) == "abc…"
