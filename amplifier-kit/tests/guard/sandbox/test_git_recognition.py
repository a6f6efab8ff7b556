"""A command can do nothing that makes the next one take a folder of git for something else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.control_files import has_reftable
from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]
Inside = Callable[..., Any]


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder / ".git"


@pytest.fixture
def one_by_one(inside: Inside) -> Callable[..., None]:
    """Give `one_by_one(box, *commands)`: each has ended, with all that stood in for it, before the next begins."""

    def run(box: Sandbox, *commands: str) -> None:
        for command in commands:
            inside(command, box=box)
            box.close()

    return run


@pytest.fixture
def submodule(project: Path, tmp_path: Path) -> Path:
    """Return the folder of git of a submodule with a name of several parts."""
    _repository(tmp_path / "source")
    git = _repository(project)
    _git(project, "submodule", "--quiet", "add", "--name", "a/b/c", str(tmp_path / "source"), "sub")
    return git / "modules" / "a" / "b" / "c"


@pytest.mark.parametrize("moved", ["HEAD", "objects", "refs", "HEAD objects refs packed-refs index logs info"])
def test_a_submodule_in_pieces(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, submodule: Path, moved: str
) -> None:
    """Whatever of it a command moves away, the next one can write no hook and no config."""
    config, hooks = (submodule / "config").read_bytes(), sorted((submodule / "hooks").iterdir())
    one_by_one(
        make_box(),
        f"cd {submodule}; mkdir away; for each in {moved}; do mv $each away; done; true",
        f"cd {submodule}; echo evil >> config; echo evil > hooks/evil; echo evil > commondir; mv away/* .; true",
    )
    assert (submodule / "config").read_bytes() == config
    assert sorted((submodule / "hooks").iterdir()) == hooks
    assert not (submodule / "commondir").exists()


def test_a_submodule_that_is_not_there_yet(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, submodule: Path
) -> None:
    """No command can make the folder of one, beside others, where there are none, or where it is not looked for."""
    other = submodule / "modules" / "t"
    made = [project / ".git/modules/s/hooks", project / ".git/modules/a/b/s/hooks", other / "hooks"]
    one_by_one(make_box(), *(f"mkdir -p {path}" for path in made))
    assert not [path for path in made if path.exists()]
    assert not other.parent.exists()


def test_the_first_submodule(one_by_one: Callable[..., None], make_box: MakeBox, project: Path) -> None:
    """Where there is none, none can be made; the folder that stands in is gone afterwards."""
    git = _repository(project)
    one_by_one(make_box(), "mkdir -p .git/modules/s/hooks; rmdir .git/modules; mv .git/modules x; true")
    assert not (git / "modules").exists()


def test_a_submodule_with_a_very_deep_name(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, submodule: Path
) -> None:
    """Guarded like every other up to eight parts; beyond, all of it is read-only."""
    for name in ("k/l/m/n/o/p", "t/u/v/w/x/y/z/1/2/3/4/5"):
        deep = project / ".git" / "modules" / name
        deep.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(submodule), str(deep)], check=True)
        config = (deep / "config").read_bytes()
        one_by_one(make_box(), f"cd {deep} && echo evil >> config; echo evil > hooks/evil; true")
        assert (deep / "config").read_bytes() == config
        assert not (deep / "hooks" / "evil").exists()


def test_a_worktree_in_pieces(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, tmp_path: Path
) -> None:
    """The folder of a worktree is guarded whatever it holds, and submodules of it cannot be made."""
    folder = _repository(project) / "worktrees" / "tree"
    _git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    before = (folder / "commondir").read_bytes()
    one_by_one(
        make_box(),
        f"cd {folder}; mkdir away; mv HEAD index ORIG_HEAD gitdir logs away; true",
        f"cd {folder}; echo /evil > commondir; echo evil > config.worktree; mkdir -p modules/s; mv away/* .; true",
    )
    assert (folder / "commondir").read_bytes() == before
    assert not (folder / "config.worktree").exists()
    assert not (folder / "modules").exists()


@pytest.mark.parametrize("moved", ["HEAD", "objects", "refs", "HEAD objects refs"])
def test_a_bare_project_in_pieces(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, tmp_path: Path, moved: str
) -> None:
    """The same holds for a project that is a folder of git itself."""
    _repository(tmp_path / "source")
    _git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "source"), str(project))
    config = (project / "config").read_bytes()
    one_by_one(
        make_box(),
        f"mkdir away; for each in {moved}; do mv $each away; done; true",
        "echo evil > hooks/evil; mkdir hooks; echo evil > hooks/evil; echo evil >> config; mv away/* .; true",
    )
    assert (project / "config").read_bytes() == config
    assert not (project / "hooks" / "evil").exists()


@pytest.mark.parametrize("name", ["./.bare", "{project}/.bare"])
def test_a_file_that_names_the_folder_of_git(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, name: str
) -> None:
    """Where it lies in the project, it is guarded like `.git`."""
    _repository(project).rename(project / ".bare")
    (project / ".git").write_text(f"gitdir: {name.format(project=project)}\n", encoding="utf-8")
    config = (project / ".bare" / "config").read_bytes()
    one_by_one(make_box(), "echo evil >> .bare/config; echo evil > .bare/commondir; mv .bare x; mkdir -p .bare/hooks")
    assert (project / ".bare" / "config").read_bytes() == config
    assert not (project / ".bare" / "commondir").exists()


@pytest.mark.parametrize("where", [".git", ".git/modules/a/b/c"])
def test_a_made_up_reftable(inside: Inside, make_box: MakeBox, project: Path, submodule: Path, where: str) -> None:
    """A folder that is called like git's newer format of references takes away no guard."""
    box = make_box()
    inside(f"mkdir {where}/reftable", box=box)
    inside(f"echo evil > {where}/commondir; true", box=box)
    assert (project / where / "commondir").read_bytes() == b".\n"


