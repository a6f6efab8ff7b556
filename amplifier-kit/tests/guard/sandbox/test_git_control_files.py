"""What decides what git runs stays as it is while commands work in a repository, and git works all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.sandbox import Sandbox, sandbox_of

MakeBox = Callable[..., Sandbox]
Inside = Callable[..., Any]

_NAMES = ("config", "config.worktree", "commondir", "hooks", "info/attributes", "objects/info/alternates")
_WHO = "-c user.name=A -c user.email=a@example.com"
#: Every way to write a file, bring it into being, replace it, or move what it lies in.
_ATTACK = (
    "for f in {names}; do echo evil > $f; echo evil >> $f; echo evil > $f/evil; rm -rf $f; mv $f away; "
    "echo evil > other; mv -f other $f; ln -sf /tmp/evil $f; ln -f HEAD $f; mkdir -p $f; cp HEAD $f; "
    "d=$(dirname $f); mv $d gone && mkdir -p $d && echo evil > $f; done 2>/dev/null; true"
)


def _git(folder: Path, *words: str) -> str:
    command = ["git", *_WHO.split(), "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n", encoding="utf-8")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "one")
    return folder


def _state(git: Path, names: tuple[str, ...] = _NAMES) -> dict[str, object]:
    """Return what git would find at each place: the content of a file, the names in a folder, None for nothing."""
    found: dict[str, object] = {}
    for name in names:
        path = git / name
        assert not path.is_symlink()
        found[name] = path.read_bytes() if path.is_file() else sorted(os.listdir(path)) if path.is_dir() else None
    return found


@pytest.mark.parametrize("has_all", [True, False], ids=["all exist", "none exists"])
def test_control_files_of_git(inside: Inside, make_box: MakeBox, project: Path, has_all: bool) -> None:
    """None can be written, replaced, moved or brought into being, and what stood in for one is gone afterwards."""
    git = _repository(project) / ".git"
    for name in ("config.worktree", "info/attributes", "objects/info/alternates") if has_all else ():
        (git / name).parent.mkdir(exist_ok=True)
        (git / name).write_bytes(b"# as it was\n" if name != "objects/info/alternates" else b"")
    before, config = _state(git), (git / "config").read_bytes()
    box = make_box()
    inside(f"cd .git; {_ATTACK.format(names=' '.join(_NAMES))}", box=box)
    assert (git / "config").read_bytes() == config
    assert _git(project, "rev-parse", "--git-common-dir") in (".git", str(git))
    box.close()
    assert _state(git) == before
    assert _git(project, "status", "--short") == ""


def test_the_folder_of_git_itself(inside: Inside, project: Path) -> None:
    """It cannot be moved out of the way, nor replaced by a file or a link to another repository."""
    _repository(project)
    inside("mv .git gone; rm -rf .git; mkdir evil; ln -sfn evil .git; echo 'gitdir: evil' > .git")
    assert (project / ".git").is_dir()
    assert not (project / ".git").is_symlink()
    assert (project / ".git" / "config").is_file()


def test_no_commondir_is_in_effect_while_a_command_runs(inside: Inside, project: Path) -> None:
    """Also during the command, git takes its config from the repository: another process may look at it then."""
    _repository(project)
    done = inside(
        "mkdir -p evil/refs evil/objects && git config -f evil/config core.fsmonitor 'touch ran' && "
        "echo ../evil > .git/commondir; git rev-parse --git-common-dir; git status --short -uno; ls ran"
    )
    assert str(project / "evil") not in done.stdout
    assert not (project / "ran").exists()


def test_submodules_and_worktrees(inside: Inside, make_box: MakeBox, project: Path, tmp_path: Path) -> None:
    """The same holds for the folders of submodules and worktrees of a repository."""
    source = _repository(tmp_path / "source")
    git = _repository(project) / ".git"
    _git(project, "submodule", "--quiet", "add", str(source), "deep/er")
    _git(project, "worktree", "add", "-q", str(project / "tree"))
    folders = [git / "modules" / "deep" / "er", git / "worktrees" / "tree"]
    names = [_NAMES, ("config.worktree", "commondir")]
    before = [_state(folder, each) for folder, each in zip(folders, names, strict=True)]
    box = make_box()
    for folder, each in zip(folders, names, strict=True):
        inside(f"cd '{folder}'; {_ATTACK.format(names=' '.join(each))}", box=box)
    box.close()
    assert [_state(folder, each) for folder, each in zip(folders, names, strict=True)] == before
    assert _git(project / "tree", "rev-parse", "--git-common-dir") == str(git)
    assert _git(project / "deep" / "er", "status", "--short") == ""


@pytest.mark.parametrize("kind", ["repository", "submodules", "worktree", "bare"])
def test_everyday_work(inside: Inside, make_box: MakeBox, project: Path, tmp_path: Path, kind: str) -> None:
    """Add, commit, switch, stash, merge, rebase, fetch, worktrees and gc work with everything guarded."""
    folder, box, more = project, make_box(), ""
    _repository(project)
    if kind == "submodules":
        _git(project, "submodule", "--quiet", "add", str(_repository(tmp_path / "source")), "sub")
        _git(project, "commit", "-qm", "sub")
        more = f"(cd sub && echo z > z && git add z && git {_WHO} commit -qm z && git switch -qc side && git gc -q) && "
        more += f"git add sub && git {_WHO} commit -qm moved && git submodule status && "
    if kind == "worktree":
        folder = tmp_path / "tree"
        _git(project, "worktree", "add", "-q", str(folder))
        box = make_box(folder, writable=[str(project / ".git")])
    if kind == "bare":
        bare = tmp_path / "bare.git"
        _git(tmp_path, "clone", "-q", "--bare", str(project), str(bare))
        done = inside("git log --oneline && git gc -q && git branch other && git tag v1", box=make_box(bare))
        assert (done.returncode, done.stderr) == (0, "")
        return
    done = inside(
        f"set -e; export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; {more} "
        "echo x > new; git add new; git commit -qm two; git switch -qc other; echo y > new; git stash -q; "
        "git stash pop -q; git commit -qam three; git switch -q -; echo u > third; git add third; git commit -qm four; "
        "git merge -q other -m merged; git switch -qc rebased HEAD~1; git rebase -q other; "
        "git fetch -q . other:fetched; git worktree add -q inner; git -C inner commit -q --allow-empty -m inner; "
        "git worktree list; git worktree remove inner; git branch -qD fetched; git tag v1; git gc -q; "
        "git fsck; git reflog expire --all; git mv third moved; git reset -q --hard; "
        "git cherry-pick HEAD~1 --no-commit || git cherry-pick --abort; "
        "git bisect start; git bisect reset; git status --short; git log --oneline",
        box=box,
    )
    assert done.returncode == 0, done.stderr
    box.close()
    assert not (project / ".git" / "commondir").exists()
    _git(folder, "status")
    assert _git(folder, "fsck", "--no-dangling") == ""


def test_what_a_killed_program_left(make_box: MakeBox, project: Path) -> None:
    """Stand-ins of a program that was killed harm nothing, and the next command that ends clears them away."""
    git = _repository(project) / ".git"
    before = sorted(path for path in git.rglob("*") if "objects" not in path.parts)
    code = (
        "import os, signal, sys\nfrom amplifier_kit.guard.sandbox.config import SandboxConfig\n"
        "from amplifier_kit.guard.sandbox.sandbox import Sandbox\n"
        "Sandbox(SandboxConfig(), sys.argv[1]).wrap(['true'])\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(project)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (git / "commondir").read_bytes() == b".\n"
    _git(project, "commit", "-q", "--allow-empty", "-m", "two")
    box = make_box()
    box.wrap(["true"])
    box.close()
    names = {path.name for path in git.rglob("*")}
    assert not names & {"commondir", "config.worktree", "attributes", "alternates"}
    assert {path for path in before if path.exists()} == set(before)


def test_what_is_empty_and_the_users(make_box: MakeBox, project: Path) -> None:
    """A file of the user's that looks like a stand-in stays."""
    git = _repository(project) / ".git"
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").touch()
    box = make_box()
    box.wrap(["true"])
    box.close()
    assert (git / "info" / "attributes").exists()


