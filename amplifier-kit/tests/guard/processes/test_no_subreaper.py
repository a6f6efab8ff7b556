"""On systems without subreapers, processes are found by their group and by the command id in their environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.processes import supervisor
from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import CommandSpec, run

MakeOrder = Callable[..., CommandSpec]
Naps = Callable[[], list[int]]


@pytest.fixture(autouse=True)
def _no_subreapers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start supervisors for which `prctl` fails, as it does everywhere but on Linux."""
    script = tmp_path / "weak.py"
    folder = str(Path(supervisor.__file__).parent)
    script.write_text(
        f"import sys\nsys.path.append({folder!r})\nimport supervisor\n"
        "supervisor.prctl = lambda *_: False\nsupervisor.main(sys.argv[1:])\n",
        encoding="utf-8",
    )
    monkeypatch.setattr("amplifier_kit.guard.processes.running_command._SUPERVISOR", str(script))


async def test_the_group_ends_with_the_command(
    shell: MakeOrder, nap: str, naps: Naps, settled: Naps, tmp_path: Path
) -> None:
    """What stays in the group of the command is found by it, also without its environment."""
    order = shell(f"env -i {nap} & until [ -e go ]; do sleep 0.01; done; echo done")
    task = asyncio.create_task(run(order, output := Output(100), timeout=60))
    assert await wait_for(lambda: bool(settled()), timeout=60)
    (tmp_path / "go").touch()
    assert ((await task).returncode, output.shown().text) == (0, "done\n")
    assert naps() == []


async def test_a_process_that_leaves_the_group_is_found_by_its_id(
    shell: MakeOrder, nap: str, naps: Naps, settled: Naps, tmp_path: Path
) -> None:
    """What leaves the group is found as long as it keeps its environment."""
    order = shell(f"setsid -f {nap}; until [ -e go ]; do sleep 0.01; done; exit 3")
    task = asyncio.create_task(run(order, Output(100), timeout=60))
    assert await wait_for(lambda: bool(settled()), timeout=60)
    (tmp_path / "go").touch()
    outcome = await task
    assert (outcome.returncode, outcome.alive) == (3, ())
    assert naps() == []


async def test_at_the_deadline(
    shell: MakeOrder, nap: str, naps: Naps, settled: Naps, skip_time: Callable[[float], None]
) -> None:
    """The same holds at the deadline."""
    order = shell(f"setsid -f {nap}; env -i {nap} & trap '' TERM; {nap}", grace=0.1)
    task = asyncio.create_task(run(order, Output(100), timeout=600))
    assert await wait_for(lambda: len(settled()) == 3, timeout=60)
    skip_time(600)
    outcome = await task
    assert (outcome.is_timed_out, outcome.alive) == (True, ())
    assert naps() == []
