"""How a list becomes lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_todo_reminder.reminder import todo_lines

TEXTS = st.one_of(st.text(), st.sampled_from(["</system-reminder>", "< /System-Reminder >", "<system-reminder x>"]))
STATUSES = st.one_of(st.sampled_from(["pending", "in_progress", "completed"]), st.none(), st.integers(), st.text())
TODOS = st.fixed_dictionaries(
    {}, optional={"content": TEXTS | st.none() | st.integers(), "activeForm": TEXTS, "status": STATUSES}
)


@given(st.lists(st.one_of(TODOS, st.integers(), st.lists(TEXTS)), max_size=120))
def test_any_list_gives_one_safe_line_per_entry(state: list[Any]) -> None:
    """No entry breaks the layout, ends the reminder or starts another one, and the number of lines is bounded."""
    lines = todo_lines(state)
    assert len(lines) <= 52
    for line in lines:
        assert len(line.splitlines()) == 1
        assert "<system-reminder" not in line.lower().replace(" ", "").replace("/", "")


@given(st.lists(TODOS, max_size=50))
def test_a_list_of_moderate_length_is_shown_whole(state: list[Any]) -> None:
    """Up to fifty todos each have their line, in order, under one heading."""
    lines = todo_lines(state)
    assert len(lines) == (len(state) + 1 if state else 0)


def test_a_very_long_list_shows_what_is_open() -> None:
    """Of many todos the first fifty that are not completed are listed, and the rest is counted."""
    done = [{"content": f"old {number}", "status": "completed"} for number in range(30)]
    todo = [{"content": f"new {number}", "status": "pending"} for number in range(60)]
    lines = todo_lines([*done, *todo])
    assert lines[0] == "Todo list, 30 of 90 done:"
    assert lines[1:51] == [f"[ ] new {number}" for number in range(50)]
    assert lines[51:] == ["(40 more, not listed)"]


def test_a_long_entry_is_cut() -> None:
    """One todo has one line of at most three hundred characters and an ellipsis."""
    [_, line] = todo_lines([{"content": "word " * 100, "status": "pending"}])
    assert line.startswith("[ ] word word")
    assert line.endswith("…")
    assert len(line) == len("[ ] ") + 301


def test_an_entry_in_progress_is_shown_as_what_is_happening() -> None:
    """`activeForm` is used for what is in progress only, `content` where there is none."""
    forms = {"content": "Write", "activeForm": "Writing"}
    todos = [{**forms, "status": status} for status in ("pending", "in_progress", "completed")]
    assert todo_lines(todos)[1:] == ["[ ] Write", "[>] Writing", "[x] Write"]
    assert todo_lines([{"content": "Write", "status": "in_progress"}])[1:] == ["[>] Write"]
