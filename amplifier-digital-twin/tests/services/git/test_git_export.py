"""A working tree is exported as it is, and the repository it belongs to is not touched."""

from __future__ import annotations

import hashlib
import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_digital_twin.services.git_export import export

Git = Callable[..., str]


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return everything there is to know of a folder: contents, permissions, times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        facts = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
        found[str(path)] = (facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_nlink, content)
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
    assert found.notes == ()


def test_source_is_untouched(tmp_path: Path, repository: Path, git: Git) -> None:
    """Exporting changes nothing of the repository: not a byte, not a time, not the index."""
    (repository / "a.txt").write_text("changed\n", encoding="utf-8")
    (repository / "new").write_text("new\n", encoding="utf-8")
    # Content that the repository already has, as a loose object and in a pack: git would freshen both.
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
    assert any("submodules are left out: sub" in note for note in found.notes)
    assert any("nested" in note for note in found.notes)
