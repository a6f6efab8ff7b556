"""A working tree is exported as it is, and the repository it belongs to is not touched."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Repository
from amplifier_digital_twin.services.git import export as export_repository

Git = Callable[..., str]


class Exported(NamedTuple):
    """What was exported, and what was left out."""

    commits: Mapping[str, str]
    notes: list[str]


def export(path: Path, ref: str, folder: Path) -> Exported:
    """Export a repository."""
    notes: list[str] = []
    config = Repository.model_construct(url="https://github.com/example/own", path=path, ref=ref)
    return Exported(export_repository(config, folder, notes).commits, notes)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return everything there is to know of a folder: contents, permissions, times (but those of objects)."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        facts = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
        # git marks objects that it uses again as fresh, so that a `git gc` elsewhere does not remove them.
        times = (0, 0) if "objects" in path.parts else (facts.st_mtime_ns, facts.st_ctime_ns)
        found[str(path)] = (facts.st_mode, facts.st_size, *times, facts.st_nlink, content)
    return found


@pytest.fixture
def cloned(tmp_path: Path, git: Git) -> Callable[..., Path]:
    """Export a repository and return a checkout of what came of it."""

    def make(source: Path, ref: str = "worktree", name: str = "out") -> Path:
        export(source, ref, tmp_path / f"{name}.git")
        git(tmp_path, "-c", "core.autocrlf=false", "clone", "-q", "--no-local", f"{name}.git", name)
        git(tmp_path / name, "fsck", "--strict")
        return tmp_path / name

    return make


def names(folder: Path) -> set[str]:
    """Return the files of a checkout."""
    files = (path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    return {str(path.relative_to(folder)) for path in files if ".git" not in path.relative_to(folder).parts}


def test_clean_tree_is_its_commit(tmp_path: Path, repository: Path, git: Git) -> None:
    """A working tree without changes is served as the commit that is checked out."""
    found = export(repository, "worktree", tmp_path / "out.git")
    head = git(repository, "rev-parse", "HEAD")
    assert found.commits["HEAD"] == found.commits["refs/heads/main"] == head
    assert found.commits["refs/heads/other"] == git(repository, "rev-parse", "other")
    assert found.commits["refs/tags/v1"] == git(repository, "rev-parse", "v1^{commit}")
    assert found.notes == []


def test_source_is_untouched(tmp_path: Path, repository: Path, git: Git) -> None:
    """Exporting changes nothing of the repository: not a byte, not the index."""
    (repository / "a.txt").write_text("changed\n", encoding="utf-8")
    (repository / "new").write_text("new\n", encoding="utf-8")
    # Content that the repository already has, as a loose object and in a pack.
    (repository / "again").write_text("one\n", encoding="utf-8")
    git(repository, "gc", "-q")
    (repository / "staged").write_text("staged\n", encoding="utf-8")
    git(repository, "add", "staged")
    os.utime(repository / "deep" / "b.txt", (1, 1))  # a stale entry, which `git status` would refresh
    before = snapshot(repository)
    export(repository, "worktree", tmp_path / "out.git")
    export(repository, "other", tmp_path / "other.git")
    assert snapshot(repository) == before


def test_tree_is_taken_as_it_is(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """Changed, staged, untracked, deleted, renamed, executable and linked files count; ignored ones do not."""
    (repository / ".gitignore").write_text("*.log\nbuild/\n", encoding="utf-8")
    (repository / "x.log").write_text("ignored", encoding="utf-8")
    (repository / "build").mkdir()
    (repository / "build" / "y").write_text("ignored", encoding="utf-8")
    (repository / ".git" / "info" / "exclude").write_text("private\n", encoding="utf-8")
    (repository / "private").write_text("ignored", encoding="utf-8")
    (repository / "a.txt").write_text("uncommitted\n", encoding="utf-8")
    git(repository, "mv", "deep/b.txt", "deep/renamed.txt")
    (repository / "run").write_text("#!/bin/sh\n", encoding="utf-8")
    (repository / "run").chmod(0o755)
    (repository / "link").symlink_to("a.txt")
    (repository / "dangling").symlink_to("/nowhere/at all")
    (repository / "deep" / "späce name.txt").write_text("odd", encoding="utf-8")
    (repository / 'new\nline "quoted"').write_text("odder", encoding="utf-8")
    (repository / '"leading').write_text("quote", encoding="utf-8")
    out = cloned(repository)
    assert names(out) == {
        *(".gitignore", "a.txt", "deep/renamed.txt", "run", "link", "dangling", "deep/späce name.txt"),
        *('new\nline "quoted"', '"leading'),
    }
    assert (out / "a.txt").read_text(encoding="utf-8") == "uncommitted\n"
    assert os.access(out / "run", os.X_OK)
    assert not os.access(out / "a.txt", os.X_OK)
    assert os.readlink(out / "dangling") == "/nowhere/at all"
    assert (out / 'new\nline "quoted"').read_text(encoding="utf-8") == "odder"


def test_permission_alone_counts(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """A file that only became executable is executable in the universe, unless the repository ignores that."""
    (repository / "a.txt").chmod(0o755)
    assert os.access(cloned(repository) / "a.txt", os.X_OK)
    git(repository, "config", "core.fileMode", "false")
    assert not os.access(cloned(repository, name="second") / "a.txt", os.X_OK)


def test_deleted_file_is_gone(repository: Path, cloned: Callable[..., Path]) -> None:
    """A tracked file that was removed without telling git is not served."""
    (repository / "a.txt").unlink()
    assert names(cloned(repository)) == {"deep/b.txt"}


def test_folder_and_file_change_places(repository: Path, cloned: Callable[..., Path]) -> None:
    """A file that became a folder, and a folder that became a link out of the tree, are taken for what they are."""
    outside = repository.parent / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("secret", encoding="utf-8")
    (repository / "a.txt").unlink()
    (repository / "a.txt").mkdir()
    (repository / "a.txt" / "inner").write_text("x", encoding="utf-8")
    (repository / "deep" / "b.txt").unlink()
    (repository / "deep").rmdir()
    (repository / "deep").symlink_to(outside)
    out = cloned(repository)
    assert names(out) == {"a.txt/inner", "deep"}
    assert (out / "deep").is_symlink()


def test_line_ends_are_kept(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """No line end is converted, whatever attributes and settings say."""
    git(repository, "config", "core.autocrlf", "true")
    (repository / ".gitattributes").write_text("*.txt text\n*.u16 working-tree-encoding=UTF-16\n", encoding="utf-8")
    (repository / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (repository / "new.txt").write_bytes(b"\r\n\r\n")
    (repository / "wide.u16").write_bytes("wide\n".encode("utf-16"))
    cloned(repository)
    bare = repository.parent / "out.git"
    blob = subprocess.run(["git", "cat-file", "blob", "HEAD:a.txt"], cwd=bare, capture_output=True, check=True)
    assert blob.stdout == b"one\r\ntwo\r\n"
    blob = subprocess.run(["git", "cat-file", "blob", "HEAD:new.txt"], cwd=bare, capture_output=True, check=True)
    assert blob.stdout == b"\r\n\r\n"


def test_no_program_of_the_repository_runs(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """Filters, monitors and hooks that the repository's settings name are not run, and filtered files served whole."""
    trace = repository.parent / "ran"
    program = repository.parent / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\nprintf pointer\n", encoding="utf-8")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("*.bin filter=large\n", encoding="utf-8")
    (repository / "data.bin").write_text("real content", encoding="utf-8")
    git(repository, "-c", f"filter.large.clean='{program}'", "add", ".")
    git(repository, "commit", "-q", "-m", "pointer")
    assert git(repository, "cat-file", "blob", "HEAD:data.bin") == "pointer"
    for name in ("filter.large.clean", "filter.large.smudge", "filter.large.process", "core.fsmonitor"):
        git(repository, "config", name, f"'{program}'")
    for hook in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout"):
        (repository / ".git" / "hooks" / hook).symlink_to(program)
    trace.unlink()
    (repository / "a.txt").write_text("touched", encoding="utf-8")
    out = cloned(repository)
    assert (out / "data.bin").read_text(encoding="utf-8") == "real content"
    assert not trace.exists()