def test_what_has_the_time_of_a_stand_in(inside: Inside, make_box: MakeBox, project: Path) -> None:
    """A file of the user's stays and is guarded, although an archive gave it the time by which stand-ins are known."""
    git = _repository(project) / ".git"
    (project / "bundle.md").write_text("mine", encoding="utf-8")
    config = (git / "config").read_bytes()
    for path in (git / "config", project / "bundle.md"):
        os.utime(path, ns=(1_000_000_007, 1_000_000_007))
    box = make_box()
    inside("echo evil > bundle.md; echo evil > .git/config; mv bundle.md x; true", box=box)
    box.close()
    assert (git / "config").read_bytes() == config
    assert (project / "bundle.md").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("*.bin filter=lfs diff=lfs merge=lfs -text\n", True),
        ("*.py  diff=python text\n*.lock merge=union\n", False),
        ("*.x diff=mine\n", True),
        ("* text=auto\n", False),
    ],
)
def test_attributes(inside: Inside, project: Path, text: str, is_kept: bool) -> None:
    """A `.gitattributes` that names a program's driver cannot be changed; others are written as every file."""
    (project / ".gitattributes").write_text(text, encoding="utf-8")
    inside("echo '* filter=evil' > .gitattributes; mv .gitattributes x; true")
    assert (
        (project / ".gitattributes").exists() and (project / ".gitattributes").read_text("utf-8") == text
    ) is is_kept


