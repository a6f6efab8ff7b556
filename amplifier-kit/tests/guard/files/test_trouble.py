"""Killed processes and full disks leave every file whole, old or new, and nothing beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

#: Write the files of a folder again and again, all of them with the same letter; say so after each round.
WRITER = textwrap.dedent(
    """
    import sys, threading
    from contextlib import ExitStack
    from amplifier_kit.guard.files.changes import Change, apply_changes
    from amplifier_kit.guard.files.place import Roots, read_content, reach

    folder, size, names, rounds = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4])
    for number in range(rounds):
        letter = b"abcdefghij"[number % 10 : number % 10 + 1]
        with ExitStack() as stack:
            changes = []
            for name in names:
                place = stack.enter_context(reach(f"{folder}/{name}"))
                content = read_content(place, Roots())
                changes.append(Change(place, content.status, letter * size, content.data))
            apply_changes(changes, Roots.resolved([folder], [], folder), threading.Event())
        print(number, flush=True)
    """
)


def _start(folder: Path, size: int, names: str, rounds: int, limit: int | None = None) -> subprocess.Popen[str]:
    prefix = ""
    if limit is not None:
        prefix = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
    command = [sys.executable, "-c", prefix + WRITER, str(folder), str(size), names, str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.011, 0.02, 0.035])
def test_a_killed_writer_leaves_whole_files(project: Path, delay: float) -> None:
    """After SIGKILL in the middle of writing, each file has one whole content."""
    size = 2_000_000
    names = ["one", "two", "three"]
    for name in names:
        (project / name).write_bytes(b"z" * size)
    writer = _start(project, size, ",".join(names), 10_000)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline()
        time.sleep(delay)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
    for name in names:
        content = (project / name).read_bytes()
        assert content == content[:1] * size, f"{name} is half-written"
    assert all(left.startswith(".amplifier-") for left in set(os.listdir(project)) - set(names))


def test_a_file_size_limit_changes_nothing(project: Path) -> None:
    """A system that refuses so large a file refuses it before anything has changed, with a clear word."""
    for name in ("one", "two"):
        (project / name).write_bytes(b"z" * 10)
    writer = _start(project, 500_000, "one,two", 1, limit=100_000)
    _, errors = writer.communicate(timeout=60)
    assert writer.returncode == 1
    assert "FileError" in errors
    assert f"{project / 'one'} cannot be written: File too large" in errors
    assert {name: (project / name).read_bytes() for name in os.listdir(project)} == {
        "one": b"z" * 10,
        "two": b"z" * 10,
    }


#: Mount a small disk that only this process sees, fill it by writing two files, and say what is there afterwards.
ON_A_SMALL_DISK = """
import json, os, pathlib, subprocess, sys
folder = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=True)
for name in ("one", "two"):
    (folder / name).write_bytes(b"z" * 10)
done = subprocess.run([sys.executable, "-c", sys.argv[2], folder, "150000", "one,two", "1"], capture_output=True)
tree = {name: (folder / name).read_text() for name in os.listdir(folder)}
print(json.dumps({"returncode": done.returncode, "errors": done.stderr.decode(), "tree": tree}))
"""


def test_a_full_disk_changes_nothing(project: Path) -> None:
    """On a disk that is full in the middle of writing, all files stay, and no scrap is left."""
    apart = ["unshare", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*apart, "mount", "-t", "tmpfs", "none", project], capture_output=True).returncode
    ):
        pytest.skip("no disk can be mounted here")
    command = [*apart, sys.executable, "-c", ON_A_SMALL_DISK, str(project), WRITER]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=100).stdout)
    assert told["returncode"] == 1
    assert "No space left on device" in told["errors"]
    assert told["tree"] == {"one": "z" * 10, "two": "z" * 10}
    assert os.listdir(project) == []