def test_a_real_reftable(inside: Inside, make_box: MakeBox, project: Path, submodule: Path, tmp_path: Path) -> None:
    """A `commondir` that a command made is removed, in every folder of git, also when another command runs on."""
    gits = [project / ".git", submodule, _repository(tmp_path / "other")]
    for git in gits:
        assert not has_reftable(str(git))
        _git(git, "config", "extensions.refStorage", "reftable")
        assert has_reftable(str(git))
    first, second = (make_box(writable=[str(tmp_path / "other")]) for _ in range(2))
    for git in gits:
        inside(f"echo /evil > {git}/commondir", box=first)
        argv, environment = second.wrap(["/bin/sh", "-c", f"echo /evil > {git}/commondir"])
        first.close()
        subprocess.run(argv, env=environment, check=False, capture_output=True)
        second.close()
        assert not (git / "commondir").exists()


@pytest.mark.parametrize("name", ["remotes", "branches"])
@pytest.mark.parametrize("exists", [True, False])
def test_remotes_of_long_ago(
    one_by_one: Callable[..., None], make_box: MakeBox, project: Path, name: str, exists: bool
) -> None:
    """No command can say in the old way where `git push` goes."""
    folder = _repository(project) / name
    if exists:
        folder.mkdir(exist_ok=True)
    one_by_one(make_box(), f"cd .git; mv {name} x; mkdir -p {name}; echo evil > {name}/origin; true")
    assert not folder.is_dir() or not list(folder.iterdir())


def test_pipes_in_place_of_files(project: Path) -> None:
    """Nobody waits for somebody to write to a pipe that a command put where a file is looked at."""
    for name in ("objects", "refs"):
        (project / name).mkdir()
    for name in (".git", ".gitattributes", "config", "commondir"):
        os.mkfifo(project / name)
    code = (
        "import sys\nfrom amplifier_kit.guard.control_files import git_folders_of, guarded_in\n"
        "print(any(one.path.endswith('/config') for one in guarded_in(sys.argv[1])), git_folders_of(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(project)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(" ")[0]) == (0, "True"), done.stderr