def test_what_the_session_was_made_of(inside: Inside, project: Path) -> None:
    """Files and folders that the app names by `session.control_files` cannot be changed, replaced or moved."""
    (project / "modules" / "tool-x").mkdir(parents=True)
    for name in ("modules/tool-x/code.py", "agents.md"):
        (project / name).write_text("as it was", encoding="utf-8")
    named = [project / "modules" / "tool-x", project / "agents.md", "/elsewhere/file", project / "missing"]
    session = {"session.working_dir": str(project), "session.control_files": tuple(map(str, named))}
    box = sandbox_of(SimpleNamespace(config={}, get_capability=session.get))
    inside(
        "echo evil > modules/tool-x/code.py; echo evil > modules/tool-x/new.py; mkdir modules/tool-x/__pycache__; "
        "mv modules/tool-x x; mv modules y; rm -rf modules; echo evil > agents.md; mv agents.md z; echo fine > other",
        box=box,
    )
    box.close()
    assert [path.name for path in (project / "modules").rglob("*")] == ["tool-x", "code.py"]
    assert {(project / name).read_text("utf-8") for name in ("modules/tool-x/code.py", "agents.md")} == {"as it was"}
    assert (project / "other").exists()


def test_a_linked_folder_of_git(inside: Inside, project: Path) -> None:
    """Where `.git` is a link into the project, what it leads to is guarded."""
    _repository(project)
    (project / ".git").rename(project / "real")
    (project / ".git").symlink_to("real")
    config = (project / "real" / "config").read_bytes()
    inside("echo evil > .git/config; echo evil > real/config; echo evil > real/commondir; mv real gone; true")
    assert (project / "real" / "config").read_bytes() == config
    assert (project / "real" / "commondir").read_bytes() == b".\n"


def test_a_project_that_was_made_to_look_like_a_folder_of_git(inside: Inside, make_box: MakeBox, project: Path) -> None:
    """A command that makes the project look like a bare repository loses the next one no guard."""
    git = _repository(project) / ".git"
    config = (git / "config").read_bytes()
    box = make_box()
    inside("mkdir objects; echo 'ref: refs/heads/main' > HEAD", box=box)
    inside("echo evil > .git/config; mkdir .amplifier; echo evil > .amplifier/settings.yaml; true", box=box)
    box.close()
    assert (git / "config").read_bytes() == config
    assert not (project / ".amplifier").exists()
