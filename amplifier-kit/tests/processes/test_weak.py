"""Where the system has no subreapers, the group and the mark are what commands are held by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_kit.processes import Order, Output, run, supervisor

MakeOrder = Callable[..., Order]
Naps = Callable[[], list[int]]


@pytest.fixture(autouse=True)
def _no_subreapers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start supervisors that the system refuses what only Linux has."""
    script = tmp_path / "weak.py"
    folder = str(Path(supervisor.__file__).parent)
    script.write_text(
        f"import sys\nsys.path.append({folder!r})\nimport supervisor\n"
        "supervisor.prctl = lambda *_: False\nsupervisor.main(sys.argv[1:])\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("amplifier_kit.processes.order._SUPERVISOR", str(script))


async def test_the_group_ends_with_the_command(shell: MakeOrder, nap: str, naps: Naps) -> None:
    """What stays in the group of the command is found by it, also without its environment."""
    outcome = await run(shell(f"env -i {nap} & sleep 0.2; echo done"), output := Output(100), timeout=60)
    assert (outcome.returncode, output.shown().text) == (0, "done\n")
    assert naps() == []


async def test_who_leaves_the_group_is_found_by_the_mark(shell: MakeOrder, nap: str, naps: Naps) -> None:
    """What leaves the group is found as long as it keeps its environment."""
    outcome = await run(shell(f"setsid -f {nap}; sleep 0.2; exit 3"), Output(100), timeout=60)
    assert (outcome.returncode, outcome.alive) == (3, ())
    assert naps() == []


async def test_at_the_deadline(shell: MakeOrder, nap: str, naps: Naps) -> None:
    """The same holds at the deadline."""
    outcome = await run(shell(f"setsid -f {nap}; env -i {nap} & trap '' TERM; {nap}"), Output(100), timeout=1)
    assert (outcome.is_timed_out, outcome.alive) == (True, ())
    assert naps() == []
