"""A keeper that is killed at any point of a launch leaves what `prune --mine` removes, and nothing else is touched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROFILE = """
network: {mode: gateway}
repositories: [{path: tree, url: "https://git.example/owner/tiny"}]
packages: [{name: tiny, wheel_from_git: {repo: tiny, build: "sleep 0.2; python3 make.py # MOMENT"}}]
mocks: [{name: m, run: python3 ~/echo.py 3000 m, port: 3000, domains: [api.example.com]}]
provision:
  files: [{src: echo.py, dest: ~/echo.py}]
  commands: ["echo MOMENT; curl -sS https://api.example.com/; setsid sleep 987656 > /dev/null 2>&1 & sleep 0.2"]
readiness: [{name: web, tcp: 3000}]
"""
#: Makes a wheel with nothing in it.
MAKE = """
import pathlib, zipfile
pathlib.Path("dist").mkdir()
with zipfile.ZipFile("dist/tiny-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
    wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("tiny-1.0.dist-info/RECORD", "")
"""


def prepare(program: Any) -> None:
    """Make the working tree that the profile serves and builds."""
    tree = program.folder / "tree"
    tree.mkdir()
    (tree / "make.py").write_text(MAKE, encoding="utf-8")
    for arguments in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@x", "commit", "-qm1"]):
        subprocess.run(["git", *arguments], cwd=tree, check=True, env={"PATH": os.environ["PATH"], "HOME": str(tree)})
    subprocess.run(["chown", "-R", str(program.uid), str(tree)], check=True)


def profile_of(program: Any, moment: float) -> str:
    """Return a profile whose launch has every part: a mirror, a build, mocks, files, commands, a layer, all anew."""
    return str(program.profile(PROFILE.replace("MOMENT", f"at {moment}")))


def groups() -> set[str]:
    """Return every control group of universes on this machine."""
    return {str(path) for path in Path("/sys/fs/cgroup").glob("**/amplifier*")}


def keeper_of(process: Any) -> list[int]:
    """Return the keepers that a program has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(pid) for pid in children.read_text(encoding="ascii").split()]
    except OSError:
        return []


def time_of_launch(program: Any) -> float:
    """Launch a universe, destroy it, and return the seconds that the launch took."""
    begin = time.monotonic()
    whole = program.launch(profile_of(program, 0))
    span = time.monotonic() - begin
    assert program.run("destroy", whole["id"]).code == 0
    return span


def crash_all_along(program: Any, moments: list[float], check: Callable[[], None]) -> int:
    """Kill program and keeper after each of these shares of a whole launch; return how many launches it ended."""
    prepare(program)
    living = program.names()
    span = min(time_of_launch(program) for _ in range(2))  # the machine may have stood still in one of them
    cut_short = 0
    for moment in moments:
        process = program.start("launch", profile_of(program, moment))
        try:
            process.wait(span * moment)
        except subprocess.TimeoutExpired:
            cut_short += 1
            keepers = keeper_of(process)
            process.kill()
            for pid in keepers:
                with contextlib.suppress(ProcessLookupError):  # it may have ended with its program
                    os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        for name in program.names():
            if name not in living:
                _kill_holder(program, name)
        check()
    return cut_short


def is_watched(folder: Path) -> bool:
    """Tell whether the disk of a universe below a folder is being looked at."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes()
        except OSError:
            continue  # it has ended
        if b"disk_gauge.py" in words and os.fsencode(folder) in words:
            return True
    return False


def _kill_holder(program: Any, name: str) -> None:
    try:
        os.kill(program.state(name)["holder"]["pid"], signal.SIGKILL)
    except (OSError, ValueError, KeyError):
        pass  # it was killed before


@pytest.mark.parametrize("part", range(2))
def test_crash_at_any_point_of_launch_leaves_nothing_after_prune(
    own_program: Any, wait_until: Callable[..., None], leftovers: Callable[[Path], list[str]], part: int
) -> None:
    """No process, no mount, no control group and no folder of it is left, and a universe that lives is as it was."""
    strangers = groups()  # of runs that were killed before this one, perhaps
    living = own_program.launch(own_program.profile("limits: {pids: 100}", "living.yaml"))["id"]
    own_program.shell(living, "echo mine > ~/mark")
    wait_until(lambda: is_watched(own_program.folder))  # it begins a little after the launch
    before = sorted(leftovers(own_program.folder))

    def check() -> None:
        wait_until(lambda: own_program.run("prune", "--mine").code == 0 and own_program.names() == [living])
        wait_until(lambda: sorted(leftovers(own_program.folder)) == before)
        assert {path for path in groups() - strangers if "dtu-" in path and _is_dead(path, living)} == set()
        assert own_program.shell(living, "cat ~/mark") == "mine\n"

    moments = [(number + 0.5) / 13 for number in range(part, 13, 2)]
    assert crash_all_along(own_program, moments, check) >= len(moments) // 2


def _is_dead(group: str, living: str) -> bool:
    # Other tests run on this machine: theirs have processes in them, or will be gone soon.
    if living in group:
        return False
    try:
        return not Path(group, "cgroup.procs").read_text(encoding="ascii").strip() and not _soon_gone(group)
    except OSError:
        return False


def _soon_gone(group: str) -> bool:
    end = time.monotonic() + 20
    while Path(group).exists() and time.monotonic() < end:
        if Path(group, "cgroup.procs").read_text(encoding="ascii").strip():
            return True
        time.sleep(0.1)
    return not Path(group).exists()


def test_crash_of_another_users_launch(
    two_programs: list[Any], wait_until: Callable[..., None], leftovers: Any
) -> None:
    """Without being root the same holds, and root's universe is not touched."""
    root, other = two_programs
    living = root.launch(root.profile(""))["id"]

    def check() -> None:
        wait_until(lambda: other.run("prune", "--mine").code == 0 and other.names() == [])
        wait_until(lambda: leftovers(other.folder) == [])
        assert root.shell(living, "id -un") == "user\n"

    assert crash_all_along(other, [0.35, 0.6, 0.85], check) >= 1
