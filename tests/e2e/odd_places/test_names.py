"""Projects by any name and by any way in: what they are called changes nothing of what works in them."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[Path, Mapping[str, str]], None]
Tool = Callable[..., dict[str, str]]

BUNDLE = """\
---
bundle: {name: scripted}
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple}
providers:
  - {module: provider-mock, config: {scenario: scenario.yaml}}
hooks:
  - {module: hooks-logging}
tools:
  - {module: tool-greet, source: ./modules/tool-greet}
context: {include: [context.md]}
---
The instruction, and @mentioned.md.
"""
TURN = {
    "text": "Done.",
    "expect": {
        "contains": ["The prompt.", "From the prompt."],
        "system_contains": ["The instruction", "Of the context.", "Of a mention.", "Of the rules."],
        "tools": ["greet_hello"],
    },
}
FILES = {
    "bundle.md": BUNDLE,
    "scenario.yaml": json.dumps({"turns": [TURN]}),
    "context.md": "Of the context.",
    "mentioned.md": "Of a mention.",
    "AGENTS.md": "Of the rules.",
    "prompt.md": "From the prompt.",
}
PROMPT = "The prompt. @prompt.md"
NAMES = [
    "with space",
    " spaces at the ends ",
    "ünï-✓-日本",
    "e\u0301 and \u00e9",
    'quote\'s "double"',
    "-dash",
    "--help",
    "~",
    "@at",
    "a#subdirectory=b",
    "a@main",
    "50%20off %s {0} {name}",
    "a:b",
    "$HOME `id` ; & | < >",
    "[a]*?",
    "back\\slash",
    "C:\\windows",
    "..dots..",
    ".hidden",
    "bundle.md",
]


def _at(project: Any, folder: Path, tool: Tool, write_files: Write) -> Any:
    """Return the project in another folder, with all its files."""
    folder.mkdir(parents=True)
    write_files(folder, FILES)
    write_files(folder / "modules" / "tool-greet", tool())
    return replace(project, folder=folder)


def _check_done(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "Traceback" not in done.stderr


def _sessions(home: Path) -> list[Path]:
    return sorted(home.glob("projects/*/sessions/*"))


@pytest.mark.parametrize("name", NAMES)
def test_a_project_by_any_name(project: Any, tmp_path: Path, tool: Tool, write_files: Write, name: str) -> None:
    """Bundle, module, context, mentions, rules and sessions are found in a folder of any name."""
    odd = _at(project, tmp_path / "odd" / name, tool, write_files)
    _check_done(odd.run("run", "--trust", "--bundle", ".", PROMPT))
    [session] = _sessions(tmp_path / "home")
    assert json.loads((session / "metadata.json").read_bytes())["working_dir"] == str(odd.folder)
    _check_done(odd.run("run", "--trust", "--resume", session.name[:8], PROMPT))
    assert _sessions(tmp_path / "home") == [session]
    assert (session / "transcript.jsonl").read_bytes().count(b"Done.") == 2
    assert odd.run("logs").returncode == 0


def test_a_project_whose_name_is_no_text(project: Any, tmp_path: Path, tool: Tool, write_files: Write) -> None:
    """A folder whose name is no UTF-8 can be worked in, and its sessions go on."""
    odd = _at(project, tmp_path / os.fsdecode(b"caf\xe9"), tool, write_files)
    _check_done(odd.run("run", "--trust", "--bundle", "bundle.md", PROMPT))
    [session] = _sessions(tmp_path / "home")
    _check_done(odd.run("run", "--trust", "--resume", session.name, PROMPT))
    assert _sessions(tmp_path / "home") == [session]


def test_a_project_with_a_very_long_path(project: Any, tmp_path: Path, tool: Tool, write_files: Write) -> None:
    """A project deeper than a file name may be long has sessions of its own, which go on."""
    folder = tmp_path.joinpath(*["ü" * 60] * 5)
    odd = _at(project, folder / "one", tool, write_files)
    other = _at(project, folder / "two", tool, write_files)
    done = odd.run("run", "--trust", "--bundle", ".", PROMPT)
    _check_done(done)
    assert "annot write" not in done.stderr
    [session] = _sessions(tmp_path / "home")
    _check_done(other.run("run", "--trust", "--bundle", ".", PROMPT))
    assert len({path.parent for path in _sessions(tmp_path / "home")}) == 2
    _check_done(odd.run("run", "--trust", "--resume", session.name, PROMPT))
    assert len(_sessions(tmp_path / "home")) == 2


@pytest.mark.parametrize("name", ["with space", "-dash", "ünï ✓", "quote's", "a%20b", "a@main", "$HOME"])
def test_a_home_by_any_name(project: Any, tmp_path: Path, tool: Tool, write_files: Write, name: str) -> None:
    """A home may be called anything, and hold bundles, agents and settings."""
    home = tmp_path / "odd" / name
    write_files(home, {"bundles/own.md": BUNDLE.replace("./modules/", "../modules/"), "AGENTS.md": "Of the rules."})
    write_files(home / "bundles", {file: FILES[file] for file in ("scenario.yaml", "context.md", "mentioned.md")})
    write_files(home / "modules" / "tool-greet", tool())
    write_files(home, {"settings.yaml": "bundle: {active: own}\n"})
    write_files(project.folder, {"prompt.md": "From the prompt.", "mentioned.md": "Of a mention."})
    project.environment["AMPLIFIER_HOME"] = str(home)
    _check_done(project.run("run", PROMPT))
    assert len(_sessions(home)) == 1
