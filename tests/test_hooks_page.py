"""The page about shell hooks is true: what it lists is what the module does, and every hazard has its test.

Its commands are run with those of all other pages, by `test_docs.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from amplifier_module_hook_shell.answer import read_answer
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.hook_events import ALIASES, HOOK_EVENTS
from amplifier_module_hook_shell.hook_files import Source, read_entries

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
TESTS = ROOT / "modules" / "hook-shell" / "tests"


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _first_cells(title: str) -> list[str]:
    return [line.split("|")[1].strip() for line in _section(title).splitlines() if line.startswith("| ")]


def test_every_hazard_has_its_test() -> None:
    """Each test that the page names is there, once."""
    named = re.findall(r"\| `(test_\w+)` \|", _section("What was tried"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted(TESTS.glob("test_*.py")))
    assert len(named) == 18
    assert [name for name in named if len(re.findall(rf"def {name}\(", code)) != 1] == []


def test_every_event_has_a_row() -> None:
    """The page has a row for each event, except `SubagentStart`, which shares the row of `SessionStart`."""
    documented = {name for cell in _first_cells("What a hook receives") for name in re.findall(r"`(\w+)`", cell)}
    assert documented | {"SubagentStart"} == set(HOOK_EVENTS)


def test_the_gates_are_those_of_the_code() -> None:
    """What is denied without an answer is what the page says."""
    header = next(line for line in _section("When there is no answer").splitlines() if line.startswith("| |"))
    assert set(re.findall(r"`(\w+)`", header)) == {name for name, one in HOOK_EVENTS.items() if one.is_gate}
    assert f"{ShellHooksConfig().timeout:g} seconds" in _section("When there is no answer")


@pytest.mark.parametrize("answer", re.findall(r"\| `(\{.*\})` \|", _section("What a hook may answer")))
def test_the_answers_are_understood(answer: str) -> None:
    """Each answer that the page shows asks for something."""
    hook_event = HOOK_EVENTS["PostToolUse" if "newContent" in answer else "PreToolUse"]
    understood = read_answer(hook_event, 0, answer, "", is_cut=False)
    assert understood.verdict != "continue" or understood.message


def test_the_files_hold_hooks() -> None:
    """Every hooks file on the page is read without a complaint."""
    blocks = re.findall(r"```json(?: file=\S+)?\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        content = json.loads(block)
        entries = read_entries(content.get("hooks", content), Source("page"))
        assert entries.hooks
        assert entries.problems == []


def test_the_other_names_are_those_of_the_code() -> None:
    """What the page says tools are called elsewhere is what hooks are told."""
    said = re.findall(r"`(\w+)`\s+for\s+`(\w+)`", _section("Hooks of other agents"))
    assert len(said) == 5
    assert [pair for pair in said if ALIASES[pair[1]][0] != pair[0]] == []
