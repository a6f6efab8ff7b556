"""OpenRepository a repository without its settings shows what git shows, in repositories of every usual shape."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_module_hooks_status_context import mount
from amplifier_module_hooks_status_context.command import Git
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.repository import repository_lines


@pytest.fixture(params=["sandboxed", "free"])
def described(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Give `described(path)`: the lines about a folder, read inside a sandbox around it and without one."""

    async def lines(path: Path, project: Path | None = None) -> list[str]:
        sandbox = Sandbox(SandboxConfig(mode="required" if request.param == "sandboxed" else "off"), project or path)
        if request.param == "sandboxed" and sandbox.status.status == "absent":
            pytest.skip(sandbox.status.reason)
        return await repository_lines(str(path), StatusConfig(git_timeout=60), Git(sandbox))

    return lines


def listed(lines: list[str]) -> list[str]:
    """Return the changed files among the lines."""
    return [line for line in lines if line[:3] in ("?? ", " M ", "M  ", "MM ", "A  ", " D ")]


async def test_changes_are_listed(described: Callable[..., Any], repository: Any) -> None:
    """Changed and new files, the branch and the newest commit are told."""
    repository.write("README.md", "new\n")
    repository.write("new")
    lines = await described(repository.path)
    assert listed(lines) == [" M README.md", "?? new"]
    assert lines[0] == "Git branch: main"
    assert lines[-1].endswith(" Begin")


async def test_a_worktree(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """A linked worktree is read although its git folder is elsewhere: that folder leads back to it."""
    side = tmp_path.resolve() / "side"
    repository.git("worktree", "add", "--quiet", "-b", "side", str(side))
    (side / "README.md").write_text("new\n", encoding="utf-8")
    lines = await described(side)
    assert lines[0] == "Git branch: side"
    assert listed(lines) == [" M README.md"]
    assert lines[-1].endswith(" Begin")


async def test_a_worktree_of_a_bare_repository(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """Worktrees around a bare repository are read like others."""
    home = tmp_path.resolve() / "home"
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(home / ".bare"))
    type(repository)(home / ".bare").git("worktree", "add", "--quiet", str(home / "main"))
    lines = await described(home / "main")
    assert lines[0] == "Git branch: main"
    assert "Git status: clean" in lines


async def test_a_submodule_as_project(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """A submodule is read although its git folder lies in the repository above: its config leads back to it."""
    outer = type(repository)(tmp_path.resolve() / "outer")
    repository.git("init", "--quiet", "--initial-branch=main", str(outer.path))
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository.path), "inner")
    outer.commit("With a submodule")
    lines = await described(outer.path / "inner")
    assert lines[0] == "Git branch: main, tracking origin/main (0 ahead, 0 behind)"
    assert "Git status: clean" in lines
    assert "Git status: clean" in await described(outer.path)
    (outer.path / "inner" / "new").touch()
    assert listed(await described(outer.path / "inner")) == ["?? new"]


async def test_a_folder_of_a_repository(described: Callable[..., Any], repository: Any) -> None:
    """A project below the top of its repository is described by all of it."""
    repository.commit("Add", "below/file")
    repository.write("below/file", "new\n")
    repository.write("README.md", "new\n")
    assert listed(await described(repository.path / "below")) == [" M README.md", " M below/file"]


async def test_a_detached_head(described: Callable[..., Any], repository: Any) -> None:
    """Without a branch the commit is named."""
    commit = repository.git("rev-parse", "HEAD").strip()
    repository.git("checkout", "--quiet", "--detach")
    assert (await described(repository.path))[0] == f"Git branch: none (detached at {commit[:10]})"


async def test_other_hashes(described: Callable[..., Any], make_repository: Callable[..., Any]) -> None:
    """A repository with SHA-256 is read."""
    made = make_repository("project", "--object-format=sha256")
    made.commit("Begin", "file")
    made.write("file", "new\n")
    lines = await described(made.path)
    assert listed(lines) == [" M file"]
    assert lines[-1].endswith(" Begin")


async def test_packed_refs_and_objects(described: Callable[..., Any], repository: Any) -> None:
    """What `git gc` packed, the commit graph included, is read."""
    repository.commit("More")
    repository.git("gc", "--quiet")
    repository.git("commit-graph", "write", "--reachable")
    assert not (repository.path / ".git" / "refs" / "heads" / "main").exists()
    lines = await described(repository.path)
    assert lines[:3] == ["Git branch: main", "Main branch: main", "Git status: clean"]
    assert lines[-2].endswith(" More")


