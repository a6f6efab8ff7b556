"""What the tests of the chat share: a terminal that can be looked at, and a project with a scripted session in it."""

from __future__ import annotations

import codecs
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

#: As code: what is given so can be forked from a process that has imported the program.
_PROGRAM = (sys.executable, "-c", (Path(__file__).parent / "program.py").read_text(encoding="utf-8"))
_PATIENCE = float(os.environ.get("PATIENCE", 60.0))
_SEQUENCE = re.compile(r"\x1b(?:\[([?]?)([0-9;]*)([A-Za-z])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>78])")

_WORKING = re.compile(r"^(?:working|stopping) \d+ s", re.MULTILINE)

_BUNDLE = """\
bundle: {name: scripted}
session:
  orchestrator: {module: LOOP}
  context: {module: context-simple}
providers:
  - PROVIDER
hooks:
  - {module: hooks-redaction}
  - {module: hooks-logging}
"""

#: A model that says a word, waits until a file is there, and says the rest.
_PACED = """
import asyncio
from pathlib import Path

from amplifier_core import ChatResponse, ModelInfo, ProviderInfo, TextBlock
from amplifier_kit.engine.stream_events import StreamEmitter


class Paced:
    name = "paced"
    priority = 1

    def __init__(self, coordinator):
        self._hooks = coordinator.hooks

    def get_info(self):
        return ProviderInfo(id="paced", display_name="Paced", capabilities=[], defaults={})

    async def list_models(self):
        return [ModelInfo(id="paced-1", display_name="Paced", context_window=100000, max_output_tokens=1000)]

    def parse_tool_calls(self, response):
        return []

    async def complete(self, request, **options):
        emitter = StreamEmitter(self._hooks)
        await emitter.block_start(0, "text")
        await emitter.block_delta(0, "Before the gate. ")
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        await emitter.block_delta(0, "Behind the gate.")
        await emitter.block_end(0)
        return ChatResponse(content=[TextBlock(text="Before the gate. Behind the gate.")])


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Paced(coordinator), name="paced")
"""

#: Tools that wait for a file, and that do what nobody has allowed.
_TOOLS = """
import asyncio
import time
from pathlib import Path

from amplifier_core import ToolResult


class Gate:
    name = "gate"
    description = "Wait until a file is there."
    action = "test.free"
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, input):
        Path("waiting").touch()
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        return ToolResult(output="the gate is open")


class Block:
    name = "block"
    description = "Let nothing else run until a file is there."
    action = "test.free"
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, input):
        Path("waiting").touch()
        while not Path("go").exists():
            time.sleep(0.02)
        return ToolResult(output="done")


class Run:
    name = "run"
    description = "Run a command."
    action = "process.exec"
    input_schema = {"type": "object", "properties": {"command": {}}}

    async def execute(self, input):
        with open("ran", "a", encoding="utf-8") as file:
            file.write(input["command"] + "\\n")
        return ToolResult(output="ran")


async def mount(coordinator, config=None):
    for tool in (Gate(), Block(), Run()):
        await coordinator.mount("tools", tool, name=tool.name)
"""


