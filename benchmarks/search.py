"""Measure grep and glob against ripgrep, under the same limit for large files, over a tree of `size` files.

The tools run as a session runs them, in a process that is there already; the others are started, and their output is
read. Every round runs each of them once, so that whatever else the machine does hits all alike; the lower quartile of
the rounds counts. glob answers newest first, with sizes, which takes a look at every file that matches. The same work
is ripgrep's list (`rg --files`) sent through `stat` and `sort`; ripgrep's own `--sortr modified` is the same too, but
it does that with one thread. Beside the bare list there is a target only where few files match. Raises WrongAnswer
when two that should find the same do not.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import environment
from harness import Row, Setting, lower_quartile

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule
from amplifier_module_tool_search import mount
from amplifier_module_tool_search.config import GrepConfig
from amplifier_module_tool_search.ripgrep import find_ripgrep

FILES_PER_FOLDER = 50
#: One file in so many has what is searched for.
RARE = 101
#: How many times as long as ripgrep alone a search may take.
TARGET = 1.5
#: Rules of a session that hide nothing here: all that they cost is the look.
RULED = tuple(Rule("deny", path=path) for path in ("**/.env", "secrets/**", "~/.ssh/**"))
SUFFIXES = (".py", ".js", ".md", ".txt", ".rs")
RULES = "*.log\n*.tmp\n/out/\n**/generated/*.py\n!keep.log\n*~\n"
FIND = ("find", ".", "-type", "f", "-name", "*.py", "-printf", "%T@ %s %p\\n")
SORTED = """"$0" "$@" | xargs -0 stat -c '%.Y %s %n' | sort -rn"""

Run = Callable[[], Awaitable[int]]


@dataclass
class Race:
    """Something of ours, and what it is measured against; both return how much they found, which must be equal."""

    what: str
    ours: Run
    other: str
    theirs: Run
    target: float | None


class WrongAnswer(RuntimeError):
    """Two that should find the same did not."""


def make_tree(root: Path, count: int) -> None:
    """Write the files, in folders three deep; a few have the word `needle` in them."""
    filler = "".join(f"line {number} of some text without the word\n" for number in range(20))
    for start in range(0, count, FILES_PER_FOLDER):
        number = start // FILES_PER_FOLDER
        folder = root / f"area{number % 20}" / f"part{number // 20 % 10}" / f"folder{number}"
        folder.mkdir(parents=True)
        for file in range(start, min(start + FILES_PER_FOLDER, count)):
            text = filler + ("a needle in it\n" if file % RARE == 0 else "")
            (folder / f"file{file}{SUFFIXES[file % len(SUFFIXES)]}").write_text(text, encoding="utf-8")
    (root / ".gitignore").write_text(RULES, encoding="utf-8")


def program(root: Path, *argv: str, count: Callable[[bytes], int] = lambda out: out.count(b"\n")) -> Run:
    """Return a run of another program."""

    async def run() -> int:
        # In a session of its own, as ours: on a busy machine, Linux shares the processors by session.
        done = subprocess.run(  # noqa: ASYNC221
            argv, cwd=root, capture_output=True, env=environment(), check=False, start_new_session=True
        )
        if done.returncode != 0 and (done.returncode != 1 or done.stdout or done.stderr):  # 1: nothing found
            raise WrongAnswer(f"{argv[0]} failed: {done.stderr.decode(errors='replace')[-500:]}")
        return count(done.stdout)

    return run


def tool(tools: dict[str, Any], name: str, key: str, **given: Any) -> Run:
    """Return a run of one of the tools."""

    async def run() -> int:
        result = await tools[name].execute(given)
        if not result.success:
            raise WrongAnswer(f"{name} failed: {result.output}")
        return int(result.output[key])

    return run


async def mounted(root: Path, engine: str, rules: Sequence[Rule] = ()) -> dict[str, Any]:
    """Return the tools of a session that works in the tree, under these rules."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(root))
    coordinator.register_capability("policy.hidden", lambda tool: hidden_paths(rules, root, tool))
    await mount(coordinator, {"engine": engine})
    return {name: coordinator.get("tools", name) for name in ("grep", "glob")}


