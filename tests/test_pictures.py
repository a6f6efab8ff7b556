"""The pictures of the documentation show the program as it is."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from amplifier_app_cli import __version__
from amplifier_app_cli.ui.approval.question import Question, explanation, keys

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
    """The picture of a chat has what a chat begins with and what stands behind an answer."""
    shown = _shown("chat.svg")
    assert f"amplifier {__version__} · session " in shown
    for part in ("bundle: ", "provider: ", "project: ", "trust: ", "Enter sends, Ctrl-J", "sandbox: ", " in · 64 out"):
        assert part in shown, part


def test_the_question() -> None:
    """The picture of a question has the difference, every answer that can be given, and what each of them means."""
    shown = _shown("approval.svg")
    question = Question("", [], None, is_editable=True, can_wait=True)
    for line in explanation(question):
        assert line in shown, line
    assert "a = allow for this session: allow filesystem.write" in shown
    assert "+Measured by Ada on Friday." in shown
    assert f"Allow? [{keys(question).replace('n/e', 'n/a/e')}]" in shown


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_list_of_sessions(heading: str) -> None:
    """The picture of the list has the columns that the list has."""
    listing = Path(__file__).resolve().parent.parent / "amplifier-app-cli/amplifier_app_cli/commands/session/list.py"
    assert f'"{heading}"' in listing.read_text(encoding="utf-8")
    assert heading in _shown("session-list.svg")
