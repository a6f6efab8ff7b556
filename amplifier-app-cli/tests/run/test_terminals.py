"""Results in a real terminal: colours only where they are wanted, nothing wider than the screen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.providers.known import all_key_names
from amplifier_app_cli.ui.layout import columns

Scripted = Callable[..., str]
Shown = Callable[..., str]


@pytest.fixture
def shown(at_terminal: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that runs the program and returns what a terminal of that width gets to see."""

    def run(*arguments: str, width: int = 80, code: int = 0, **setting: str) -> str:
        child = at_terminal(*arguments, dimensions=(24, width), **setting)
        text = str(child.read())
        assert child.wait() == code, text
        return text.replace("\r\n", "\n")

    return run


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "xterm-256color"}])
def test_no_escapes_where_none_are_wanted(shown: Shown, scripted: Scripted, setting: dict[str, str]) -> None:
    """Answers and lists have no colours in a terminal that does not want them, and whatever the model says none."""
    bundle = scripted(json.dumps({"turns": [{"text": "\x1b[31mred\x1b[0m"}]}))
    answer = shown("run", "go", "--bundle", bundle, **setting)
    assert "red" in answer
    assert "\x1b" not in answer
    assert "\x1b" not in shown("session", "list", **setting)


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_lists_fit_the_terminal(shown: Shown, scripted: Scripted, width: int) -> None:
    """With names in Chinese, in terminals wide and narrow, no line of the list is wider than the screen."""
    bundle = scripted("turns: [{text: Sure}]")
    shown("run", "-q", "日本語のとても長い質問です" * 5, "--bundle", bundle)
    listed = shown("session", "list", width=width)
    assert re.search("日本", listed)
    assert all(columns(line) <= width for line in listed.splitlines()), listed


def test_no_prompt_and_nothing_to_read(shown: Shown) -> None:
    """At a terminal a run without a prompt says the three ways to give one, chat among them."""
    told = shown("run", "--bundle", "./team", code=2)
    assert "no prompt: give one as an argument, pipe it in, or chat with --mode chat" in " ".join(told.split())


def test_providers_fit_without_their_modules(shown: Shown, environment: dict[str, str]) -> None:
    """On a terminal the modules, which are called as the providers, leave their room to the rest; a pipe has them."""
    for name in all_key_names():
        environment.pop(name, None)
    listed = shown("provider", "list")
    heading = next(line for line in listed.splitlines() if line.startswith("PROVIDER"))
    assert heading.split() == ["PROVIDER", "INSTALLED", "KEY", "CONFIGURED", "USED"]
    assert "chat-completions " in listed
    assert " no (ANTHROPIC_API_KEY) " in listed


def test_modules_are_never_cut(shown: Shown) -> None:
    """Ids of modules can be copied from a list on a narrow terminal: other columns give way."""
    for width in (60, 80):
        listed = shown("module", "list", width=width)
        assert "provider-chat-completions " in listed
        assert not re.search(r"^\S*…", listed, re.MULTILINE), listed


def test_findings_fit_the_terminal(shown: Shown, environment: dict[str, str]) -> None:
    """What `doctor` finds is broken between words and stays in its column; no path is broken."""
    for name in all_key_names():
        environment.pop(name, None)
    told = shown("doctor", width=70)
    assert all(columns(line) <= 70 or " " not in line.strip()[16:] for line in told.splitlines()), told
    assert all(line.startswith(("ok ", "warn ", "fail ", " " * 16)) for line in told.splitlines()), told


def test_paths_of_a_bundle_are_whole(shown: Shown) -> None:
    """The files of a bundle can be told apart, and copied, however narrow the terminal is."""
    bundle = shown("bundle", "show", "default", width=50)
    paths = [line.split()[-1] for line in bundle.splitlines() if "/" in line and ".yaml" in line]
    assert len(paths) > 3
    assert all(Path(path).is_file() for path in paths), paths


def test_nothing_to_delete(shown: Shown) -> None:
    """Where nothing is kept yet, `reset` asks nothing and says so."""
    assert "there is nothing to delete" in shown("reset")


def test_what_is_said_is_broken_between_words(shown: Shown, project: Path) -> None:
    """Notes that are longer than the terminal is wide are broken between words; no path is."""
    told = shown("session", "list", width=40)
    assert str(project) in told.replace("\n", " ").replace("\r", "")
    assert all(columns(line) <= 40 or " " not in line for line in told.splitlines()), told