async def races(root: Path) -> list[Race]:
    """Return what is measured."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", str(root))
    rg = find_ripgrep(coordinator)
    if rg is None:
        raise WrongAnswer("ripgrep 14 or newer is missing: install the package ripgrep")
    tools, python, ruled = [await mounted(root, *how) for how in (("rg",), ("python",), ("rg", RULED))]
    plain = [rg, "--no-config", "--hidden", "--no-require-git", f"--max-filesize={GrepConfig().max_file_size}"]

    def grep(what: str, option: str = "-l", of: Any = tools, target: float | None = TARGET, **given: Any) -> Race:
        """Return a search for a word, beside ripgrep with an option."""
        given = {"pattern": "needle", **({"output_mode": "content"} if option == "-n" else {}), **given}
        theirs = program(root, *plain, *option.split(), given["pattern"])
        return Race(f"grep, {what}", tool(of, "grep", "total_matches", **given), f"rg {option}", theirs, target)

    def glob(what: str, pattern: str, other: str, theirs: Run, of: Any = tools, target: float | None = TARGET) -> Race:
        """Return a search for names, beside a program."""
        return Race(f"glob, {what}", tool(of, "glob", "total_files", pattern=pattern), other, theirs, target)

    def listed(*options: str) -> Run:
        return program(root, *plain, "--files", *options)

    def sorted_list(*options: str) -> Run:
        return program(root, "sh", "-c", SORTED, *plain, "--files", "--null", *options)

    rare, printed = f"one file in {RARE}", program(root, *FIND)
    return [
        grep(rare),
        grep(f"lines of {rare}", "-n"),
        grep("lines of every file", "-n", pattern="line 7 of"),
        grep(f"{rare}, of *.py", "-l -g *.py", glob="*.py"),
        grep(f"{rare}, of a type", "-l -t md", type="markdown"),
        grep(f"{rare}, in a part", "-l -g area1*/**/*.py", glob="area1*/**/*.py"),
        grep(f"{rare}, but not of *.py", "-l -g !*.py", glob="!*.py"),
        grep("nothing there", pattern="haystack"),
        grep("lines, nothing there", "-n", pattern="haystack"),
        grep(f"{rare}, with {len(RULED)} rules", of=ruled),
        glob("one file in 100", "**/file*00.py", "rg --files -g", listed("-g", "file*00.py")),
        # Every file that matches is asked for its age and size, which ripgrep does not do here.
        glob("one file in 5", "**/*.py", "rg --files -g", listed("-g", "*.py"), target=None),
        glob("one file in 5", "**/*.py", "rg --files | stat | sort", sorted_list("-g", "*.py")),
        glob("every file", "**", "rg --files | stat | sort", sorted_list()),
        glob("every file", "**", "rg --files --sortr modified", listed("--sortr", "modified")),
        grep(f"{rare}, without ripgrep", of=python, target=None),
        glob("one file in 5, without ripgrep", "**/*.py", "find -name -printf", printed, of=python, target=None),
    ]


async def run_all(count: int, rounds: int) -> list[Row]:
    """Return the rows."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()  # noqa: ASYNC240
        make_tree(root, count)
        entered = await races(root)
        taken: list[tuple[list[float], list[float]]] = [([], []) for _ in entered]
        for number in range(rounds + 1):
            for race, times in zip(entered, taken, strict=True):
                ours, found = await timed(race.ours)
                theirs, expected = await timed(race.theirs)
                if found != expected:
                    raise WrongAnswer(f"{race.what}: {found} found, but {race.other} found {expected}")
                if number:  # the first fills the caches of the system
                    times[0].append(ours)
                    times[1].append(theirs)
    return [
        Row(
            f"{race.what}, beside `{race.other}`",
            lower_quartile(ours),
            floor=lower_quartile(theirs),
            most_of_floor=race.target,
        )
        for race, (ours, theirs) in zip(entered, taken, strict=True)
    ]


async def timed(run: Run) -> tuple[float, int]:
    """Return how long a run takes, in milliseconds, and what it found."""
    start = time.perf_counter()
    found = await run()
    return (time.perf_counter() - start) * 1000, found


def measure(setting: Setting) -> list[Row]:
    """Return the rows for a tree of `size` files."""
    os.umask(0o077)
    return asyncio.run(run_all(setting.size, setting.rounds))
