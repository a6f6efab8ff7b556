"""Results in a real terminal: colours only where they are wanted, nothing wider than the screen."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from amplifier_app_cli.ui.table import columns

Scripted = Callable[..., str]


def _shown(project: Path, environment: dict[str, str], *arguments: str, width: int = 80) -> str:
    """Return what a terminal of that width gets to see."""
    command = ["-m", "amplifier_app_cli", *arguments]
    child = pexpect.spawn(
        sys.executable, command, cwd=str(project), env=environment, dimensions=(24, width), encoding="utf-8", timeout=60
    )
    text = str(child.read())
    child.close()
    assert child.exitstatus == 0, text
    return text.replace("\r\n", "\n")


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "xterm-256color"}])
def test_no_escapes_where_none_are_wanted(
    project: Path, environment: dict[str, str], scripted: Scripted, setting: dict[str, str]
) -> None:
    """Answers and lists have no colours in a terminal that does not want them, and whatever the model says none."""
    bundle = scripted(json.dumps({"turns": [{"text": "\x1b[31mred\x1b[0m"}]}))
    answer = _shown(project, {**environment, **setting}, "run", "go", "--bundle", bundle)
    assert "red" in answer
    assert "\x1b" not in answer
    assert "\x1b" not in _shown(project, {**environment, **setting}, "session", "list")


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_lists_fit_the_terminal(project: Path, environment: dict[str, str], scripted: Scripted, width: int) -> None:
    """With names in Chinese, in terminals wide and narrow, no line of the list is wider than the screen."""
    environment.pop("COLUMNS", None)
    bundle = scripted("turns: [{text: Sure}]")
    _shown(project, environment, "run", "-q", "日本語のとても長い質問です" * 5, "--bundle", bundle)
    listed = _shown(project, environment, "session", "list", width=width)
    assert re.search("日本", listed)
    assert all(columns(line) <= width for line in listed.splitlines()), listed