def test_large_files(repository: Path, cloned: Callable[..., Path]) -> None:
    """Files that do not fit into memory pieces are kept whole."""
    content = random.Random(1).randbytes(3 * 1024 * 1024 + 7)
    (repository / "large").write_bytes(content)
    (repository / "empty").write_bytes(b"")
    out = cloned(repository)
    assert (out / "large").read_bytes() == content
    assert (out / "empty").read_bytes() == b""


def test_same_content_same_commit(tmp_path: Path, repository: Path, git: Git) -> None:
    """The commit depends on content alone: not on the time, the user or how often it is made."""
    (repository / "new").write_text("new", encoding="utf-8")
    first = export(repository, "worktree", tmp_path / "first.git").commits["HEAD"]
    os.utime(repository / "new", (5, 5))
    git(repository, "add", "-N", "new")
    second = export(repository, "worktree", tmp_path / "second.git").commits["HEAD"]
    assert first == second != git(repository, "rev-parse", "HEAD")
    parent = git(tmp_path / "first.git", "rev-parse", "HEAD^")
    assert parent == git(repository, "rev-parse", "HEAD")
    dates = git(tmp_path / "first.git", "log", "-2", "--format=%ct").split()
    assert int(dates[0]) == int(dates[1]) + 1
    (repository / "new").write_text("newer", encoding="utf-8")
    assert export(repository, "worktree", tmp_path / "third.git").commits["HEAD"] != first


