"""The small parts of a chat, one by one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.chat.prompt_input import ProjectFiles
from amplifier_app_cli.chat.screen import LineScreen
from amplifier_app_cli.chat.steering import Steering
from amplifier_app_cli.session_stats import SessionStats
from amplifier_app_cli.ui.colour import Ink
from amplifier_app_cli.ui.layout import columns, duration, one_line, summarize_input, wrap_text
from amplifier_app_cli.ui.spending import price_text, usage_line
from amplifier_core.hooks import HookRegistry
from amplifier_core.testing import MockCoordinator
from amplifier_foundation.prompt.user_input import UserInput
from amplifier_foundation.usage.account import UsageAccount
from amplifier_kit.engine.usage import UsageRecord


@given(st.text(max_size=200), st.integers(2, 40))
def test_wrapped_text_is_whole(text: str, width: int) -> None:
    """Wrapping breaks lines and loses nothing; no line is wider than asked for."""
    lines = wrap_text(text, width)
    assert "".join(lines) == "".join(line.expandtabs(4) for line in text.split("\n"))
    assert all(columns(line) <= width for line in lines)


@given(st.text(max_size=100), st.integers(1, 40))
def test_one_line_is_one(text: str, width: int) -> None:
    """A text on one line has no line end, no control character, and fits."""
    line = one_line(text, width)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    assert columns(line) <= max(width, 1)


def test_telling_part_of_an_input() -> None:
    """Of an input the most telling part is shown, of others all that fits."""
    assert summarize_input({"timeout": 5, "command": "make\ntest"}, 50) == "make test"
    assert summarize_input({"a": 1}, 50) == '{"a": 1}'
    assert summarize_input({}, 50) == ""
    assert summarize_input("text", 50) == ""


@pytest.mark.parametrize(("seconds", "said"), [(0.0004, "0 ms"), (0.25, "250 ms"), (3.21, "3.2 s"), (75, "1 min 15 s")])
def test_durations(seconds: float, said: str) -> None:
    """Times are said as people say them."""
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("environ", "is_terminal", "is_styled"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm"}, False, False),
    ],
)
def test_ink_is_for_terminals(environ: dict[str, str], is_terminal: bool, is_styled: bool) -> None:
    """Emphasis is used on terminals alone, and not where NO_COLOR or TERM=dumb forbid it."""
    ink = Ink.for_terminal(environ, is_terminal=is_terminal)
    assert ink.is_styled is is_styled
    assert ("\x1b" in ink("bold", "a\nb")) is is_styled


def test_files_of_a_project(tmp_path: Path) -> None:
    """Files are found by their beginning and by any part; hidden, generated and unmentionable ones are left out."""
    for name in ("src/app/main.py", "src/readme.md", ".git/config", "node_modules/x.js", "with blank.txt", "übung.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = ProjectFiles(tmp_path)
    assert files.matching("") == ["src/", "src/app/", "src/readme.md", "src/app/main.py"]
    assert files.matching("src/r") == ["src/readme.md"]
    assert files.matching("MAIN") == ["src/app/main.py"]
    assert files.matching("../") == []
    assert files.matching("/etc/pas") == []
    assert files.matching(".git/c") == [".git/config"], "a folder that is named is looked into"


def test_files_of_a_huge_project(tmp_path: Path) -> None:
    """Of a huge project only some files are looked at, but a folder that is named is looked into."""
    for number in range(50):
        (tmp_path / f"d{number:02}").mkdir()
        (tmp_path / f"d{number:02}" / "file.txt").touch()
    files = ProjectFiles(tmp_path, most=20)
    assert len(files.matching("", limit=1000)) == 20
    assert files.matching("d49/f") == ["d49/file.txt"]
    assert ProjectFiles(tmp_path, seconds=0).matching("d49/") == ["d49/file.txt"]


def test_link_in_a_project_is_not_followed(tmp_path: Path) -> None:
    """A link to a folder above makes no endless list."""
    (tmp_path / "up").symlink_to(tmp_path)
    assert ProjectFiles(tmp_path).matching("") == ["up"]


def test_usage_adds_up() -> None:
    """Tokens and prices are added; an answer without a price is not free, nor is an attempt that broke off."""
    account = UsageAccount()
    stats = SessionStats()
    stats.connect(HookRegistry(), account, {"input_tokens": 5, "cost_usd": "0.10"})
    account.add(UsageRecord.of_usage({"input_tokens": 1000, "output_tokens": 2, "cost_usd": 0.2}))
    assert usage_line(stats.session) == "1,005 in · 2 out · $0.3000"
    account.add(UsageRecord.of_usage({"output_tokens": 1}))
    assert usage_line(stats.session) == "1,005 in · 3 out · $0.3000 and 1 without price"
    stats.start_turn()
    assert stats.turn.answers == 0
    account.add(UsageRecord.of_response({"usage": {"cost_usd": 0}, "unpriced_attempts": 2}))
    assert price_text(stats.session) == "$0.3000 and 3 without price"
    assert (stats.turn.answers, price_text(stats.turn)) == (1, "$0.00 and 2 without price")
    stats.start_turn()
    account.add(UsageRecord.of_usage("nonsense"))
    assert price_text(stats.turn) == price_text(UsageRecord()) == "price unknown"


def _steering(*heard: str) -> tuple[Steering, list[str]]:
    coordinator = MockCoordinator()
    said: list[str] = list(heard)

    def steer(text: str) -> int:
        said.append(text)
        return len(said)

    coordinator.register_capability("session.steer", steer)
    steering = Steering(coordinator)
    steering.connect()
    return steering, said


async def test_said_before_the_turn_is_under_way() -> None:
    """A loop forgets what waits when it begins: what is said before that is handed over afterwards."""
    steering, heard = _steering()
    steering.start_turn()
    steering.take(UserInput.of_typed("early"))
    assert (heard, steering.badge()) == ([], "1 queued")
    await steering._coordinator.hooks.emit("execution:start", {})
    steering.take(UserInput.of_typed("later"))
    assert heard == ["early", "later"]


async def test_said_too_late_is_the_next_prompt() -> None:
    """What the model did not hear any more is asked next, unless the turn went wrong: then it is told."""
    steering, _ = _steering()
    for is_complete, lost, asked in ((True, [], ["late"]), (False, ["late"], [])):
        steering.start_turn()
        await steering._coordinator.hooks.emit("execution:start", {})
        steering.take(UserInput.of_typed("heard"))
        steering.take(UserInput.of_typed("late"))
        await steering._coordinator.hooks.emit("orchestrator:steering_injected", {"content": "heard"})
        assert steering.end_turn(is_complete=is_complete) == lost
        assert [given.text for given in steering.next_prompts] == asked
        steering.next_prompts.clear()
        assert steering.count == 0


def test_history_survives_an_unwritable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A history that cannot be kept is told once, and inputs are remembered for this chat."""
    from amplifier_app_cli.chat.prompt_input import ProjectHistory

    (tmp_path / "place").touch()
    history = ProjectHistory(tmp_path / "place" / "repl_history", str)
    history.append_string("one")
    history.append_string("two")
    assert history.get_strings() == ["one", "two"]
    assert capsys.readouterr().err.count("the history cannot be kept") == 1


