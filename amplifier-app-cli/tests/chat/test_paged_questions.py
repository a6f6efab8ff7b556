"""Questions that are longer than the terminal, at a real one: nothing runs before its last page was shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_COMMANDS = "\\n".join(f"step {number:03}" for number in range(100))
_LONG = f"""
    turns:
      - tool_calls: [{{id: c1, name: write_file, arguments: {{file_path: notes.txt, content: "{_COMMANDS}"}}}}]
      - text: "Written, or not."
"""
_MORE = "% shown [Enter = next page, n = deny]"


def _visible(chat: Any) -> str:
    """Return what is on the screen without scrolling back."""
    return "\n".join("".join(line) for line in chat.screen.lines[-chat.screen.height :])


def _last_share(chat: Any) -> list[str]:
    return re.findall(r"(\d+)" + re.escape(_MORE), chat.text)[-1:]


@pytest.mark.parametrize("terminal", ["xterm-256color", "dumb"])
def test_every_page_is_seen_before_a_yes(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path, terminal: str
) -> None:
    """A yes before the last page does nothing; each page is on the screen whole when the next one is offered."""
    chat = start("--bundle", scripted(_LONG, tools=True), "--trust", rows=24, TERM=terminal)
    chat.line("write")
    chat.wait_until(lambda: _MORE in chat.text)
    seen = _visible(chat)
    assert "Allow filesystem.write?" in seen
    chat.line("y")
    chat.wait_for("not all of it was shown yet")
    assert not (project / "notes.txt").exists()
    chat.wait_until(lambda: bool(_last_share(chat)))
    pages = 0
    while "Allow? [" not in chat.text:
        pages += 1
        before = _last_share(chat)
        chat.line("")
        chat.wait_until(lambda before=before: _last_share(chat) not in ([], before) or "Allow? [" in chat.text)
        seen += _visible(chat)
    assert pages > 3
    assert [number for number in range(100) if f"+step {number:03}" not in seen] == []
    chat.line("y")
    chat.wait_for_prompt("Written, or not.")
    assert (project / "notes.txt").read_text(encoding="utf-8").endswith("step 099")
    chat.send("\x04")
    assert chat.end() == 0


@pytest.mark.parametrize("keys", ["n\r", "\x03"])
def test_a_no_ends_the_pages(start: Callable[..., Any], scripted: Callable[..., str], project: Path, keys: str) -> None:
    """A no on the first page, and Ctrl-C, deny the call."""
    chat = start("--bundle", scripted(_LONG, tools=True), "--trust", rows=24)
    chat.line("write")
    chat.wait_until(lambda: _MORE in chat.text)
    chat.send(keys)
    chat.wait_for_prompt("write_file")
    assert not (project / "notes.txt").exists()
    assert "step 099" not in chat.text
    chat.send("\x04")
    assert chat.end() == 0
    assert "approval:denied" in [record["event"] for record in chat.events]
