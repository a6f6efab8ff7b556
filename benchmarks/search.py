"""Measure grep and glob against ripgrep, under the same limit for large files, over a tree of many files.

    python benchmarks/search.py [--files 100000] [--rounds 7] [--json]

The tools run as a session runs them, in a process that is there already; the others are started, and their output is
read. Every round runs each of them once, so that whatever else the machine does hits all alike; the lower quartile of
the rounds counts. glob answers newest first, with sizes, which takes a look at every file that matches. The same work
is ripgrep's list (`rg --files`) sent through `stat` and `sort`; ripgrep's own `--sortr modified` is the same too, but
it does that with one thread. Beside the bare list there is a target only where few files match. Prints a table, or with --json one object
`{"rows": [{"what", "ms", "other", "other_ms", "ratio", "target", "met"}]}`; exits 1 when a target is missed, 2 when an
answer is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import environment
from document import circumstances, table

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
    alone = Race(
        f"grep, one file in {RARE}, without ripgrep",
        tool(python, "grep", "total_matches", pattern="needle"),
        "rg -l",
        program(root, *plain, "-l", "needle"),
        None,
    )
    listed = Race(
        "glob, one file in 5, without ripgrep",
        tool(python, "glob", "total_files", pattern="**/*.py"),
        "find -name -printf",
        program(root, "find", ".", "-type", "f", "-name", "*.py", "-printf", "%T@ %s %p\\n"),
        None,
    )
    hidden = Race(
        f"grep, one file in {RARE}, with {len(RULED)} rules",
        tool(ruled, "grep", "total_matches", pattern="needle"),
        "rg -l",
        program(root, *plain, "-l", "needle"),
        TARGET,
    )
    return [*grep_races(root, tools, plain), hidden, *glob_races(root, tools, plain), alone, listed]


def grep_races(root: Path, tools: dict[str, Any], plain: list[str]) -> list[Race]:
    """Return what is measured of grep through ripgrep."""
    grep = {"pattern": "needle"}
    return [
        Race(
            f"grep, one file in {RARE}",
            tool(tools, "grep", "total_matches", **grep),
            "rg -l",
            program(root, *plain, "-l", "needle"),
            TARGET,
        ),
        Race(
            f"grep, lines of one file in {RARE}",
            tool(tools, "grep", "total_matches", output_mode="content", **grep),
            "rg -n",
            program(root, *plain, "-n", "needle"),
            TARGET,
        ),
        Race(
            "grep, lines of every file",
            tool(tools, "grep", "total_matches", pattern="line 7 of", output_mode="content"),
            "rg -n",
            program(root, *plain, "-n", "line 7 of"),
            TARGET,
        ),
        *(
            Race(
                f"grep, one file in {RARE}, {what}",
                tool(tools, "grep", "total_matches", **grep, **given),
                f"rg -l {option}",
                program(root, *plain, "-l", *option.split(), "needle"),
                TARGET,
            )
            for what, given, option in (
                ("of *.py", {"glob": "*.py"}, "-g *.py"),
                ("of a type", {"type": "markdown"}, "-t md"),
                ("in a part", {"glob": "area1*/**/*.py"}, "-g area1*/**/*.py"),
                ("but not of *.py", {"glob": "!*.py"}, "-g !*.py"),
            )
        ),
        Race(
            "grep, nothing there",
            tool(tools, "grep", "total_matches", pattern="haystack"),
            "rg -l",
            program(root, *plain, "-l", "haystack"),
            TARGET,
        ),
        Race(
            "grep, lines, nothing there",
            tool(tools, "grep", "total_matches", pattern="haystack", output_mode="content"),
            "rg -n",
            program(root, *plain, "-n", "haystack"),
            TARGET,
        ),
    ]


def glob_races(root: Path, tools: dict[str, Any], plain: list[str]) -> list[Race]:
    """Return what is measured of glob through ripgrep."""
    return [
        *(
            Race(
                f"glob, one file in {part}",
                tool(tools, "glob", "total_files", pattern=f"**/{name}"),
                "rg --files -g",
                program(root, *plain, "--files", "-g", name),
                target,
            )
            # Every file that matches is asked for its age and size, which ripgrep does not do here.
            for part, name, target in ((100, "file*00.py", TARGET), (5, "*.py", None))
        ),
        *(
            Race(
                what,
                tool(tools, "glob", "total_files", pattern=pattern),
                "rg --files | stat | sort",
                program(root, "sh", "-c", SORTED, *plain, "--files", "--null", *options),
                TARGET,
            )
            for what, pattern, options in (
                ("glob, one file in 5", "**/*.py", ("-g", "*.py")),
                ("glob, every file", "**", ()),
            )
        ),
        Race(
            "glob, every file",
            tool(tools, "glob", "total_files", pattern="**"),
            "rg --files --sortr modified",
            program(root, *plain, "--files", "--sortr", "modified"),
            TARGET,
        ),
    ]


async def measure(count: int, rounds: int) -> list[dict[str, Any]]:
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
    return [row(race, quartile(ours), quartile(theirs)) for race, (ours, theirs) in zip(entered, taken, strict=True)]


async def timed(run: Run) -> tuple[float, int]:
    """Return how long a run takes, in milliseconds, and what it found."""
    start = time.perf_counter()
    found = await run()
    return (time.perf_counter() - start) * 1000, found


def quartile(taken: list[float]) -> float:
    """Return the lower quartile."""
    return sorted(taken)[len(taken) // 4]


def row(race: Race, ours: float, theirs: float) -> dict[str, Any]:
    """Make one row."""
    ratio = ours / theirs
    return {
        "what": race.what,
        "ms": round(ours, 1),
        "other": race.other,
        "other_ms": round(theirs, 1),
        "ratio": round(ratio, 2),
        "target": race.target,
        "met": race.target is None or ratio <= race.target,
    }


def main() -> int:
    """Measure, print and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.umask(0o077)
    try:
        rows = asyncio.run(measure(options.files, options.rounds))
    except WrongAnswer as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"rows": rows}))
    else:
        cells = [
            [r["what"], f"{r['ms']:.0f} ms", r["other"], f"{r['other_ms']:.0f} ms", f"{r['ratio']:.2f}×", *_target(r)]
            for r in rows
        ]
        print(f"{options.files:,} files. {circumstances()}\n")
        print(table(["What", "Ours", "Beside", "Takes", "Ratio", "Target", "Met"], cells))
    return 0 if all(r["met"] for r in rows) else 1


def _target(measured: dict[str, Any]) -> list[str]:
    if measured["target"] is None:
        return ["", ""]
    return [f"≤ {measured['target']:g}×", "yes" if measured["met"] else "**no**"]


if __name__ == "__main__":
    sys.exit(main())
