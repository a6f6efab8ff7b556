"""Repositories of every shape can be exported, and what cannot be is refused with a reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.git_export import export
from amplifier_digital_twin.services.git_source import GitSource

Git = Callable[..., str]


def test_linked_working_tree(tmp_path: Path, repository: Path, git: Git) -> None:
    """A second working tree of a repository, whose `.git` is a file, is exported with its own branch and changes."""
    second = tmp_path / "second"
    git(repository, "worktree", "add", "-q", "-b", "side", str(second), "other")
    (second / "new").write_text("x", encoding="utf-8")
    found = export(second, "worktree", tmp_path / "out.git")
    listed = git(tmp_path / "out.git", "ls-tree", "-r", "--name-only", "refs/heads/side").split()
    assert listed == ["a.txt", "deep/b.txt", "new"]
    assert found.commits["HEAD"] == found.commits["refs/heads/side"] == found.commits["refs/heads/main"]
    assert git(tmp_path / "out.git", "symbolic-ref", "HEAD") == "refs/heads/side"


def test_detached_head(tmp_path: Path, repository: Path, git: Git) -> None:
    """Without a branch checked out, HEAD and `main` are the working tree."""
    git(repository, "checkout", "-q", "--detach", "other")
    found = export(repository, "worktree", tmp_path / "out.git")
    assert found.commits["HEAD"] == found.commits["refs/heads/main"] == git(repository, "rev-parse", "other")


def test_repository_without_commits(tmp_path: Path, git: Git) -> None:
    """A repository in which nothing was committed yet is served with one commit."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "f").write_text("x", encoding="utf-8")
    found = export(folder, "worktree", tmp_path / "out.git")
    assert git(tmp_path / "out.git", "rev-list", "--count", "trunk") == "1"
    assert found.commits["refs/heads/main"] == found.commits["refs/heads/trunk"]


@pytest.mark.parametrize("ref", ["other", "v1", "refs/heads/other", "commit", "short"])
def test_single_ref(tmp_path: Path, repository: Path, git: Git, ref: str) -> None:
    """Any other ref is served alone, whatever the working tree holds; HEAD and `main` mean it."""
    (repository / "a.txt").write_text("uncommitted", encoding="utf-8")
    commit = git(repository, "rev-parse", "other")
    named = {"commit": commit, "short": commit[:10]}.get(ref, ref)
    found = export(repository, named, tmp_path / "out.git")
    assert set(found.commits.values()) == {commit}
    served = set(git(tmp_path / "out.git", "for-each-ref", "--format=%(refname)").split())
    own = {"v1": {"refs/tags/v1"}, "commit": set(), "short": set()}.get(ref, {"refs/heads/other"})
    assert served == {"refs/heads/main"} | own


def test_unknown_ref_names_near_ones(tmp_path: Path, repository: Path) -> None:
    """A ref that is not there is an error that names those that are."""
    with pytest.raises(TwinError) as caught:
        export(repository, "othr", tmp_path / "out.git")
    assert caught.value.code == "ref_unknown"
    assert "other" in caught.value.remedy


@pytest.mark.parametrize("ref", ["--upload-pack=x", "-h", "a..b", "main~1", "$(x)", ""])
def test_odd_ref_is_unknown(tmp_path: Path, repository: Path, ref: str) -> None:
    """What is no plain name of a ref never reaches git as an option or an expression."""
    with pytest.raises(TwinError) as caught:
        export(repository, ref, tmp_path / "out.git")
    assert caught.value.code == "ref_unknown"


def test_folder_inside_a_repository_is_refused(repository: Path) -> None:
    """A folder of a working tree is not its root: nothing more than what was named is ever served."""
    with pytest.raises(TwinError) as caught:
        GitSource.at(repository / "deep")
    assert caught.value.code == "repository_invalid"
    assert str(repository) in caught.value.message


def test_no_repository_is_refused(tmp_path: Path) -> None:
    """A folder without a repository, and no folder at all, are errors with a remedy."""
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TwinError) as caught:
            GitSource.at(path)
        assert caught.value.code == "repository_invalid"


@pytest.mark.parametrize("way", ["file", "link", "commondir", "worktree"])
def test_another_repository_is_not_served(tmp_path: Path, repository: Path, git: Git, way: str) -> None:
    """A folder that leads git to a repository elsewhere is refused: only what the profile names is served."""
    folder = tmp_path / "leading"
    folder.mkdir()
    if way == "file":
        (folder / ".git").write_text(f"gitdir: {repository}/.git\n", encoding="utf-8")
    elif way == "link":
        (folder / ".git").symlink_to(repository / ".git")
    else:
        git(folder, "init", "-q")
        other = repository / ".git" if way == "commondir" else repository
        if way == "commondir":
            (folder / ".git" / "commondir").write_text(f"{other}\n", encoding="utf-8")
        else:
            git(folder, "config", "core.worktree", str(other))
    with pytest.raises(TwinError) as caught:
        export(folder, "worktree", tmp_path / "out.git")
    assert caught.value.code == "repository_invalid"
    assert "elsewhere" in caught.value.message or str(repository) in caught.value.message


