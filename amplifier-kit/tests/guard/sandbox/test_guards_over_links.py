"""A link above a guarded file opens nothing: not when the view is laid out, and not when it is put there afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.processes.output import Output
from amplifier_kit.guard.processes.running_command import CommandSpec, StartError, run
from amplifier_kit.guard.sandbox.mount_check import problem
from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]
Inside = Callable[..., Any]

#: What lies above a guarded file of git, and what the link there is called from the home folder.
_ABOVE = ("info", "objects", "objects/info", "modules/x/info", "modules/x/objects", "modules/x", "worktrees/w")


@pytest.fixture
def private(home: Path) -> Path:
    """Return a folder of the person's, beside the project."""
    made = home / "private"
    made.mkdir()
    (made / "key").write_text("secret", encoding="utf-8")
    return made


@pytest.fixture
def git(project: Path) -> Path:
    """Return the folder of git of a project that has a submodule and a worktree."""
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    made = project / ".git"
    shutil.copytree(made, made.with_name("copy"))
    (made / "modules").mkdir()
    made.with_name("copy").rename(made / "modules" / "x")
    (made / "worktrees" / "w").mkdir(parents=True)
    (made / "worktrees" / "w" / "HEAD").touch()
    return made


def _linked(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


@pytest.mark.parametrize("above", _ABOVE)
def test_a_link_above_what_is_guarded(
    inside: Inside, make_box: MakeBox, git: Path, private: Path, project: Path, above: str
) -> None:
    """It shows nothing, lets nothing be written, and nothing is made where it leads, inside or by us."""
    _linked(git / above, private)
    before = private.stat().st_mtime_ns
    box = make_box()
    done = inside(f"cat {private}/key; ls .git/{above}/; echo x > {private}/made; echo x > .git/{above}/made", box=box)
    box.close()
    assert "secret" not in done.stdout
    assert "key" not in done.stdout
    assert [path.name for path in private.iterdir()] == ["key"]
    assert private.stat().st_mtime_ns == before


def test_a_link_above_what_is_guarded_within_the_project(inside: Inside, git: Path, project: Path) -> None:
    """One that stays in the project is guarded where it leads to, in what is there and in what is not."""
    (project / "elsewhere").mkdir()
    _linked(git / "info", project / "elsewhere")
    inside("echo evil > .git/info/attributes; echo evil > elsewhere/attributes; mv elsewhere gone; true")
    assert (project / "elsewhere" / "attributes").read_bytes() == b""


def test_a_link_into_what_is_guarded(inside: Inside, git: Path) -> None:
    """One that leads into a guarded folder makes nothing in that folder writable."""
    (git / "hooks" / "below").mkdir(parents=True, exist_ok=True)
    _linked(git / "info", git / "hooks" / "below")
    inside("echo evil > .git/hooks/below/made; true")
    assert not (git / "hooks" / "below" / "made").exists()


@pytest.mark.parametrize("above", ["info", "objects", "objects/info"])
def test_a_link_that_is_put_there_later(make_box: MakeBox, git: Path, private: Path, above: str) -> None:
    """A folder that becomes a link after the view was laid out keeps the program from being run."""
    (git / above).mkdir(parents=True, exist_ok=True)
    argv, environment = make_box().wrap(["/bin/sh", "-c", f"echo ran; echo x > .git/{above}/made"])
    _linked(git / above, private)
    for name in ("attributes", "alternates", "info/alternates"):
        (private / name).parent.mkdir(exist_ok=True)
        (private / name).touch()
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""
    assert not (private / "made").exists()


async def test_a_link_that_is_put_there_before_a_command(
    make_box: MakeBox, git: Path, private: Path, project: Path
) -> None:
    """The same holds for commands that have a supervisor: the error has a stable code, and nothing was run."""
    (git / "info").mkdir(exist_ok=True)
    setup = make_box().prepare(str(project))
    _linked(git / "info", private)
    (private / "attributes").touch()
    order = CommandSpec(["/bin/sh", "-c", f"echo ran > {project}/ran"], str(project), setup.environment)
    try:
        with pytest.raises(StartError, match="the sandbox could not be set up: ") as caught:
            await run(setup.confine(order), Output(1000), timeout=60)
    finally:
        setup.release()
    assert caught.value.code == "sandbox_failed"
    assert not (project / "ran").exists()


def test_a_writable_folder_of_the_project_that_becomes_a_link(make_box: MakeBox, project: Path, private: Path) -> None:
    """What the settings open below the project is looked at in the same way."""
    (project / "sub").mkdir()
    argv, environment = make_box(writable=["sub"]).wrap(["/bin/sh", "-c", "echo x > sub/made"])
    _linked(project / "sub", private)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert not (private / "made").exists()


def test_what_a_program_gets(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the check a program has its arguments, signals and environment as without it."""
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    odd = "a b\n\\040ü"
    done = inside(["/bin/sh", "-c", 'printf %s "$1"; env | grep -c LC_CTYPE; grep SigIgn /proc/self/status', "sh", odd])
    outside = subprocess.run(["/bin/grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{odd}0\n{outside.stdout}"


def test_a_project_with_an_odd_name(inside: Inside, make_box: MakeBox, project: Path) -> None:
    """Names that the kernel's table of mounts has to escape are found in it."""
    odd = project / "a b\tc\\d\ne"
    odd.mkdir()
    subprocess.run(["git", "init", "-q", str(odd)], check=True)
    done = inside("echo evil >> .git/config; echo fine", box=make_box(odd))
    assert done.stdout == "fine\n"
    assert "evil" not in (odd / ".git" / "config").read_text(encoding="utf-8")


#: As the kernel shows it: the project, its folder of git, and a folder that was to be the one in it.
_TABLE = (
    b"1 0 0:1 / / rw - tmpfs tmpfs rw\n"
    b"2 1 8:1 /home/a\\040b /p\\040q rw - ext4 /dev/x rw\n"
    b"3 2 8:1 /home/a\\040b/.git /p\\040q/.git rw - ext4 /dev/x rw\n"
    b"4 3 %b /p\\040q/.git/info rw - ext4 /dev/x rw\n"
    b"5 3 0:9 / /p\\040q/.git/hooks ro - tmpfs tmpfs ro\n"
)


@pytest.mark.parametrize(
    ("found", "is_right"),
    [
        (b"8:1 /home/a\\040b/.git/info", True),
        (b"8:1 /home/a\\040b/.git/info//deleted", True),
        (b"8:1 /home/private", False),
        (b"8:1 /home/a\\040b/.git/info2", False),
        (b"8:2 /home/a\\040b/.git/info", False),
    ],
)
def test_what_the_check_finds(found: bytes, is_right: bool) -> None:
    """A folder counts as mounted on itself when it is that of the mount around it, on the same device."""
    wanted = [b"^/p q", b"=/p q/.git", b"=/p q/.git/info", b"+/p q/.git/hooks"]
    assert problem(wanted, _TABLE % found) == (b"" if is_right else b"/p q/.git/info")
    missing = b"+/p q/.git/modules"
    assert problem([*wanted, missing], _TABLE % b"8:1 /home/a\\040b/.git/info") == missing[1:]


def test_libraries_of_the_project(make_box: MakeBox, project: Path) -> None:
    """A variable that loads libraries is for the command alone: none becomes part of the program that looks."""
    given = {"PATH": "/usr/bin:/bin", "HOME": "/", "LD_LIBRARY_PATH": str(project / "lib")}
    argv, environment = make_box().wrap(["/bin/sh", "-c", "echo $LD_LIBRARY_PATH"], environment=given)
    assert "LD_LIBRARY_PATH" not in {*environment, *argv}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"{project}/lib\n"
