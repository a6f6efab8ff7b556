"""Many sessions started from one, at once and one after the other, and trees that are killed."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

KILLS = 4


@pytest.fixture
def trees(load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the program, with its tool known to this process for the length of a test."""
    program = load("trees")
    name = "amplifier_module_tool_telling"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    program.add_tool()
    # Too few to tell what is kept of each: only the program itself starts enough.
    monkeypatch.setattr(program, "KEPT_PER_CHILD", 1_000_000)
    monkeypatch.setattr(program, "BYTES_PER_CHILD", 10_000_000)
    return program


@pytest.mark.system
def test_children_at_once_mix_nothing_up_and_leave_nothing_behind(trees: ModuleType, tmp_path: Path) -> None:
    """Some of them stopped on the way: no ledger, log, configuration or contribution of another, no task, no file."""
    options = trees.Numbers(at_once=30, in_a_row=5, batches=1, batch=10, warm_up=10, counted=5)
    counted = asyncio.run(trees.run(tmp_path, options))
    assert counted.wrong == []
    assert counted.at_once == 30
    assert counted.lines > 200
    assert "| 30 |" in trees.describe(counted)


@pytest.mark.system
def test_what_is_mixed_up_is_noticed(trees: ModuleType, tmp_path: Path) -> None:
    """The check can fail: a child that is looked at as another one is wrong in its ledger, its notes and its tool."""
    options = trees.Numbers(at_once=2, in_a_row=0, batches=0, batch=0, warm_up=10, counted=5)
    asyncio.run(trees.run(tmp_path, options))
    folders = {path.parent for path in tmp_path.rglob("metadata.json")}
    child = next(path for path in folders if _mark(path) == 1)
    counted = trees.Counted()
    trees.check(counted, child, 7, "another parent")
    assert len(counted.wrong) == 3
    (child / "events.jsonl").write_text((child / "events.jsonl").read_text().replace('"seq": 3', '"seq": 4'))
    trees.check(counted, child, 1, json.loads((child / "metadata.json").read_text())["parent_id"])
    assert "gap" in counted.wrong[-1]


def _mark(folder: Path) -> Any:
    return json.loads((folder / "metadata.json").read_text())["config"]["session"]["metadata"].get("mark")


@pytest.mark.system
def test_a_killed_tree_goes_on_where_it_was(load: Callable[[str], ModuleType]) -> None:
    """Killed at any moment: what was finished is not done again, and every call gets its answer."""
    kills, kill_tree = load("kills"), load("kill_tree")
    tally = kills.play(kill_tree.Trees, KILLS, 7)
    assert tally.faults == []
    assert tally.counts["kills"] == KILLS
    assert f"| {KILLS} |" in kills.describe(kill_tree.Trees, tally, 7)


def test_a_finished_child_that_runs_again_is_noticed(load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """The check can fail."""
    kills, kill_tree = load("kills"), load("kill_tree")
    folder = tmp_path / "x_child1"
    folder.mkdir()
    line = {
        "ts": "2026-01-01T00:00:00+00:00",
        "lvl": "INFO",
        "event": "llm:request",
        "session_id": "x_child1",
        "seq": 1,
    }
    (folder / "events.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "transcript.jsonl").write_text('{"role": "user", "content": "Go."}\n')
    tally = kills.Tally()
    kill_tree.check(tmp_path, {"x_child1"}, {"x_child1": 0}, tally)
    assert any("run again" in fault for fault in tally.faults)
    assert any("not done" in fault for fault in tally.faults)
