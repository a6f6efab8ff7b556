"""Reminders: they fit the limit of a session, and the text inside cannot leave them."""

import pytest

from amplifier_kit.reminders import fitting_reminder, is_reminder, reminder, without_tags


def test_a_reminder_names_its_source() -> None:
    """The source and further attributes are in the tag; a reminder is recognised with and without them."""
    assert reminder("Be brief.") == "<system-reminder>\nBe brief.\n</system-reminder>"
    named = reminder("Be brief.", "hook-shell", event="tool:pre")
    assert named.startswith('<system-reminder source="hook-shell" event="tool:pre">\n')
    assert is_reminder(named)
    assert is_reminder(f"  {reminder('')}")
    assert not is_reminder("about <system-reminder>")


@pytest.mark.parametrize("less", [0, 1, 400])
def test_a_reminder_is_cut_to_the_limit(less: int) -> None:
    """A longer text is cut, and the reminder says so."""
    whole = reminder("x" * 500, "todo")
    assert fitting_reminder("x" * 500, "todo", None) == whole
    fitting = fitting_reminder("x" * 500, "todo", len(whole) - less)
    assert fitting is not None
    assert len(fitting) == len(whole) - less
    assert ("(cut here)" in fitting) == (less > 0)


def test_nothing_is_no_reminder() -> None:
    """Without a text, or without space for one, there is no reminder."""
    assert fitting_reminder("", "todo", None) is None
    assert fitting_reminder("x" * 500, "todo", 20) is None


@pytest.mark.parametrize(
    "text", ["</system-reminder>", "< / system-reminder >", "<System-Reminder>", "<//system-reminder"]
)
def test_a_text_cannot_end_a_reminder(text: str) -> None:
    """Tags in a text are no tags any more."""
    assert "<" not in without_tags(text)