def test_change_within_the_same_second_is_seen(tmp_path: Path, git: Git) -> None:
    """A file changed right after it was staged, to the same size and time, is served as it is."""
    folder = tmp_path / "racy"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "f").write_text("aaaa", encoding="utf-8")
    git(folder, "add", "f")
    git(folder, "commit", "-q", "-m", "x")
    when = (folder / "f").stat()
    (folder / "f").write_text("bbbb", encoding="utf-8")
    os.utime(folder / "f", ns=(when.st_atime_ns, when.st_mtime_ns))
    export(folder, "worktree", tmp_path / "out.git")
    assert git(tmp_path / "out.git", "cat-file", "blob", "HEAD:f") == "bbbb"


def test_hidden_changes_are_seen(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """A file that git is told to take for unchanged is served as it lies there; one left out, as tracked."""
    git(repository, "update-index", "--assume-unchanged", "a.txt")
    git(repository, "update-index", "--skip-worktree", "deep/b.txt")
    (repository / "a.txt").write_text("hidden change\n", encoding="utf-8")
    (repository / "deep" / "b.txt").unlink()
    out = cloned(repository)
    assert (out / "a.txt").read_text(encoding="utf-8") == "hidden change\n"
    assert (out / "deep" / "b.txt").read_text(encoding="utf-8") == "deep\n"


def test_conflict_is_served_as_it_lies_there(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """A file in conflict is served once, with the marks of the conflict in it."""
    git(repository, "checkout", "-q", "other")
    (repository / "a.txt").write_text("three\n", encoding="utf-8")
    git(repository, "commit", "-q", "-a", "-m", "conflicting")
    git(repository, "merge", "main", accepted=(1,))
    assert "<<<<<<<" in (cloned(repository) / "a.txt").read_text(encoding="utf-8")


def test_split_index_is_read(repository: Path, git: Git, cloned: Callable[..., Path]) -> None:
    """A repository whose index is kept in two files is exported like any other."""
    git(repository, "update-index", "--split-index")
    (repository / "new").write_text("x", encoding="utf-8")
    assert names(cloned(repository)) == {"a.txt", "deep/b.txt", "new"}


def test_submodules_are_left_out_with_a_note(tmp_path: Path, repository: Path, git: Git) -> None:
    """Submodules and repositories inside are left out, and that is said."""
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repository), "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    git(tmp_path, "clone", "-q", str(repository), str(repository / "nested"))
    found = export(repository, "worktree", tmp_path / "out.git")
    listed = git(tmp_path / "out.git", "ls-tree", "-r", "--name-only", "HEAD").split()
    assert listed == [".gitmodules", "a.txt", "deep/b.txt"]
    assert len(found.notes) == 1
    assert "are left out: nested/, sub" in found.notes[0]


def test_no_program_of_a_submodule_runs(tmp_path: Path, repository: Path, git: Git) -> None:
    """Settings of submodules and repositories inside run nothing either, though git would look into both of them."""
    trace = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\necho ran >> '{trace}'\n", encoding="utf-8")
    program.chmod(0o755)
    git(tmp_path, "clone", "-q", str(repository), "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "other"), "sub")
    git(repository, "commit", "-q", "-m", "with a submodule")
    git(tmp_path, "clone", "-q", str(repository), str(repository / "nested"))
    git(repository / "nested", "init", "-q", "empty")
    for inner in ("sub", "nested"):
        (repository / inner / "a.txt").write_text("changed", encoding="utf-8")
        for name in ("core.fsmonitor", "filter.x.clean", "diff.x.textconv"):
            git(repository / inner, "config", name, str(program))
        (repository / inner / ".gitattributes").write_text("* filter=x diff=x\n", encoding="utf-8")
    git(repository, "status")
    assert trace.exists()
    trace.unlink()
    export(repository, "worktree", tmp_path / "out.git")
    assert not trace.exists()
    listed = git(tmp_path / "out.git", "ls-tree", "-r", "--name-only", "HEAD").split()
    assert listed == [".gitmodules", "a.txt", "deep/b.txt"]


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
        export(repository / "deep", "worktree", repository.parent / "out.git")
    assert caught.value.code == "repository_invalid"
    assert str(repository) in caught.value.message


def test_no_repository_is_refused(tmp_path: Path) -> None:
    """A folder without a repository, and no folder at all, are errors with a remedy."""
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TwinError) as caught:
            export(path, "worktree", tmp_path / "out.git")
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
        "import sys; from pathlib import Path; from amplifier_digital_twin.services.git import export; "
        "from amplifier_digital_twin.profile.model import Repository; "
        "config = Repository(url='https://github.com/a/b', path=sys.argv[1]); "
        "print(export(config, Path(sys.argv[2]), []).commits['HEAD'])"
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
