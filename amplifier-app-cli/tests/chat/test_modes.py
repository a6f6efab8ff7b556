"""Modes in a chat: `/mode`, `/modes`, and the slash command of each mode."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

_ANSWERS = "{turns: [{text: Yes.}], repeat: true}"
#: The model tries to run a command in its first turn.
_CALLS = "{turns: [{tool_calls: [{name: run, arguments: {command: ls}}]}, {text: Yes.}], repeat: true}"


class _Said(NamedTuple):
    told: str
    events: list[dict[str, object]]

    def prompts(self) -> list[object]:
        return [event["data"]["prompt"] for event in self.events if event["event"] == "prompt:submit"]  # type: ignore[index]

    def named(self, name: str) -> list[dict[str, object]]:
        return [event["data"] for event in self.events if event["event"] == name]  # type: ignore[misc]


@pytest.fixture
def talk(
    environment: dict[str, str],
    scripted: Callable[..., str],
    piped: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., _Said]:
    """Give `talk(*lines, turns=..., tools=False)`: type lines into a chat."""

    def run(*lines: str, turns: str = _ANSWERS, tools: bool = False) -> _Said:
        stdin = "".join(f"{line}\n" for line in lines)
        result = piped("--bundle", scripted(turns, tools=tools), "--trust", stdin=stdin)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr
        [log] = Path(environment["HOME"]).glob(".amplifier/projects/*/sessions/*/events.jsonl")
        return _Said(result.stderr, [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()])

    return run


def test_modes_lists_the_shipped_ones(talk: Callable[..., _Said]) -> None:
    """`/modes` lists the modes with their descriptions, and marks the active one."""
    told = talk("/modes", "/plan", "/modes").told
    for name in ("plan", "explore", "careful"):
        assert f"\n{name} " in told
    assert "\nplan (now) " in told
    assert "Look around and plan; change nothing." in told


def test_a_mode_is_activated_shown_and_left(talk: Callable[..., _Said]) -> None:
    """Each way to change the mode says what is active now; the name alone toggles."""
    said = talk("/mode", "/mode plan", "/mode", "/mode plan", "/mode plan on", "/mode plan off", "/mode off")
    shown = [line for line in said.told.splitlines() if line.startswith(("Mode", "No mode", "Unknown"))]
    title = "Mode: plan — Look around and plan; change nothing."
    assert shown == ["No mode active", title, title, "Mode off: plan", title, "Mode off: plan", "No mode active"]
    assert said.prompts() == []


def test_an_unknown_mode_says_where_the_others_are(talk: Callable[..., _Said]) -> None:
    """A name that is no mode changes nothing."""
    said = talk("/mode gone", "/mode info gone")
    assert said.told.count("Unknown mode: gone. Use /modes to list available modes.") == 2
    assert said.named("mode:activated") == []


def test_info_shows_the_lists(talk: Callable[..., _Said]) -> None:
    """`/mode info` shows what a mode restricts and its guidance, and activates nothing."""
    said = talk("/mode info careful")
    assert "confirm: write_file, edit_file, bash" in said.told
    assert "other tools: block" in said.told
    assert said.named("mode:activated") == []


@pytest.mark.parametrize("typed", ["/plan do x", "/mode plan do x"])
def test_text_behind_a_mode_is_sent(talk: Callable[..., _Said], typed: str) -> None:
    """`/plan do x` activates the mode and sends `do x`."""
    said = talk(typed)
    assert said.prompts() == ["do x"]
    assert [event["name"] for event in said.named("mode:activated")] == ["plan"]
    [injected] = said.named("mode:context_injected")
    assert injected["mode"] == "plan"


def test_a_mode_that_is_active_stays_so_with_text(talk: Callable[..., _Said]) -> None:
    """The second prompt with the same shortcut is sent in the mode, which does not toggle."""
    said = talk("/plan one", "/plan two")
    assert said.prompts() == ["one", "two"]
    assert len(said.named("mode:context_injected")) == 2
    assert said.named("mode:cleared") == []


def test_a_mode_holds_in_the_turn(talk: Callable[..., _Said]) -> None:
    """What the mode does not allow is denied with the documented text."""
    said = talk("/explore look", turns=_CALLS, tools=True)
    [blocked] = said.named("mode:tool_blocked")
    assert (blocked["tool_name"], blocked["mode"], blocked["reason"]) == ("run", "explore", "default_action")


def test_a_mode_of_the_project_has_its_own_command(talk: Callable[..., _Said], project: Path) -> None:
    """A mode file in a trusted project is found under its shortcut."""
    folder = project / ".amplifier" / "modes"
    folder.mkdir(parents=True)
    (folder / "review.md").write_text("---\nmode: {shortcut: rv, description: Ours.}\n---\nLook.\n", encoding="utf-8")
    said = talk("/rv this change")
    assert "Mode: review — Ours." in said.told
    assert said.prompts() == ["this change"]
