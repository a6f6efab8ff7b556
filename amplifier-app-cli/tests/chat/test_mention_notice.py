"""A chat says which names in a prompt lead to no file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_mistyped_name_is_told_each_time(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Whoever mistypes the name of a file sees it above the answer, also the second time."""
    chat = start("--bundle", scripted("turns: [{text: Sure.}, {text: Again.}]"))
    chat.wait_for_prompt()
    chat.line("read @nots.md")
    chat.wait_for_prompt("Sure.")
    assert "note: not given to the model: @nots.md: there is no such file" in " ".join(chat.text.split())
    chat.line("read @nots.md please")
    chat.wait_for_prompt("Again.")
    assert chat.text.count("not given to the model") == 2
    chat.send("\x04")
    assert chat.end() == 0
