"""Ways to leave a chat: each has its exit code, and after each the log and the transcript are complete."""

from __future__ import annotations

import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ONE_ANSWER = "turns: [{text: The answer.}]"


def _is_closed(chat: Any) -> None:
    names = [record["event"] for record in chat.events]
    assert names[-1] == "session:end"
    assert names.count("session:end") == 1
    assert names.count("execution:start") == names.count("execution:end")


@pytest.mark.parametrize("keys", ["\x04", "exit\r", "quit\r", "/exit\r"])
def test_leaving_is_no_failure(start: Callable[..., Any], scripted: Callable[..., str], keys: str) -> None:
    """Ctrl-D, exit and quit end the chat with code 0, and everything that was said is on disk."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.line("a question")
    chat.wait_for_prompt("out ·")
    chat.send(keys)
    assert chat.end() == 0
    chat.wait_for("resume it with: amplifier resume ")
    _is_closed(chat)
    assert chat.transcript == [("user", "a question"), ("assistant", "The answer.")]


def test_leaving_before_the_first_turn(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A chat in which nothing was said ends with session:end too."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.send("\x04")
    assert chat.end() == 0
    _is_closed(chat)


def test_interrupt_at_the_prompt_asks_first(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Ctrl-C at an empty prompt asks, a second one leaves with code 130."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.send("\x03")
    chat.wait_for("press Ctrl-C again to leave")
    chat.send("\x03")
    assert chat.end() == 130
    _is_closed(chat)


def test_interrupt_is_forgotten_when_one_goes_on(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """After something else was typed, the next Ctrl-C asks again."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.send("\x03")
    chat.wait_for("press Ctrl-C again to leave")
    chat.line("a question")
    chat.wait_for_prompt("out ·")
    chat.send("\x03")
    chat.wait_until(lambda: chat.text.count("press Ctrl-C again to leave") == 2)
    chat.send("\x04")
    assert chat.end() == 0