class Emulator:
    """Keep what a terminal of some size would show, and what has scrolled out of it."""

    def __init__(self, rows: int, columns: int) -> None:
        self.height, self.width = rows, columns
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self._wraps = True
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take output."""
        text, self._rest = self._rest + text, ""
        place = 0
        while place < len(text):
            if text[place] == "\x1b":
                found = _SEQUENCE.match(text, place)
                if found is None:
                    self._rest = text[place:]
                    return
                self._obey(found)
                place = found.end()
            else:
                self._put(text[place])
                place += 1

    @property
    def text(self) -> str:
        """Return everything that can be seen, also by scrolling back."""
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def _obey(self, found: re.Match[str]) -> None:
        private, numbers, letter = found[1], found[2] or "", found[3]
        number = int(numbers.split(";")[0] or 0) if numbers else 0
        if private == "?" and number == 7:
            self._wraps = letter == "h"
        elif letter == "A":
            self.row = max(self.row - max(number, 1), len(self.lines) - self.height, 0)
        elif letter == "B":
            self._go_down(max(number, 1))
        elif letter == "C":
            self.column = min(self.column + max(number, 1), self.width - 1)
        elif letter == "D":
            self.column = max(self.column - max(number, 1), 0)
        elif letter == "J" and number == 0:
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif letter == "K" and number == 0:
            self.lines[self.row] = self.lines[self.row][: self.column]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._go_down(1)
        elif character == "\b":
            self.column = max(self.column - 1, 0)
        elif character >= " ":
            self._print(character)

    def _print(self, character: str) -> None:
        if unicodedata.combining(character):
            return
        size = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.column + size > self.width:
            if self._wraps:
                self.column = 0
                self._go_down(1)
            else:
                self.column = self.width - size
        line = self.lines[self.row]
        line += [" "] * (self.column + size - len(line))
        line[self.column] = character
        if size == 2:
            line[self.column + 1] = ""
        self.column += size

    def _go_down(self, count: int) -> None:
        self.row += count
        while self.row >= len(self.lines):
            self.lines.append([])


class Chat:
    """A chat in a pseudo-terminal."""

    def __init__(self, child: Any, home: Path, rows: int, columns: int) -> None:
        self.child = child
        self.home = home
        self.screen = Emulator(rows, columns)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def send(self, text: str) -> None:
        """Press keys."""
        self.child.send(text)

    def line(self, text: str) -> None:
        """Type a line."""
        self.send(f"{text}\r" if self.is_drawn else f"{text}\n")

    @property
    def is_drawn(self) -> bool:
        """Tell whether the terminal reads single keys."""
        return "\x1b[?2004h" in self.raw

    @property
    def text(self) -> str:
        """Return what can be seen."""
        return self.screen.text

    @property
    def words(self) -> str:
        """Return what can be seen with a single blank wherever lines break or words stand apart.

        Where a line breaks depends on the names of folders in it, and those on where the tests run.
        """
        return _words(self.text)

    def wait_for(self, *wanted: str, absent: str | None = None) -> None:
        """Wait until the words of all of this can be seen, and `absent` cannot."""
        parts = [_words(part) for part in wanted]
        self.wait_until(lambda: all(part in self.words for part in parts) and (absent or "\0") not in self.text)

    def wait_for_question(self, *wanted: str, times: int = 1) -> None:
        """Wait until the words of all of this can be seen, the last so many times, and a question stands behind it.

        What is typed before that is no answer: a question that was answered may still be on the screen.
        """
        parts = [_words(part) for part in wanted]
        self.wait_until(
            lambda: (
                all(part in self.words for part in parts)
                and self.words.count(parts[-1]) >= times
                and "Allow? [" in self.words.rsplit(parts[-1], 1)[-1]
            )
        )

    def wait_for_prompt(self, after: str = "") -> None:
        """Wait until the chat waits for the next prompt, behind a text, and nothing runs."""
        self.wait_until(
            lambda: (
                after in self.text
                and self.text.split(after or None)[-1].rstrip().endswith(">")
                and not _WORKING.search(self.text)
            )
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so."""
        until = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > until or not self._read(0.05):
                if condition():
                    return
                raise AssertionError(f"it never happened; the screen shows:\n{self.text}")

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        until = time.monotonic() + _PATIENCE
        while self._read(0.1):
            assert time.monotonic() < until, f"it does not end; the screen shows:\n{self.text}"
        self.child.close()
        assert self.child.signalstatus is None, f"killed by signal {self.child.signalstatus}\n{self.text}"
        return int(self.child.exitstatus)

    def _read(self, seconds: float) -> bool:
        """Take what the program writes; return False when there will be nothing more."""
        try:
            text = self._decoder.decode(self.child.read_nonblocking(65_536, timeout=seconds))
        except pexpect.TIMEOUT:
            return True
        except (pexpect.EOF, OSError):
            return False
        self.raw += text
        self.screen.feed(text)
        return True

    # -- what is on disk --

    @property
    def folder(self) -> Path:
        """Return the folder of the newest session."""
        return max(self.home.glob(".amplifier/projects/*/sessions/*"), key=lambda path: path.stat().st_mtime)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the log."""
        lines = (self.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    @property
    def transcript(self) -> list[tuple[str, str]]:
        """Return role and text of every message."""
        path = self.folder / "transcript.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [(message["role"], _text(message.get("content"))) for message in map(json.loads, lines)]


def _words(text: str) -> str:
    return " ".join(text.split())


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(block.get("text") or "") for block in content or [] if isinstance(block, dict))


@pytest.fixture
def scripted(project: Path, free_tools: None) -> Callable[..., str]:
    """Return a function that writes a bundle into the project and gives its name."""

    def write(turns: str = "", *, loop: str = "loop-streaming", tools: bool = False, paced: bool = False) -> str:
        (project / "run.yaml").write_text(textwrap.dedent(turns), encoding="utf-8")
        provider = "{module: provider-mock, config: {scenario: ./run.yaml}}"
        if paced:
            provider = "{module: provider-paced, source: ./modules/provider-paced}"
            _module(project, "provider-paced", _PACED)
        text = _BUNDLE.replace("LOOP", loop).replace("PROVIDER", provider)
        if tools:
            _module(project, "tool-trials", _TOOLS)
            text += "tools:\n  - module: tool-filesystem\n  - {module: tool-trials, source: ./modules/tool-trials}\n"
        (project / "bundle.yaml").write_text(text, encoding="utf-8")
        return "bundle.yaml"

    return write


def _module(project: Path, name: str, code: str) -> None:
    package = project / "modules" / name / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(code, encoding="utf-8")


@pytest.fixture
def piped(
    project: Path, environment: dict[str, str], popen: Callable[..., subprocess.Popen[str]]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a chat without a terminal, with all of its input."""

    def run(*arguments: str, stdin: str) -> subprocess.CompletedProcess[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with popen([*_PROGRAM, *arguments], cwd=project, env=environment, text=True, **pipes) as process:
            out, error = process.communicate(stdin, timeout=_PATIENCE)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    return run


@pytest.fixture
def start(project: Path, environment: dict[str, str], spawn: Callable[..., Any]) -> Callable[..., Chat]:
    """Return a function that starts a chat in a pseudo-terminal and waits for its prompt; it is ended with the test."""

    def begin(*arguments: str, rows: int = 40, columns: int = 100, is_ready: bool = True, **more: str) -> Chat:
        kept = {name: value for name, value in environment.items() if name not in ("NO_COLOR", "COLORTERM")}
        terminal = {
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        child = spawn(
            [*_PROGRAM, *arguments],
            cwd=str(project),
            env={**kept, **terminal, **more},
            dimensions=(rows, columns),
            encoding=None,
        )
        child.delaybeforesend = None
        chat = Chat(child, Path(environment["HOME"]), rows, columns)
        if is_ready:
            chat.wait_for_prompt("leaves.")
        return chat

    return begin