def test_history_of_other_programs_is_closed(tmp_path: Path) -> None:
    """A history file that all could read is closed to others, and its inputs are kept."""
    from amplifier_app_cli.chat.prompt_input import ProjectHistory

    file = tmp_path / "repl_history"
    file.write_text("\n# 2025-01-01 00:00:00\n+before\n", encoding="utf-8")
    file.chmod(0o644)
    history = ProjectHistory(file, str)
    history.append_string("now")
    history.append_string("now")
    assert list(ProjectHistory(file, str).load_history_strings()) == ["now", "before"]
    assert os.stat(file).st_mode & 0o777 == 0o600


def test_commands_exist() -> None:
    """Every command of the table has its function."""
    from importlib import import_module

    from amplifier_app_cli.chat.commands import TABLE

    for command in TABLE.values():
        module, _, function = command.target.partition(":")
        assert callable(getattr(import_module(f"amplifier_app_cli.chat.commands.{module}"), function))


@pytest.mark.parametrize(
    "module", ["amplifier_app_cli.main", "amplifier_app_cli.chat", "amplifier_app_cli.ui.approval.terminal"]
)
def test_import_budget(module: str) -> None:
    """What is not a chat does not pay for one: prompt_toolkit and rich are imported when a chat starts."""
    code = f"import sys, {module}; print([name for name in ('prompt_toolkit', 'rich') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_line_screen_asks_again() -> None:
    """What is shown while a line is asked for stands above the question, which is put again."""
    terminal, person = os.openpty()
    told = io.StringIO()
    try:
        screen = LineScreen(told, told, descriptor=person)
        screen.set_live(str, lambda: "> ")
        screen.show("before")
        screen.refresh()
        screen.show("a note")
    finally:
        os.close(terminal)
        os.close(person)
    assert told.getvalue() == "before\n> \na note\n> "