def test_interrupt_clears_what_is_typed(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Ctrl-C throws half-written input away and asks nothing."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.send("half a thought")
    chat.wait_for("half a thought")
    chat.send("\x03")
    chat.wait_for_prompt()
    assert "half a thought" not in chat.text
    assert "again to leave" not in chat.text
    chat.send("\x04")
    assert chat.end() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_at_the_prompt(
    start: Callable[..., Any], scripted: Callable[..., str], number: signal.Signals, code: int
) -> None:
    """A signal that ends programs ends a chat that waits, with its own code."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.line("a question")
    chat.wait_for_prompt("out ·")
    chat.child.kill(number)
    assert chat.end() == code
    _is_closed(chat)
    assert chat.transcript[-1] == ("assistant", "The answer.")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signal_during_a_turn(
    start: Callable[..., Any], scripted: Callable[..., str], number: signal.Signals, code: int
) -> None:
    """SIGTERM stops the turn at once; the turn is closed in the log, and the question is kept."""
    chat = start("--bundle", scripted(paced=True), "--trust")
    chat.line("a question")
    chat.wait_for("Before the gate.")
    chat.child.kill(number)
    assert chat.end() == code
    _is_closed(chat)
    assert ("user", "a question") in chat.transcript


def test_terminal_that_goes_away(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A terminal that is closed while the chat waits leaves a complete log behind."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.line("a question")
    chat.wait_for_prompt("out ·")
    # By the object that has it: a number that is closed beside it may be somebody else's when that is collected.
    chat.child.ptyproc.fileobj.close()
    chat.child.wait()
    chat.child.ptyproc.closed = chat.child.closed = True
    assert chat.child.signalstatus is None
    _is_closed(chat)


def test_signal_from_outside_is_ctrl_c(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """SIGINT that another process sends means what Ctrl-C means, also after prompts were answered."""
    chat = start("--bundle", scripted(_ONE_ANSWER))
    chat.line("a question")
    chat.wait_for_prompt("out ·")
    chat.child.kill(signal.SIGINT)
    chat.wait_for("press Ctrl-C again to leave")
    chat.child.kill(signal.SIGINT)
    assert chat.end() == 130
    _is_closed(chat)


def test_end_of_piped_input(project: Path, environment: dict[str, str], scripted: Callable[..., str]) -> None:
    """Without a terminal, every line is a prompt, and the end of input ends the chat when the last one is answered."""
    bundle = scripted("turns: [{text: First., delay_ms: 300}, {text: Second.}]")
    program = Path(__file__).parent / "program.py"
    result = subprocess.run(
        [sys.executable, str(program), "--bundle", bundle],
        input="one\ntwo",
        capture_output=True,
        text=True,
        cwd=project,
        env=environment,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "First.\nSecond.\n"
    assert "\x1b" not in result.stdout + result.stderr


def test_failure_to_prepare_has_its_exit_code(start: Callable[..., Any], project: Path) -> None:
    """A bundle that cannot be used is told in one line, with the exit code that stands for it."""
    (project / "bad.yaml").write_text("session: {\n", encoding="utf-8")
    chat = start("--bundle", "bad.yaml", is_ready=False)
    assert chat.end() == 1
    assert "bad.yaml:2:malformedYAML" in "".join(chat.text.split())
    assert "Traceback" not in chat.text


def test_untrusted_modules_are_refused(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """Modules of a project that is not trusted do not run: exit code 6, and what was refused is named."""
    chat = start("--bundle", scripted(_ONE_ANSWER, tools=True), is_ready=False)
    assert chat.end() == 6
    assert "tool-trials" in chat.text


def test_interrupt_while_it_starts(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """Ctrl-C while the session is brought up ends the program with 130, and no session is left half open."""
    bundle = scripted(_ONE_ANSWER, tools=True)
    [code] = project.glob("modules/tool-trials/*/__init__.py")
    hanging = "async def mount(coordinator, config=None):\n    Path('mounting').touch()\n    await asyncio.sleep(600)\n"
    code.write_text(f"import asyncio\nfrom pathlib import Path\n\n\n{hanging}", encoding="utf-8")
    chat = start("--bundle", bundle, "--trust", is_ready=False)
    chat.wait_until((project / "mounting").exists)
    chat.child.kill(signal.SIGINT)
    assert chat.end() == 130
    assert "Traceback" not in chat.text


def test_session_that_runs_elsewhere(start: Callable[..., Any], scripted: Callable[..., str]) -> None:
    """A session that another process runs is not opened a second time."""
    first = start("--bundle", scripted(_ONE_ANSWER))
    first.line("a question")
    first.wait_for_prompt("out ·")
    second = start("--resume", is_ready=False)
    assert second.end() == 1
    assert "amplifier:" in second.text
    assert "Traceback" not in second.text
    first.send("\x04")
    assert first.end() == 0
    _is_closed(first)


def test_command_that_takes_long_can_be_stopped(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """Ctrl-C stops a command that waits for somebody, and the chat goes on."""
    bundle = scripted(paced=True)
    [code] = project.glob("modules/provider-paced/*/__init__.py")
    text = code.read_text(encoding="utf-8")
    waiting = "async def list_models(self):\n        Path('asked').touch()\n        await asyncio.sleep(600)\n"
    code.write_text(text.replace("async def list_models(self):\n", waiting), encoding="utf-8")
    chat = start("--bundle", bundle, "--trust")
    chat.line("/provider test")
    chat.wait_until((project / "asked").exists)
    chat.send("\x03")
    chat.wait_for_prompt("stopped")
    chat.send("\x04")
    assert chat.end() == 0
    _is_closed(chat)


@pytest.mark.parametrize(("number", "code", "is_repeated"), [(signal.SIGTERM, 143, False), (signal.SIGINT, 130, True)])
def test_signals_end_a_chat_that_is_blocked(
    start: Callable[..., Any],
    scripted: Callable[..., str],
    project: Path,
    number: signal.Signals,
    code: int,
    is_repeated: bool,
) -> None:
    """A tool that lets nothing else run keeps nobody: the log is closed, and the terminal is as it was."""
    turns = "turns: [{tool_calls: [{id: c1, name: block, arguments: {}}]}]"
    chat = start("--bundle", scripted(turns, tools=True), "--trust", "--patience", "0.5")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.child.kill(number)

    def is_ended() -> bool:
        if is_repeated:  # until it ends: two that come at the same time are one
            chat.child.kill(number)
        return "and it is ended" in chat.words

    chat.wait_until(is_ended)
    assert chat.end() == code
    _is_closed(chat)
    assert "the session does not respond" in chat.words
    assert chat.raw.rfind("\x1b[?2004l") > chat.raw.rfind("\x1b[?2004h")


def test_ctrl_c_ends_a_chat_that_is_blocked(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """The key is read by nobody then, and works all the same: once it says what a second one does."""
    turns = "turns: [{tool_calls: [{id: c1, name: block, arguments: {}}]}]"
    chat = start("--bundle", scripted(turns, tools=True), "--trust", "--patience", "0.5")
    chat.line("go")
    chat.wait_until((project / "waiting").exists)
    chat.wait_until(lambda: bool(termios.tcgetattr(chat.child.child_fd)[3] & termios.ISIG))
    chat.send("\x03")
    chat.wait_for("press Ctrl-C again to end it")
    chat.send("\x03")
    assert chat.end() == 130
    _is_closed(chat)


def test_ctrl_c_is_a_key_again_when_nothing_blocks(
    start: Callable[..., Any], scripted: Callable[..., str], project: Path
) -> None:
    """A tool that blocked for a while leaves the terminal as it was: the key clears the line, and the chat goes on."""
    turns = "turns: [{tool_calls: [{id: c1, name: block, arguments: {}}]}, {text: Over.}]"
    chat = start("--bundle", scripted(turns, tools=True), "--trust")
    modes = termios.tcgetattr(chat.child.child_fd)
    chat.line("go")
    chat.wait_until(lambda: bool(termios.tcgetattr(chat.child.child_fd)[3] & termios.ISIG))
    (project / "go").touch()
    chat.wait_for_prompt("out ·")
    chat.wait_until(lambda: termios.tcgetattr(chat.child.child_fd) == modes)
    chat.send("half a thought\x03")
    chat.wait_for_prompt()
    chat.send("\x04")
    assert chat.end() == 0
    _is_closed(chat)
