"""Chats that go on and chats with a limit, as the program starts them: what is shown again, and where it ends."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from amplifier_app_cli.chat.recap import LONGEST_PAUSE, Recap, pause
from amplifier_app_cli.ui.colour import Ink

_TALK = """
    turns:
      - {thinking: "Hm, a greeting.", text: "Good morning."}
      - {text: "Good evening."}
      - {text: "Good night."}
"""


@pytest.fixture
def program(at_terminal: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts the program itself in a pseudo-terminal."""

    def begin(*arguments: str) -> Any:
        child = at_terminal(*arguments, dimensions=(40, 100), TERM="dumb")
        child.delaybeforesend = None
        return child

    return begin


def _end(child: Any) -> str:
    """Leave and return what was shown since the last look."""
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (0, None)
    return str(child.before)


@pytest.fixture
def spoken(program: Callable[..., Any], scripted: Callable[..., str], project: Path) -> Path:
    """Return the transcript of a session in which something was said, three turns with hours in between."""
    bundle = scripted(_TALK)
    child = program("run", "--mode", "chat", "--bundle", bundle, "hello")
    for prompt, answer in (("and now?", "Good morning."), ("and then?", "Good evening."), ("", "Good night.")):
        child.expect_exact(answer)
        child.expect_exact("> ")
        if prompt:
            child.sendline(prompt)
    _end(child)
    [transcript] = project.parent.rglob("transcript.jsonl")
    lines = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]
    for hour, line in enumerate(lines):
        line["metadata"]["timestamp"] = f"2026-01-02T{hour:02}:00:00+00:00"
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return transcript


def test_replay_shows_all_again(program: Callable[..., Any], spoken: Path) -> None:
    """With --replay every message comes again, and with --show-thinking what was thought; then the chat goes on."""
    child = program("continue", "--replay", "--replay-speed", "1000000", "--show-thinking")
    for said in ("> hello", "Hm, a greeting.", "Good morning.", "> and now?", "Good evening.", "Good night."):
        assert child.expect_exact([said, pexpect.EOF]) == 0, said
    assert child.expect_exact(["\n> ", pexpect.EOF]) == 0
    _end(child)


def test_a_replay_can_be_hurried(program: Callable[..., Any], spoken: Path) -> None:
    """Ctrl-C during a replay brings the rest at once, and the chat goes on."""
    child = program("continue", "--replay", "-s", "0.0001")
    child.expect_exact("> hello")
    child.kill(signal.SIGINT)
    assert child.expect_exact(["Good night.", pexpect.EOF]) == 0
    assert child.expect_exact(["\n> ", pexpect.EOF]) == 0
    _end(child)


def test_a_replay_can_be_ended(program: Callable[..., Any], spoken: Path) -> None:
    """SIGTERM during a replay ends the chat, and the session is closed."""
    child = program("continue", "--replay", "-s", "0.0001")
    child.expect_exact("> hello")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 143
    events = (spoken.parent / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(events[-1])["event"] == "session:end"


def test_thinking_is_left_out_otherwise(program: Callable[..., Any], spoken: Path) -> None:
    """Without --show-thinking, what is shown again is what was said."""
    child = program("continue", "--full-history")
    child.expect_exact("Good night.")
    assert "greeting" not in child.before
    child.expect_exact("\n> ")
    _end(child)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--replay-speed", "2"), "needs --replay"),
        (("--replay", "--replay-speed", "0"), "0"),
        (("--no-history", "--replay"), "--no-history"),
        (("--no-history", "--show-thinking"), "--no-history"),
    ],
)
def test_options_that_contradict(amplifier: Callable[..., Any], arguments: tuple[str, ...], told: str) -> None:
    """What cannot be meant together is a wrong use."""
    for command in ("continue", "resume"):
        result = amplifier(command, *arguments)
        assert result.returncode == 2
        assert told in result.stderr


@pytest.mark.parametrize(
    ("before", "at", "seconds"),
    [(None, 5.0, 0.0), (5.0, None, 0.0), (5.0, 6.0, 0.5), (5.0, 4.0, 0.0), (0.0, 1e9, LONGEST_PAUSE)],
)
def test_pauses(before: float | None, at: float | None, seconds: float) -> None:
    """A pause is what it was, so many times shorter, never backwards and never long."""
    assert pause(before, at, 2.0) == seconds


async def test_odd_messages_are_shown_without_a_pause() -> None:
    """Messages of other programs, without times or with odd ones, are shown all the same."""

    class Screen:
        ink, width, has_live_part = Ink(False), 80, False

        def __init__(self) -> None:
            self.shown: list[str] = []

        def show(self, text: str) -> None:
            self.shown.append(text)

    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "hi", "metadata": {"timestamp": "yesterday"}},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "\x1b[2Jhm"}, {"type": "text", "text": "yo"}],
        },
        {"role": "tool", "name": "look", "content": "x", "metadata": None},
    ]
    screen: Any = Screen()
    await Recap(None, 0.001, True).show(messages, screen, asyncio.Event())
    assert screen.shown == ["> hi", "│ hm\nyo", "· look"]


def test_a_chat_has_a_budget(program: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """When a limit is reached the chat says so, with how to go on; it goes on itself, and each run counts anew."""
    child = program("run", "--mode", "chat", "--bundle", scripted(_TALK), "--max-turns", "1", "hello")
    child.expect_exact("Good morning.")
    child.expect_exact("> ")
    for _ in range(2):
        child.sendline("and now?")
        said = r"the budget of 1 turns is used up \(1 used\); leave, and resume with\s+`amplifier\s+resume"
        assert child.expect([said, "Good evening.", pexpect.EOF]) == 0
        child.expect_exact("\n> ")
    _end(child)
    again = program("continue", "--max-turns", "1", "--no-history")
    again.expect_exact("> ")
    again.sendline("and now?")
    assert again.expect_exact(["Good ", "amplifier: the budget", pexpect.EOF]) == 0
    again.expect_exact("\n> ")
    _end(again)
