"""What a crash leaves is removed by `prune --mine`, and nothing else is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import amplifier_digital_twin.cli.destroy as destroy_module
from amplifier_digital_twin import keeper_process
from amplifier_digital_twin.main import main

Wait = Callable[[Callable[[], object]], None]


def test_killed_keeper_is_dead_everywhere(twin: Any) -> None:
    """A universe whose keeper was killed is shown as dead, and requests say what to do."""
    identifier = twin.launch("--name", "mine")
    twin.kill_keeper(identifier)
    assert twin.run("list").record["universes"][0]["phase"] == "dead"
    status = twin.run("status", "mine")
    assert (status.code, status.record["phase"], status.record["last_phase"]) == (1, "dead", "ready")
    ended = twin.run("exec", "mine", "--", "true")
    assert (ended.code, ended.record["error"]["code"]) == (2, "universe_dead")
    assert twin.run("logs", "mine").record["entries"]
    assert twin.run("launch", str(twin.profile), "--name", "mine").record["error"]["code"] == "name_taken"


def test_prune_removes_the_dead_and_leaves_the_living(twin: Any) -> None:
    """Universes whose keepers have crashed go; those that live stay, whatever their names."""
    dead, living = twin.launch(), twin.launch()
    twin.kill_keeper(dead)
    pruned = twin.run("prune", "--mine")
    assert (pruned.code, pruned.record["removed"]) == (0, [dead])
    assert list(pruned.record["kept"]) == [living]
    assert twin.universes() == [living]
    assert twin.run("status", living).code == 0


def test_keeper_killed_while_launching_leaves_nothing_after_prune(
    twin: Any, wait_until: Wait, runs: Callable[[int], bool]
) -> None:
    """What a keeper had started on the host, and everything it had made, is gone."""
    process = twin.start("launch", str(twin.profile), "--var", "MODE=stray")
    wait_until(lambda: "slow" in twin.notes)
    stray = int(twin.notes.split()[2])
    [identifier] = twin.universes()
    process.send_signal(signal.SIGSTOP)  # so that it cannot clean up itself; and killed first, its keeper would
    os.kill(twin.state(identifier)["holder"]["pid"], signal.SIGKILL)
    process.kill()
    process.communicate(timeout=60)
    assert runs(stray)
    assert twin.run("prune", "--mine").code == 0
    wait_until(lambda: not runs(stray))
    assert twin.universes() == []


def test_destroy_removes_the_dead(twin: Any) -> None:
    """`destroy` works for a universe whose keeper has crashed, too."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    assert twin.run("destroy", identifier).record == {"id": identifier, "destroyed": True}
    assert twin.universes() == []


def test_sigterm_to_the_keeper_destroys(twin: Any, wait_until: Wait) -> None:
    """A machine that shuts down ends universes in order."""
    identifier = twin.launch()
    os.kill(twin.state(identifier)["holder"]["pid"], signal.SIGTERM)
    wait_until(lambda: not twin.universes())
    assert f"{identifier} destroyed" in twin.notes


@pytest.mark.parametrize("change", ["ticks", "boot"])
def test_process_that_got_the_number_later_is_not_the_keeper(twin: Any, change: str) -> None:
    """A living process with the keeper's number, but of another start or boot, keeps nothing, and is not touched."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    state = twin.state(identifier)
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    state["holder"]["pid"] = os.getpid()
    state["holder"]["ticks"] = int(stat.rpartition(")")[2].split()[19])
    state["holder"][change] = 1 if change == "ticks" else "another-boot"
    path = twin.folder / "universes" / identifier / "state.json"
    path.write_text(json.dumps(state), encoding="utf-8")
    assert twin.run("prune", "--mine").record["removed"] == [identifier]


def test_universe_of_another_user_is_never_touched(twin: Any) -> None:
    """A state that names another owner is left as it is, dead or not."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    path = twin.folder / "universes" / identifier / "state.json"
    path.write_text(json.dumps({**twin.state(identifier), "owner": 4242}), encoding="utf-8")
    pruned = twin.run("prune", "--mine").record
    assert (pruned["removed"], pruned["kept"]) == ([], {identifier: "it belongs to user 4242"})
    assert twin.run("destroy", identifier).record["error"]["code"] == "not_yours"
    assert twin.universes() == [identifier]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_folder_of_another_user_is_never_touched(twin: Any) -> None:
    """What the state says is not enough: the folder itself must belong to the user."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    os.chown(twin.folder / "universes" / identifier, 4242, 4242)
    assert twin.run("prune", "--mine").record["removed"] == []
    assert twin.universes() == [identifier]


def test_state_that_cannot_be_understood_is_left_and_told(twin: Any) -> None:
    """What proves nothing is not removed: it is a fault that is told."""
    folder = twin.folder / "universes" / "dtu-00000000"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}", encoding="utf-8")
    pruned = twin.run("prune", "--mine")
    assert (pruned.code, pruned.record["failed"]["dtu-00000000"]["code"]) == (1, "state_invalid")
    assert (folder / "state.json").exists()
    assert list(twin.run("list").record["faults"]) == [str(folder)]


def test_interrupted_beginnings_and_ends_are_swept(twin: Any) -> None:
    """Folders without a state, from before it was written and from after it was removed, go when nobody makes them."""
    universes = twin.folder / "universes"
    (universes / ".new-dtu-00000001.99999999.1").mkdir(parents=True)
    stat = Path("/proc/self/stat").read_text(encoding="utf-8")
    mine = universes / f".new-dtu-00000002.{os.getpid()}.{stat.rpartition(')')[2].split()[19]}"
    mine.mkdir()
    (universes / "dtu-00000003").mkdir()
    (universes / "dtu-00000003" / "lock").touch()
    (universes / "notes of the user").mkdir()
    assert twin.run("prune", "--mine").code == 0
    assert twin.universes() == [mine.name, "notes of the user"]


def test_prune_wants_to_hear_mine(twin: Any) -> None:
    """Without --mine nothing is done."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    assert twin.run("prune").record["error"]["code"] == "usage"
    assert twin.universes() == [identifier]


@pytest.mark.parametrize("moment", range(8))
def test_crash_at_any_moment_leaves_nothing_after_prune(twin: Any, wait_until: Wait, moment: int) -> None:
    """Program and keeper, killed together at whatever point the launch has reached, leave what prune removes."""
    process = twin.start("launch", str(twin.profile), "--var", "MODE=slow", start_new_session=True)
    try:
        process.wait(0.1 + moment * 0.06)
    except subprocess.TimeoutExpired:
        pass
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    keepers = [int(pid) for pid in children.read_text(encoding="ascii").split()] if children.exists() else []
    process.kill()
    for pid in keepers:
        with contextlib.suppress(ProcessLookupError):  # it may have ended with its program
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: twin.run("prune", "--mine").code == 0 and twin.universes() == [])
    assert twin.run("list").record["universes"] == []


def test_keeper_that_hangs_is_destroyed_by_force(
    twin: Any, monkeypatch: pytest.MonkeyPatch, runs: Callable[[int], bool]
) -> None:
    """`destroy` does not wait for ever for a keeper that does not answer."""
    identifier = twin.launch()
    pid = twin.state(identifier)["holder"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(destroy_module, "_ANSWERS", 0.3)
    monkeypatch.setattr(keeper_process, "_TERM_SECONDS", 0.3)
    monkeypatch.setenv("AMPLIFIER_HOME", str(twin.home))
    ended = CliRunner().invoke(main, ["destroy", identifier])
    assert ended.exit_code == 0, ended.output
    assert not runs(pid)
    assert twin.universes() == []
