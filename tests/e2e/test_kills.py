"""A run that is killed leaves a sound log."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from amplifier_kit.log.writer import SessionLog

KILLS = 20


@pytest.mark.system
def test_a_killed_run_leaves_every_line_it_wrote(load: Callable[[str], ModuleType]) -> None:
    """Killed at any moment: no line is lost or cut but the last, the log can be reopened, the next run works."""
    kills, kill_run = load("kills"), load("kill_run")
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(kills.play, [kill_run.Runs] * 2, [KILLS // 2] * 2, [11, 12]))
    assert [part.faults for part in parts] == [[], []]
    assert sum(part.counts["kills"] for part in parts) == KILLS
    assert any(part.counts["lines"] for part in parts)


def test_a_lost_line_is_noticed(load: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """The check can fail: a log with a gap, a missing blob or fewer lines than were seen is a fault."""
    kills, kill_run = load("kills"), load("kill_run")
    folder = tmp_path / "session"
    with SessionLog(folder) as log:
        for number in range(5):
            log.write({"event": "tool:post", "lvl": "INFO", "data": {"number": number, "text": f"{number} " * 5000}})
    lines = (folder / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    shutil.rmtree(folder / "blobs")
    tally = kills.Tally()
    kill_run.inspect(folder, 5, tally)
    said = "\n".join(tally.faults)
    assert "numbers have gaps" in said
    assert "5 lines were seen, 4 are left" in said
    assert "names what is not there" in said
