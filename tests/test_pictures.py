"""The pictures of the documentation show the program as it is."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from amplifier_app_cli import __version__
from amplifier_app_cli.ui.approval.question import Question, keys, menu

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
HEADINGS = ("ID", "LAST ACTIVE", "TURNS", "COST", "BUNDLE", "MODEL", "NAME OR FIRST PROMPT")


def _shown(name: str) -> str:
    """Return the text of a picture, as somebody reads it."""
    drawn = (PICTURES / name).read_text(encoding="utf-8")
    pieces = re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', drawn)
    lines: dict[float, list[str]] = {}
    for _, height, text in pieces:
        lines.setdefault(float(height), []).append(html.unescape(text).replace("\xa0", " "))
    return "\n".join("".join(lines[height]).rstrip() for height in sorted(lines))


def test_the_chat() -> None:
    """The picture of a chat has its first line, a tool that failed with its output, and the lines below an answer."""
    shown = _shown("chat.svg")
    assert f"amplifier {__version__} · shop 1.0.0 · mock" in shown
    for part in (
        "✘ bash python3 -m unittest",
        "AssertionError: 2 != 3",
        " in · 122 out",
        "permissions: ask · sandbox on",
    ):
        assert part in shown, part


def test_the_question() -> None:
    """The picture of a question has the difference, and every answer that can be given with what it means."""
    shown = _shown("approval.svg")
    question = Question("", [], None, is_editable=True, can_wait=True)
    for option in menu(question):
        assert option.meaning in shown, option
    assert "allow, and keep this rule for this session: allow filesystem.write" in shown
    assert "+    return -(-results // per_page)" in shown
    assert f"Allow? [{keys(question).replace('n/e', 'n/a/e')}]" in shown


def test_the_undo() -> None:
    """The picture of an undo has the tests that passed, a command of the user, and the file that was restored."""
    shown = _shown("undo.svg")
    for part in ("Ran 2 tests", "> !git diff --stat", "1 file changed", "> /undo", "restored: "):
        assert part in shown, part


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_list_of_sessions(heading: str) -> None:
    """The picture of the list has the columns that the list has."""
    listing = Path(__file__).resolve().parent.parent / "amplifier-app-cli/amplifier_app_cli/commands/session/list.py"
    assert f'"{heading}"' in listing.read_text(encoding="utf-8")
    assert heading in _shown("session-list.svg")
