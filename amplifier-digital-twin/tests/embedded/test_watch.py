"""What no folder shows counts too: files without a name, empty files, memory that no process shows as its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.embedded import disk_gauge, holdings, watch
from amplifier_digital_twin.embedded.disk_gauge import ENTRY, Patience
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.staged import Staged
from amplifier_digital_twin.embedded.tree import Tree
from amplifier_digital_twin.embedded.watch import RESERVE, Watch

MIB = 1024 * 1024
_FILL = "room = bytes(1 << 20)\n"
#: Each holds more than 300 MiB, by other means, and sleeps.
HOARDS = {
    "memfd": "file = os.memfd_create(chr(120))\nfor _ in range(300): os.write(file, room)\n",
    "a mapping that a dead child filled": (
        "shared = mmap.mmap(-1, 300 << 20)\n"
        "if os.fork() == 0:\n for n in range(300): shared[n << 20:n + 1 << 20] = room\n os._exit(0)\n"
        "os.wait()\n"
    ),
    "a memory segment of nobody": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\n"
        "segment = libc.shmget(0, 300 << 20, 0o600)\nplace = libc.shmat(segment, None, 0)\n"
        "ctypes.memset(ctypes.c_void_p(place), 1, 300 << 20)\nlibc.shmdt(ctypes.c_void_p(place))\n"
    ),
    "several processes": (
        "for _ in range(4):\n"
        " if os.fork() == 0:\n  own = bytearray(os.urandom(1 << 20) * 80); time.sleep(600); os._exit(0)\n"
    ),
}


@pytest.mark.parametrize("means", HOARDS)
def test_memory_of_all_together_is_limited(keeper: Any, means: str) -> None:
    """Whatever holds it, more memory than the universe may have ends what runs; afterwards it works again."""
    if keeper.order("probe")[2]["cgroups"] == "yes":
        pytest.skip("the kernel itself limits the memory of all together")
    keeper.order("create", limits={"memory": 200 * MIB, "disk": None})
    text = f"import mmap, os, time\n{_FILL}{HOARDS[means]}time.sleep(600)\n"
    done = keeper.order("run", shell=f"exec /usr/bin/python3 -c '{text}'", timeout=300)
    assert not done["is_timed_out"]
    assert done["code"] != 0
    assert [note for note in keeper.order("state")["notes"] if "memory limit" in note]
    keeper.order("reset")
    assert keeper.shell("echo works") == "works\n"


def test_memory_that_is_shared_counts_once(keeper: Any) -> None:
    """Processes that share what they came from are not ended for the sum of it."""
    keeper.order("create", limits={"memory": 200 * MIB, "disk": None})
    text = (
        "import os, time\nbig = bytes(100 << 20)\n"
        "for _ in range(4):\n if os.fork() == 0: time.sleep(4); os._exit(0)\n"
        'for _ in range(4): assert os.wait()[1] == 0\nprint("well")\n'
    )
    assert keeper.python(text) == "well\n"


def test_the_folder_of_devices_holds_no_files(kept: Any) -> None:
    """`/dev`, which lies in memory, takes no file from anybody; its devices and `/dev/shm` can be written to."""
    users = [["user", 1000]] + ([["root", 0]] if kept.has_root else [])
    for user in users:
        assert "Read-only" in kept.shell("echo x > /dev/file", **{"as": user})
        assert kept.shell("echo x > /dev/null; echo y > /dev/shm/file; cat /dev/shm/file", **{"as": user}) == "y\n"
        kept.shell("rm /dev/shm/file", **{"as": user})


NAMELESS = {
    "open": "files.append(file)\n",
    "mapped": ("os.ftruncate(file, 8 << 20)\nfiles.append(mmap.mmap(file, 8 << 20))\nos.close(file)\n"),
}


@pytest.mark.parametrize("how", NAMELESS)
def test_files_without_a_name_count_as_disk(keeper: Any, how: str) -> None:
    """What was unlinked but is still open, or mapped, takes its place on the disk and is measured."""
    keeper.order("create", limits={"disk": 20 * MIB})
    # Files of one page each would be too many; of what is mapped the length counts where only root may ask for more.
    text = (
        'import mmap, os, time\nos.chdir("/var/tmp")\nfiles = []\nfor n in range(5):\n'
        ' file = os.open(f"file{n}", os.O_RDWR | os.O_CREAT)\n os.unlink(f"file{n}")\n'
        " for _ in range(8): os.write(file, os.urandom(1 << 20))\n" + _indented(NAMELESS[how]) + "time.sleep(600)\n"
    )
    done = keeper.order("run", shell=f"exec /usr/bin/python3 -c '{text}'", timeout=300)
    assert not done["is_timed_out"]
    assert [note for note in keeper.order("state")["notes"] if "disk limit" in note]
    assert keeper.shell("echo works") == "works\n"


def _indented(text: str) -> str:
    return "".join(f" {line}\n" for line in text.splitlines())


def test_empty_files_count_as_disk(keeper: Any) -> None:
    """Files without content take names and inodes: a loop that makes them is ended."""
    keeper.order("create", limits={"disk": 4 * MIB})
    text = "mkdir ~/many; cd ~/many; seq 1 3000 | xargs touch; sleep 600"
    assert not keeper.order("run", shell=text, timeout=300)["is_timed_out"]
    assert [note for note in keeper.order("state")["notes"] if "disk limit" in note]


def test_every_entry_counts(tmp_path: Path) -> None:
    """An empty file, a link and a folder count as one block each; a second name of a file counts nothing."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.link(tmp_path / "file", tmp_path / "same")
    (tmp_path / "link").symlink_to("file")
    assert disk_gauge.measure(str(tmp_path)) == 3 * ENTRY


