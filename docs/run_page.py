"""Run the code blocks of a documentation page, in order, in an empty working directory.

    python docs/run_page.py docs/contracts/tool.md

What the word or words after the three backticks mean:

    python                 run it, in names of its own; `await` works at the top level
    python continue        run it with the names of the block before
    bash                   run it with `bash -e`; lines that start with `make` are checked to name a target
    bash exit=1            ... and expect that exit status
    text output            what the block before must have printed
    LANGUAGE file=PATH     write the block to PATH instead of running it; later blocks use the file
    toml, json             parse it
    text                   shown, not run

Any other word is an error, so that no block is skipped by accident. The modules in `examples/` can be imported.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(.*)$")


class PageError(Exception):
    """Say which block of which page is wrong, and why."""


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, what it claims to be, what it holds."""

    page: Path
    line: int
    language: str
    options: frozenset[str]
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"

    def option(self, key: str) -> str | None:
        """Return VALUE of a `key=VALUE` word, or None."""
        return next((word.partition("=")[2] for word in self.options if word.startswith(f"{key}=")), None)


def read_blocks(page: Path) -> list[Block]:
    """Return every fenced block of a page; raise PageError when a fence is never closed."""
    blocks: list[Block] = []
    start, info, lines = 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if not start and fence:
            start, info, lines = number, fence[1], []
        elif start and fence:
            language, *options = info.split() or [""]
            blocks.append(Block(page, start, language, frozenset(options), "\n".join(lines) + "\n"))
            start = 0
        elif start:
            lines.append(line)
    if start:
        raise PageError(f"{page.name}:{start}: this block is never closed")
    return blocks


def make_targets(makefile: Path) -> set[str]:
    """Return the names of the targets a person can ask for."""
    return set(re.findall(r"^([a-z][a-z-]*):", makefile.read_text(encoding="utf-8"), flags=re.MULTILINE))


class PageRunner:
    """Run blocks one after another; names live from a `python` block to the next one without `continue`."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._names: dict[str, Any] = {}
        self._printed: str | None = None

    async def run(self, block: Block) -> None:
        """Run, write, parse or compare one block; raise PageError when it does not do what the page says."""
        if (path := block.option("file")) is not None:
            self._write(path, block)
        elif block.language == "python":
            await self._python(block)
        elif block.language == "bash":
            self._bash(block)
        elif block.language == "text" and "output" in block.options:
            self._compare(block)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language != "text":
            raise PageError(f"{block.where}: do not know what to do with a {block.language or 'nameless'!r} block")

    def _write(self, path: str, block: Block) -> None:
        target = self._workdir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")

    async def _python(self, block: Block) -> None:
        if "continue" not in block.options:
            self._names = {"__name__": "__page__"}
        padding = "\n" * block.line  # so that a traceback names the page's own line
        code = compile(padding + block.text, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                await eval(code, self._names)
            else:  # a plain script may start a loop of its own
                await asyncio.to_thread(eval, code, self._names)
        self._printed = printed.getvalue()

    def _bash(self, block: Block) -> None:
        script = "".join(f"{line}\n" for line in block.text.splitlines() if not self._is_make(line, block))
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=self._workdir, capture_output=True, text=True, timeout=200, check=False
        )
        expected = int(block.option("exit") or 0)
        if done.returncode != expected:
            output = f"{done.stdout}{done.stderr}"
            raise PageError(f"{block.where}: exit status {done.returncode}, the page says {expected}\n{output}")
        self._printed = done.stdout

    def _is_make(self, line: str, block: Block) -> bool:
        """Tell whether the line is a `make` command, which is looked up rather than run."""
        words = line.partition("#")[0].split()
        if not words or words[0] != "make":
            return False
        unknown = set(words[1:]) - make_targets(ROOT / "Makefile")
        if unknown:
            raise PageError(f"{block.where}: the Makefile has no target {', '.join(sorted(unknown))}")
        return True

    def _compare(self, block: Block) -> None:
        if self._printed is None:
            raise PageError(f"{block.where}: nothing ran before this output")
        if _lines(self._printed) != _lines(block.text):
            raise PageError(f"{block.where}: the block before printed\n{self._printed}\nthe page says\n{block.text}")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


@contextlib.contextmanager
def working_directory(workdir: Path) -> Iterator[None]:
    """Make `workdir` the current directory; let code and commands find it, the example modules and our programs.

    Sessions and settings are kept in a home of the page, never in that of the user.
    """
    before, imports, environment = Path.cwd(), list(sys.path), dict(os.environ)
    found_first = [str(workdir), str(ROOT / "examples")]
    sys.path[:0] = found_first
    os.environ["PYTHONPATH"] = os.pathsep.join(found_first)
    programs, found = str(Path(sys.executable).parent), environment.get("PATH", os.defpath)
    os.environ["PATH"] = found if programs in found.split(os.pathsep) else os.pathsep.join([programs, found])
    os.environ["REPOSITORY"] = str(ROOT)
    home = tempfile.mkdtemp(prefix="amplifier-home-")
    os.environ["AMPLIFIER_HOME"] = home
    os.chdir(workdir)
    try:
        yield
    finally:
        shutil.rmtree(home, ignore_errors=True)
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = imports


async def run_page(page: Path, workdir: Path) -> int:
    """Run every block of a page and return how many there are; raise what the first wrong block raises."""
    blocks = read_blocks(page)
    runner = PageRunner(workdir)
    with working_directory(workdir):
        for block in blocks:
            try:
                await runner.run(block)
            except PageError:
                raise
            except Exception as error:
                raise PageError(f"{block.where}: {traceback.format_exc()}") from error
    return len(blocks)


def main(pages: list[str]) -> int:
    """Run the given pages, say what happened, and return the exit status."""
    for name in pages:
        with tempfile.TemporaryDirectory() as workdir:
            try:
                count = asyncio.run(run_page(Path(name).resolve(), Path(workdir)))
            except PageError as error:
                print(error, file=sys.stderr)
                return 1
        print(f"{name}: {count} blocks as the page says")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
