"""However a universe ends, or fails to begin, nothing of it is left."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import TwinSpec
from amplifier_digital_twin.embedded import anchor as anchor_module
from amplifier_digital_twin.embedded import backend as backend_module
from amplifier_digital_twin.embedded import twin as twin_module
from amplifier_digital_twin.embedded.backend import EmbeddedBackend
from amplifier_digital_twin.embedded.control_groups import hierarchies
from amplifier_digital_twin.embedded.tree import Tree
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Limits, User


def spec_of(folder: Path, universe: str) -> TwinSpec:
    """Return a plain universe in a folder of the test's."""
    return TwinSpec(
        id=universe,
        folder=folder / "universes" / universe,
        cache=folder / "cache",
        base=Base(),
        user=User(),
        limits=Limits(),
        network="none",
        hostname="twin",
    )


def processes_naming(text: str) -> list[str]:
    """Return the command lines of all processes of the host that have a text in them, but those of the tests."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and "pytest" not in line:
            found.append(line)
    return found


def eventually(is_true: Callable[[], bool]) -> bool:
    """Wait for something that the kernel does in its own time."""
    end = time.monotonic() + 60
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def children() -> set[int]:
    """Return the processes that this one has started and that have not been waited for."""
    while True:
        found = set()
        try:
            for thread in Path("/proc/self/task").iterdir():
                found |= {int(pid) for pid in (thread / "children").read_text(encoding="ascii").split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread has ended meanwhile: what it had started is another one's now
        return found


def groups_of(universe: str) -> list[Path]:
    """Return the control groups of a universe that are there."""
    return [each.group(universe) for each in hierarchies() if each.group(universe).exists()]


def test_keeper_death_ends_everything(keeper: Any) -> None:
    """A keeper that is killed takes with it every process of its universes and every mount."""
    first = keeper.order("create", files={"/etc/mark": ["here", 0o644]})["pid"]
    marker = f"sleep 6{os.getpid()}{time.monotonic_ns() % 100000}"
    keeper.shell(f"setsid {marker} > /dev/null 2>&1 < /dev/null &")
    assert processes_naming(marker)
    keeper.process.send_signal(signal.SIGKILL)
    keeper.process.wait()
    assert eventually(lambda: not processes_naming(marker) and not Path(f"/proc/{first}").exists())
    assert str(keeper.folder) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert eventually(lambda: not processes_naming(str(keeper.folder)))


def test_what_a_dead_keeper_left_can_be_removed(keeper: Any) -> None:
    """After a crash `remove` takes away the layers, whoever owns them, and the control groups; twice is fine."""
    keeper.order("create", "crashed")
    universe = keeper.id_of("crashed")
    keeper.shell("mkdir -p ~/closed/inner; chmod 0 ~/closed; echo x > ~/file", "crashed")
    if keeper.uid == 0:
        assert groups_of(universe)
    keeper.process.kill()
    keeper.process.wait()
    again = keeper.again()
    try:
        again.order("remove", "crashed")
        again.order("remove", "crashed")
    finally:
        again.close()
    assert list((keeper.folder / "universes" / universe).iterdir()) == []
    assert groups_of(universe) == []


def test_destroy_leaves_nothing(keeper: Any) -> None:
    """A destroyed universe has no process, no folder and no control group; destroying it again does nothing."""
    universe = keeper.id_of("one")
    first = keeper.order("create")["pid"]
    keeper.shell("sleep 600 & mkdir ~/a; chmod 0 ~/a")
    keeper.order("destroy")
    keeper.order("destroy")
    assert not Path(f"/proc/{first}").exists()
    assert list((keeper.folder / "universes" / universe).iterdir()) == []
    assert groups_of(universe) == []
    with pytest.raises(keeper.refusal, match="does not run"):
        keeper.shell("true")
    with pytest.raises(keeper.refusal, match="destroyed"):
        keeper.order("reset")


def test_a_universe_whose_holder_is_killed_says_so(keeper: Any) -> None:
    """Once the processes that hold it are gone, it does not run any more, and commands are refused."""
    first = keeper.order("create")["pid"]
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: not keeper.order("state")["is_running"])
    with pytest.raises(keeper.refusal, match="does not run"):
        keeper.shell("true")
    keeper.order("reset")
    assert keeper.shell("echo back") == "back\n"


async def test_a_cancelled_create_leaves_nothing(tmp_path: Path) -> None:
    """Cancelled at any point where it waits, a launch leaves no process, no folder and no control group."""
    backend = EmbeddedBackend()
    await (await backend.create(spec_of(tmp_path, f"warm-{os.getpid()}"), lambda _: None)).destroy()
    before = children()
    steps = 0
    while True:
        universe = f"cancelled-{os.getpid()}-{steps}"
        task = asyncio.create_task(EmbeddedBackend().create(spec_of(tmp_path, universe), lambda _: None))
        for _ in range(steps):
            await asyncio.sleep(0)
            if not task.done():
                await asyncio.wait([task], timeout=0.002)
        is_complete = task.done()
        task.cancel()
        try:
            twin = await task
        except asyncio.CancelledError:
            pass
        else:
            await twin.destroy()
        folder = tmp_path / "universes" / universe
        assert not folder.exists() or list(folder.iterdir()) == []
        assert groups_of(universe) == []
        assert children() <= before
        if is_complete:
            break
        steps += 1
    assert steps > 5
    assert [path.name for path in (tmp_path / "cache").rglob(".aside-*")] == []


@pytest.mark.parametrize("place", ["grant", "write_layer", "clear", "Entry", "read_line", "universe_arguments"])
async def test_a_failed_create_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Whatever step of a launch fails, no process, no folder and no control group is left, and it is a TwinError."""

    def fail(*_: object, **__: object) -> Awaitable[None]:
        raise OSError(28, "no space left, in this test")

    owners = {"grant": backend_module, "write_layer": backend_module, "clear": Tree, "Entry": twin_module}
    owner: Any = owners.get(place, anchor_module)
    monkeypatch.setattr(owner, place, fail)
    before = children()
    universe = f"failed-{os.getpid()}"
    with pytest.raises(TwinError, match="no space left"):
        await EmbeddedBackend().create(spec_of(tmp_path, universe), lambda _: None)
    assert list((tmp_path / "universes" / universe).iterdir()) == []
    assert groups_of(universe) == []
    assert children() <= before


async def test_a_universe_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bubblewrap says is in the error."""

    def arguments(*_: object) -> list[str]:
        return ["/usr/bin/env", "sh", "-c", "echo the walls are down >&2; exit 3"]

    monkeypatch.setattr(anchor_module, "universe_arguments", arguments)
    with pytest.raises(TwinError, match="the walls are down") as caught:
        await EmbeddedBackend().create(spec_of(tmp_path, f"never-{os.getpid()}"), lambda _: None)
    assert caught.value.code == "start_failed"


@pytest.mark.parametrize("parent", [1, None])
def test_a_stage_without_its_starter_does_not_begin(tmp_path: Path, parent: int | None) -> None:
    """One whose starter has gone before it begins, or goes without a word of what to do, ends and does nothing."""
    script = Path(twin_module.__file__).with_name("stage.py")
    plan = tmp_path / "plan"
    plan.write_bytes(marshal.dumps({"control_groups": [], "map": None, "argv": ["/bin/echo"]}))
    told, telling = os.pipe()
    if parent is not None:
        os.write(telling, b"!")
    os.close(telling)
    with plan.open("rb") as file, open(told, "rb"):
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(script), *map(str, (told, file.fileno(), parent or os.getpid()))],
            pass_fds=[told, file.fileno()],
            capture_output=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (97, b"")