def test_a_look_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """A tree that is made to be slow to look at does not hide what it holds."""
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(TimeoutError):
        disk_gauge.measure(str(tmp_path), Patience(seconds=-1))
    with pytest.raises(TimeoutError):
        disk_gauge.measure(str(tmp_path), Patience(work=-1))


def test_pauses_are_short_however_long_looks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look of minutes the next one comes in seconds."""
    waited: list[float] = []

    def select(*words: Any) -> tuple[list[int], list[int], list[int]]:
        waited.append(words[3])
        return [], [], []

    monkeypatch.setattr("select.select", select)
    assert disk_gauge.rest(time.monotonic() - 600)
    assert disk_gauge.rest(time.monotonic())
    assert waited == [2.0, pytest.approx(1.0)]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Watch, list[str]]:
    """Return a watch over nobody, and what it tells."""
    words: list[str] = []
    tree = Tree(tmp_path, IdMap.of_this_user(), True, tmp_path, [])
    monkeypatch.setattr(watch, "inhabitants", lambda first: [])
    return Watch(tree, tree.ids, 0, disk=100, memory=50, tell=words.append), words


def test_the_host_keeps_a_reserve(told: tuple[Watch, list[str]]) -> None:
    """When the disk is nearly full, and the universe's share of it has gone since its start, the universe is ended."""
    see = told[0]._see_disk
    assert see(0, RESERVE * 2) is None
    assert "host's disk" in str(see(0, RESERVE - 1))


def test_a_disk_that_was_full_before_ends_nobody(told: tuple[Watch, list[str]]) -> None:
    """A universe that has written nothing is not ended for what others wrote before it."""
    see = told[0]._see_disk
    assert see(0, RESERVE - 1) is None
    assert see(0, RESERVE - 50) is None


def test_named_and_nameless_files_count_together(told: tuple[Watch, list[str]]) -> None:
    """Half of the limit in files, and more than half in files without a name, is beyond it."""
    one = told[0]
    assert one._see_disk(60, RESERVE * 2) is None
    assert one._see_holdings(0, 40) is None
    assert "disk limit" in str(one._see_holdings(0, 41))
    assert "memory limit" in str(one._see_holdings(51, 0))


async def test_a_watch_that_cannot_look_says_so(
    told: tuple[Watch, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A limit that nobody watches any more is told, never passed over."""
    (tmp_path / "script.py").write_text("import sys; sys.exit('no eyes')", encoding="utf-8")
    for name in ("_GAUGE", "_HOLDINGS"):
        monkeypatch.setattr(watch, name, tmp_path / "script.py")
    await told[0].keep()
    assert told[1] == ["limits are not watched any more: no eyes"] * 2

    def fail(*_: object, **__: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(Staged, "begun", fail)
    await told[0].keep()
    assert "too many open files" in told[1][-1]


async def test_a_watch_that_comes_late_takes_the_last_look(
    told: tuple[Watch, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lines that have gathered meanwhile are no fault: the last one counts."""
    (tmp_path / "script.py").write_text("print('1 2\\n3 4\\n5 1000', flush=True)", encoding="utf-8")
    for name in ("_GAUGE", "_HOLDINGS"):
        monkeypatch.setattr(watch, name, tmp_path / "script.py")
    await told[0].keep()
    assert [words for words in told[1] if "disk limit of 100 bytes was passed" in words]
    assert not [words for words in told[1] if "Error" in words]


def test_holdings_of_one_process_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a name is found by its descriptor, in memory and on disk, and by nothing else."""
    code = (
        "import os, tempfile, time\n"
        "memory = os.memfd_create('x'); os.write(memory, bytes(3 << 20))\n"
        "file = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(file, os.urandom(2 << 20)); os.fsync(file)\n"
        "print('there', flush=True); time.sleep(600)"
    )
    folder = Path(__file__).parent if os.access(Path(__file__).parent, os.W_OK) else Path.home()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=folder)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        monkeypatch.setattr(holdings, "inhabitants", lambda first: [first])
        monkeypatch.setattr(holdings, "_systems_in_memory", lambda first: [])
        held = holdings.measure(process.pid, 1)
        assert held.nameless == 2 * MIB
        assert held.memory > 3 * MIB
        assert holdings.measure(process.pid, 0).memory == 0
    finally:
        process.kill()
        process.communicate()