def test_a_git_in_the_working_tree_is_not_run(
    tmp_path: Path, repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program called git in the tree that is served, as in an activated environment, does not stand for git."""
    program = repository / ".venv" / "bin" / "git"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    export(repository, "worktree", tmp_path / "out.git")
    assert not (tmp_path / "ran").exists()


def test_included_settings_do_not_count(tmp_path: Path, repository: Path, git: Git) -> None:
    """What the repository's config includes, and the config of its worktree, is not even read."""
    git(repository, "config", "include.path", "../included")
    (repository / "included").write_text("this is no config", encoding="utf-8")
    found = export(repository, "main", tmp_path / "out.git")
    assert len(found.commits["HEAD"]) == 40


def test_bare_repository_needs_a_ref(tmp_path: Path, repository: Path, git: Git) -> None:
    """A bare repository has no working tree to serve, but its branches can be."""
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    with pytest.raises(TwinError):
        export(tmp_path / "bare.git", "worktree", tmp_path / "one.git")
    found = export(tmp_path / "bare.git", "main", tmp_path / "two.git")
    assert found.commits["HEAD"] == git(repository, "rev-parse", "main")


def test_shallow_repository(tmp_path: Path, repository: Path, git: Git) -> None:
    """A repository that has only part of its history serves that part."""
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    export(tmp_path / "shallow", "worktree", tmp_path / "out.git")
    git(tmp_path, "clone", "-q", "--no-local", "out.git", "copy")
    assert git(tmp_path / "copy", "rev-list", "--count", "HEAD") == "1"


def test_sha256_repository(tmp_path: Path, git: Git) -> None:
    """A repository with longer object names is served with them."""
    folder = tmp_path / "long"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256")
    (folder / "f").write_text("x", encoding="utf-8")
    found = export(folder, "worktree", tmp_path / "out.git")
    assert len(found.commits["HEAD"]) == 64
    git(tmp_path, "clone", "-q", "--no-local", "out.git", "copy")
    assert (tmp_path / "copy" / "f").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("name", ['odd "name"', "with:colon", "#hash", "näme"])
def test_odd_places(tmp_path: Path, repository: Path, git: Git, name: str) -> None:
    """A repository in a folder with an odd name is borrowed from correctly."""
    repository.rename(tmp_path / name)
    export(tmp_path / name, "worktree", tmp_path / "out.git")
    assert git(tmp_path / "out.git", "cat-file", "blob", "HEAD:a.txt") == "two"


def test_variables_of_a_calling_git_do_not_count(
    tmp_path: Path, repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started by a hook, with git's own variables set, the named repository is exported and not the hook's."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    found = export(repository, "worktree", tmp_path / "out.git")
    monkeypatch.undo()
    assert found.commits["HEAD"] == git(repository, "rev-parse", "HEAD")


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Make a folder that every user may look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_repository_of_another_owner(open_place: Path, repository: Path) -> None:
    """A repository that somebody else owns, and that may only be read, is exported: none of its settings is run."""
    source = Path(shutil.copytree(repository, open_place / "source"))
    subprocess.run(["chown", "-R", "1234:1234", str(source)], check=True)
    subprocess.run(["chmod", "-R", "a+rX", str(source)], check=True)
    found = export(source, "worktree", open_place / "root.git")
    own = open_place / "own"
    own.mkdir()
    os.chown(own, 1235, 1235)
    script = (
        "import sys; from pathlib import Path; from amplifier_digital_twin.services.git_export import export; "
        "print(export(Path(sys.argv[1]), 'worktree', Path(sys.argv[2])).commits['HEAD'])"
    )
    packages = ":".join(path for path in sys.path if path)
    user = ("setpriv", "--reuid=1235", "--regid=1235", "--clear-groups")
    done = subprocess.run(
        [*user, "/usr/bin/python3", "-c", script, str(source), str(own / "out.git")],
        env={"PATH": os.environ["PATH"], "HOME": str(own), "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    if "No module named" in done.stderr:
        pytest.skip("another user cannot read this installation: " + done.stderr.strip().splitlines()[-1])
    assert done.stdout.strip() == found.commits["HEAD"], done.stderr