async def test_a_split_index(described: Callable[..., Any], repository: Any) -> None:
    """An index in two files is read, in a worktree too."""
    repository.git("update-index", "--split-index")
    repository.commit("Add", "file")
    repository.write("file", "new\n")
    assert listed(await described(repository.path)) == [" M file"]


@pytest.mark.parametrize("options", [["--cone"], ["--no-cone"], ["--cone", "--sparse-index"]])
async def test_a_sparse_checkout(described: Callable[..., Any], repository: Any, options: list[str]) -> None:
    """Files that are left out on purpose are not missing."""
    repository.commit("Add", "in/file", "out/file")
    repository.git("sparse-checkout", "set", *options, "in")
    assert not (repository.path / "out").exists()
    assert "Git status: clean" in await described(repository.path)
    repository.write("in/file", "new\n")
    assert listed(await described(repository.path)) == [" M in/file"]


async def test_line_ends(
    described: Callable[..., Any], repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line ends that git converts are no change, whether the repository says so, the user or `.gitattributes`."""
    repository.git("config", "core.autocrlf", "true")
    path = repository.path / "file"
    path.write_bytes(b"text\r\n")
    repository.git("add", "file")
    repository.git("commit", "--quiet", "--message", "Add")
    os.utime(path, (1, 1))  # git compares the content
    assert listed(await described(repository.path)) == []
    repository.git("config", "--unset", "core.autocrlf")
    assert listed(await described(repository.path)) == [" M file"]
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text("[core]\n\tautocrlf = input\n", encoding="utf-8")
    assert listed(await described(repository.path)) == []
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    repository.write(".gitattributes", "* text=auto\n")
    repository.git("add", ".gitattributes")
    assert listed(await described(repository.path)) == ["A  .gitattributes"]


async def test_file_modes_of_another_system(described: Callable[..., Any], repository: Any) -> None:
    """Where the repository says that modes mean nothing, they are no change."""
    (repository.path / "README.md").chmod(0o755)
    assert listed(await described(repository.path)) == [" M README.md"]
    repository.git("config", "core.fileMode", "false")
    assert listed(await described(repository.path)) == []


async def test_files_behind_a_filter(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """A file with a filter, as large files have one, is changed only when it was written to."""
    filtering = tmp_path / "filter"
    filtering.write_text("#!/bin/sh\nexec sha256sum\n", encoding="utf-8")
    filtering.chmod(0o755)
    repository.git("config", "filter.lfs.clean", str(filtering))
    repository.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repository.write("data/large.bin", "large\n")
    repository.write("data/other.bin", "other\n")
    repository.git("add", ".")
    repository.git("commit", "--quiet", "--message", "Large")
    index = repository.path / ".git" / "index"
    # As young as the files: git compares their content.
    os.utime(index, ns=((stamp := (repository.path / "data" / "large.bin").stat().st_mtime_ns), stamp))
    assert "Git status: clean" in await described(repository.path)
    repository.write("data/other.bin", "changed\n")
    assert listed(await described(repository.path)) == [" M data/other.bin"]


async def test_what_the_user_ignores(
    described: Callable[..., Any], repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files ignored by the repository or everywhere by the user are not listed."""
    for name in ("a", "b", "c", "d"):
        repository.write(name)
    repository.write(".git/info/exclude", "a\n")
    (tmp_path / "ignored").write_text("b\n", encoding="utf-8")
    (tmp_path / "gitconfig").write_text(f"[core]\n\texcludesFile = {tmp_path}/ignored\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert listed(await described(repository.path)) == ["?? c", "?? d"]
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    (tmp_path / "config" / "git").mkdir(parents=True)
    (tmp_path / "config" / "git" / "ignore").write_text("c\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert listed(await described(repository.path)) == ["?? b", "?? d"]


async def test_a_branch_with_a_difficult_name(
    described: Callable[..., Any], repository: Any, make_repository: Callable[..., Any]
) -> None:
    """The upstream of a branch is found, whatever it is called."""
    name = 'fix/"a";#b]'
    origin = make_repository("origin.git", "--bare")
    repository.git("remote", "add", "up.stream", str(origin.path))
    repository.git("switch", "--quiet", "--create", name)
    repository.git("push", "--quiet", "--set-upstream", "up.stream", name)
    repository.commit("Ahead")
    assert (await described(repository.path))[0] == f"Git branch: {name}, tracking up.stream/{name} (1 ahead, 0 behind)"
    repository.git("switch", "--quiet", "--create", "local", "--track", "main")
    assert (await described(repository.path))[0] == "Git branch: local, tracking main (0 ahead, 0 behind)"


async def test_a_partial_clone(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """A clone that lacks old contents is described from what it has."""
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.commit("Add", "one", "two")
    clone = tmp_path.resolve() / "clone"
    options = ("--quiet", "--filter=blob:none", "--no-checkout")
    repository.git("clone", *options, f"file://{repository.path}", str(clone))
    type(repository)(clone).git("reset", "--quiet")
    (clone / "one").write_text("texts\n", encoding="utf-8")
    lines = await described(clone)
    assert listed(lines) == [" D README.md", " M one", " D two"]


async def test_a_shallow_clone(described: Callable[..., Any], repository: Any, tmp_path: Path) -> None:
    """A clone without history shows the commits it has."""
    repository.commit("Newest")
    clone = tmp_path.resolve() / "clone"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.path}", str(clone))
    lines = await described(clone)
    assert lines[-2] == "Recent commits:"
    assert lines[-1].endswith(" Newest")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_repository_of_another_user(described: Callable[..., Any], repository: Any) -> None:
    """Nothing of a repository is run, so it may belong to anybody."""
    for folder, names, files in os.walk(repository.path):
        for name in (".", *names, *files):
            os.chown(os.path.join(folder, name), 65534, 65534)
    lines = await described(repository.path)
    assert lines[-1].endswith(" Begin")
    assert "Git status: clean" in lines


async def test_an_empty_git_folder_is_passed_over(described: Callable[..., Any], repository: Any) -> None:
    """A folder that is only called `.git` does not hide the repository around it."""
    (repository.path / "below" / ".git").mkdir(parents=True)
    assert (await described(repository.path / "below"))[0] == "Git branch: main"


async def test_what_stands_in_while_a_command_runs(described: Callable[..., Any], repository: Any) -> None:
    """What the sandbox puts into `.git` for as long as a command runs does not change the description."""
    sandbox = Sandbox(SandboxConfig(mode="auto"), repository.path)
    before = await described(repository.path)
    setup = sandbox.prepare(str(repository.path))
    try:
        assert await described(repository.path) == before
    finally:
        setup.release()
    assert "Git status: clean" in before


async def test_nothing_is_left_behind(
    described: Callable[..., Any], repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that git reads through is removed, also where it cannot read the repository."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    await described(repository.path)
    assert list(temporary.iterdir()) == []
    shutil.rmtree(repository.path / ".git" / "objects")
    (repository.path / ".git" / "objects").mkdir()
    await described(repository.path)
    (repository.path / ".git" / "HEAD").write_text("nonsense\n", encoding="utf-8")
    await described(repository.path)
    assert list(temporary.iterdir()) == []


# The sandbox


async def test_git_runs_in_the_sandbox(repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a sandbox, git can neither write nor see what is elsewhere."""
    sandbox = Sandbox(SandboxConfig(mode="required"), repository.path)
    if not sandbox.status.is_active:
        pytest.skip(sandbox.status.reason)
    folder = tmp_path.with_name(f"{tmp_path.name}-fake")
    folder.mkdir()
    (tmp_path / "private").touch()
    script = f"""#!/bin/sh
case "$*" in *" config "*) exit 0;; *symbolic-ref*) ;; *) exit 1;; esac
touch {repository.path}/written 2>/dev/null && echo wrote
test -e {tmp_path}/private && echo saw
test "$(cat /proc/net/dev | wc -l)" -gt 3 && echo network
echo main
"""
    (folder / "git").write_text(script, encoding="utf-8")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    lines = await repository_lines(str(repository.path), StatusConfig(git_timeout=60), Git(sandbox))
    assert lines[0] == "Git branch: main"
    assert not (repository.path / "written").exists()


async def test_without_the_required_sandbox_git_is_not_run(
    repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`sandbox: required` holds for git too: its status is left out, the model reads why, and it is logged once."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    coordinator = MockCoordinator()
    coordinator.config["session"]["sandbox"] = "required"
    coordinator.register_capability("session.working_dir", str(repository.path))
    await mount(coordinator, {"git_timeout": 60})
    for _ in range(2):
        result = await coordinator.hooks.emit("provider:request", {})
        assert "Git: not available (the sandbox is required but not available" in str(result.context_injection)
    assert not (tmp_path / "ran").exists()
    assert caplog.text.count("git is not run, its status is left out") == 1


async def test_what_is_not_safe_to_read_is_logged_once(
    repository: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A repository that leads elsewhere is named in the log, once in a session."""
    project = tmp_path.resolve() / "leading"
    project.mkdir()
    (project / ".git").write_text(f"gitdir: {repository.path}/.git\n", encoding="utf-8")
    git = Git()
    for _ in range(2):
        [line] = await repository_lines(str(project), StatusConfig(git_timeout=60), git)
        assert line.startswith("Git: not available (its git folder ")
    assert caplog.text.count("does not lead back to it") == 1
