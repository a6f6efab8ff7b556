"""What a person is shown of the list, and when."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_kit.config import read_config
from amplifier_module_hooks_todo_display.config import TodoDisplayConfig
from amplifier_module_hooks_todo_display.render import todo_lines

TODOS = [
    {"content": "Read the config", "activeForm": "Reading the config", "status": "completed"},
    {"content": "Write the parser", "activeForm": "Writing the parser", "status": "in_progress"},
    {"content": "Test it", "activeForm": "Testing it", "status": "pending"},
]
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


class Display:
    """Keeps what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str = "info", source: str = "hook") -> None:
        self.shown.append((message, level, source))


def _lines(todos: list[dict[str, str]], **config: Any) -> list[str]:
    return todo_lines(todos, read_config(TodoDisplayConfig, config, module="x"))


async def test_a_changed_list_is_shown(scripted_session: Callable[..., AmplifierSession]) -> None:
    """A call that changes the list shows it; one that only reads it shows nothing, nor does another tool."""
    session = scripted_session(
        [("todo", {"action": "create", "todos": TODOS})],
        [("todo", {"action": "list"})],
        [("todo", {"action": "update", "todos": TODOS[:1]})],
        "done",
        tools=[{"module": "tool-todo"}],
        hooks=[{"module": "hooks-todo-display"}],
    )
    display = Display()
    session.coordinator.display_system = display
    session.coordinator.register_policy("test", lambda action, details: "allow")
    async with session:
        await session.execute("go")
    assert len(display.shown) == 2
    message, level, source = display.shown[0]
    assert (level, source) == ("info", "hooks-todo-display")
    assert "▶ Writing the parser" in message
    assert "1/1" in display.shown[1][0]


def test_the_readme_shows_what_is_shown() -> None:
    """The example on the page is the output."""
    [shown] = re.findall(r"```text\n(.*?)\n```", README, flags=re.DOTALL)
    assert shown.splitlines() == _lines(TODOS)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"mode": "none"}, []),
        ({"mode": "condensed", "progress_bar_width": 6}, ["Todo ██░░░░ 1/3 ▶ Writing the parser"]),
        ({"compact_threshold": 2, "show_progress_bar": False}, ["Todo 1/3 ▶ Writing the parser"]),
        (
            {"show_border": False, "show_progress_bar": False, "title": "Plan"},
            ["Plan", "✓ Read the config", "▶ Writing the parser", "○ Test it", "1/3"],
        ),
        ({"mode": "condensed", "max_width": 20, "show_progress_bar": False}, ["Todo 1/3 ▶ Writing…"]),
    ],
)
def test_the_modes(config: dict[str, Any], expected: list[str]) -> None:
    """Each key decides about one part."""
    assert [line.rstrip() for line in _lines(TODOS, **config)] == expected


@given(
    st.lists(
        st.fixed_dictionaries({"content": st.text(), "status": st.sampled_from(["completed", "in_progress", "x"])})
    ),
    st.integers(20, 90),
    st.booleans(),
)
def test_no_line_is_too_wide(todos: list[dict[str, str]], width: int, has_border: bool) -> None:
    """Whatever is in the list, it fits."""
    lines = _lines(todos, max_width=width, show_border=has_border, mode="full", progress_bar_width=8)
    columns = [sum(not unicodedata.combining(character) for character in line) for line in lines]
    assert all(count <= width for count in columns)
    assert not any("\n" in line or "\x1b" in line for line in lines)
