"""Limits hold: memory, processes, processors, bytes on disk; by control groups or for each process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.embedded.control_groups import Hierarchy, hierarchies, make_groups, remove_groups, settings
from amplifier_digital_twin.embedded.limits import grant
from amplifier_digital_twin.profile.model import Limits

MIB = 1024 * 1024


def test_memory_is_limited(keeper: Any) -> None:
    """A command that wants more memory than the universe may have does not get it; the next one works."""
    keeper.order("create", limits={"memory": 200 * MIB})
    done = keeper.order("run", shell="exec /usr/bin/python3 -c 'b = bytearray(400 << 20); print(len(b))'")
    assert done["code"] != 0
    assert done["out"] == ""
    assert keeper.python("b = bytearray(50 << 20); print(len(b))") == f"{50 * MIB}\n"


def test_files_in_memory_count_as_memory(keeper: Any) -> None:
    """`/tmp` and `/dev/shm`, which lie in memory, hold no more than the universe may have."""
    keeper.order("create", limits={"memory": 64 * MIB})
    for folder in ("/tmp", "/dev/shm", "/run"):
        done = keeper.order("run", shell=f"head -c 100M /dev/zero > {folder}/file; rm -f {folder}/file; echo 3")
        assert done["code"] != 0 or done["err"], folder


def test_processes_are_limited(keeper: Any) -> None:
    """A command that forks without end is refused more processes, and the host is not."""
    keeper.order("create", limits={"pids": 40})
    text = (
        "import os, signal, time\n"
        "made = []\n"
        "try:\n"
        " while len(made) < 300:\n"
        "  pid = os.fork()\n"
        "  if pid == 0: time.sleep(60); os._exit(0)\n"
        "  made.append(pid)\n"
        'except OSError as error: print("refused", error.errno, len(made) < 45)\n'
        "for pid in made: os.kill(pid, signal.SIGKILL)"
    )
    assert keeper.python(text) == "refused 11 True\n"


def test_processors_are_limited(keeper: Any) -> None:
    """With control groups the universe has its share of time, without them its number of processors."""
    state = keeper.order("create", limits={"cpus": 0.5})
    groups = {each.version: each for each in hierarchies() if "cpu" in each.controllers}
    if keeper.uid == 0 and groups:
        assert not [note for note in state["notes"] if "processors" in note]
        version, hierarchy = next(iter(groups.items()))
        name = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
        assert (hierarchy.group(keeper.id_of("one")) / name).read_text(encoding="ascii").split()[0] == "50000"
        members = (hierarchy.group(keeper.id_of("one")) / "cgroup.procs").read_text(encoding="ascii").split()
        assert str(keeper.order("state")["pid"]) in members
    elif "processors" in "".join(state["notes"]):
        assert keeper.shell("nproc") == "1\n"


def test_a_file_is_no_larger_than_the_disk_limit(keeper: Any) -> None:
    """Writing one file beyond the limit fails for the program that writes."""
    keeper.order("create", limits={"disk": 10 * MIB})
    assert keeper.order("run", shell="head -c 20M /dev/zero > ~/large")["code"] != 0
    # Looked at from outside: with the folders around it the file is beyond the limit, and who runs inside is ended.
    upper = Path(keeper.folder) / "universes" / keeper.id_of("one") / "embedded" / "upper"
    assert 9 * MIB < (upper / "home/user/large").stat().st_size <= 10 * MIB


def test_many_files_beyond_the_disk_limit_end_what_runs(keeper: Any) -> None:
    """Files that are larger together than the limit end the processes inside, and the universe says so."""
    keeper.order("create", limits={"disk": 20 * MIB})
    text = "for i in 1 2 3 4 5; do head -c 8M /dev/zero > ~/file$i; done; sleep 600"
    done = keeper.order("run", shell=text, timeout=300)
    assert done["code"] != 0
    assert not done["is_timed_out"]
    state = keeper.order("state")
    assert state["is_running"]
    assert [note for note in state["notes"] if "disk limit" in note]
    assert keeper.shell("rm ~/file*; echo works") == "works\n"


def test_a_closed_folder_hides_nothing_from_the_disk_limit(keeper: Any) -> None:
    """What lies in a folder that its owner has closed counts all the same."""
    keeper.order("create", limits={"disk": 20 * MIB})
    text = "mkdir ~/closed; cd ~/closed; for i in 1 2 3 4; do head -c 8M /dev/zero > $i; done; chmod 0 .; sleep 600"
    assert not keeper.order("run", shell=text, timeout=300)["is_timed_out"]
    assert [note for note in keeper.order("state")["notes"] if "disk limit" in note]


def test_limits_without_control_groups_are_said() -> None:
    """Every limit that holds for each process alone, or is watched only, is a note, and a limit of processes."""
    budget = grant([], "none", Limits(memory=MIB, pids=5, cpus=1.5, disk=7))
    assert budget.groups == ()
    assert budget.rlimits == {
        "RLIMIT_CORE": 0,
        "RLIMIT_DATA": MIB,
        "RLIMIT_NPROC": 5,
        "RLIMIT_FSIZE": 7,
        "CPUS": 2,
    }
    assert len(budget.notes) == 3
    assert budget.watched_memory == MIB


def test_no_limit_is_no_note() -> None:
    """What the profile does not limit is not limited, and nothing is said about it."""
    assert grant([], "none", Limits(None, None, None, None)) == ((), {"RLIMIT_CORE": 0}, (), None)


def _unified(folder: Path, own: str, subtree: str) -> str:
    """Make what looks like the new layout; return the line that mounts it."""
    (folder / own.strip("/")).mkdir(parents=True)
    for place in (folder, *(parent for parent in (folder / own.strip("/")).parents if folder in parent.parents)):
        (place / "cgroup.subtree_control").write_text(subtree, encoding="ascii")
        (place / "cgroup.procs").touch()
    return f"30 23 0:26 / {folder} rw,nosuid - cgroup2 cgroup2 rw\n"


def test_new_layout_groups_lie_where_controllers_are_handed_on(tmp_path: Path) -> None:
    """In the new layout a group is made below the nearest folder that hands on what the limits need."""
    mounts = _unified(tmp_path, "/user.slice/app.slice/here.scope", "cpu memory pids")
    (found,) = hierarchies(mounts, "0::/user.slice/app.slice/here.scope\n")
    assert found.version == 2
    assert found.controllers == {"cpu", "memory", "pids"}
    expected = tmp_path if os.geteuid() == 0 else tmp_path / "user.slice/app.slice"
    assert found.folder == expected
    limits = Limits(memory=100, pids=7, cpus=1.5)
    assert {name: value for name, value, _ in settings(found, limits)} == {
        "pids.max": "7",
        "memory.max": "100",
        "memory.swap.max": "0",
        "cpu.max": "150000 100000",
    }


def test_new_layout_without_controllers_is_of_no_use(tmp_path: Path) -> None:
    """A tree that hands on nothing, as beside the old layout, gives no place for groups."""
    assert hierarchies(_unified(tmp_path, "/a/b", ""), "0::/a/b\n") == []


def test_groups_that_cannot_be_made_leave_none(tmp_path: Path) -> None:
    """When one group fails, those made before it are removed."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.write_text("", encoding="utf-8")
    places = [Hierarchy(good, frozenset(), 2), Hierarchy(bad, frozenset({"pids"}), 2)]
    with pytest.raises(OSError, match="bad"):
        make_groups(places, "x", Limits())
    assert list(good.iterdir()) == []


def test_only_groups_of_ours_are_removed(tmp_path: Path) -> None:
    """A folder that does not bear our name is left alone, and one that is gone is no fault."""
    foreign = tmp_path / "system.slice"
    foreign.mkdir()
    assert remove_groups([foreign, tmp_path / "amplifier-twin-gone"]) == []
    assert foreign.is_dir()


@pytest.mark.skipif(not hierarchies(), reason="this user can make no control groups")
def test_removing_a_group_ends_what_is_in_it() -> None:
    """What still runs in a group of a dead universe ends, and the group goes."""
    import subprocess

    places = hierarchies()
    universe = f"test-{os.getpid()}-{time.monotonic_ns()}"
    made = make_groups(places, universe, Limits())
    process = subprocess.Popen(["sleep", "60"])
    try:
        for group in set(made.values()):
            (group / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
        assert remove_groups(list(made.values())) == []
        assert process.wait(60) == -9
    finally:
        process.kill()
        process.wait()
    assert not [place for place in places if place.group(universe).exists()]
