"""A repository may be anybody's: nothing that it configures is run, and no other repository is shown in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.repository import repository_lines

Plant = Callable[[Any, str], None]
SECRET = "Merge with the competitor"


async def described(path: Path) -> list[str]:
    """Return the lines about a folder, however long git takes."""
    return await repository_lines(str(path), StatusConfig(git_timeout=60))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return the file that the planted program makes."""
    return tmp_path / "ran"


@pytest.fixture
def program(tmp_path: Path, marker: Path) -> str:
    """Return the path of a program that leaves a mark; it passes on what it reads, as a filter does."""
    path = tmp_path / "planted"
    path.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\nexec cat\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def change(repository: Any) -> None:
    """Make git compare the content of a tracked file: its size stays the same, its time does not."""
    path = repository.path / "README.md"
    path.write_text("TEXT\n", encoding="utf-8")
    os.utime(path, (1, 1))


def filtered(repository: Any, config: str, program: str, key: str = "clean") -> None:
    """Name a filter in `.gitattributes` and write it to a config file."""
    repository.write(".gitattributes", "* filter=evil\n")
    repository.git("config", "--file", str(repository.path / config), f"filter.evil.{key}", program)
    change(repository)


def clean_filter(repository: Any, program: str) -> None:
    filtered(repository, ".git/config", program)


def process_filter(repository: Any, program: str) -> None:
    filtered(repository, ".git/config", program, "process")


def smudge_filter(repository: Any, program: str) -> None:
    filtered(repository, ".git/config", program, "smudge")


def required_filter(repository: Any, program: str) -> None:
    filtered(repository, ".git/config", program)
    repository.git("config", "filter.evil.required", "true")


def filter_of_info_attributes(repository: Any, program: str) -> None:
    repository.write(".git/info/attributes", "* filter=evil\n")
    repository.git("config", "filter.evil.clean", program)
    change(repository)


def filter_of_an_attributes_file(repository: Any, program: str) -> None:
    repository.write(".git/more", "* filter=evil\n")
    repository.git("config", "core.attributesFile", str(repository.path / ".git" / "more"))
    repository.git("config", "filter.evil.clean", program)
    change(repository)


def included_config(repository: Any, program: str) -> None:
    filtered(repository, "included", program)
    repository.git("config", "include.path", "../included")


def conditionally_included_config(repository: Any, program: str) -> None:
    filtered(repository, "included", program)
    repository.git("config", f"includeIf.gitdir:{repository.path}/.path", "../included")


def config_of_the_worktree(repository: Any, program: str) -> None:
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "extensions.worktreeConfig", "true")
    filtered(repository, ".git/config.worktree", program)


def common_folder(repository: Any, program: str) -> None:
    shutil.copytree(repository.path / ".git", repository.path / "common")
    filtered(repository, "common/config", program)
    repository.write(".git/commondir", "../common\n")


def hooks(repository: Any, program: str) -> None:
    for name in ("post-index-change", "pre-auto-gc", "reference-transaction", "fsmonitor-watchman"):
        (repository.path / ".git" / "hooks").mkdir(exist_ok=True)
        shutil.copy(program, repository.path / ".git" / "hooks" / name)
    change(repository)


def hooks_of_another_folder(repository: Any, program: str) -> None:
    (repository.path / "hooks").mkdir()
    shutil.copy(program, repository.path / "hooks" / "post-index-change")
    repository.git("config", "core.hooksPath", str(repository.path / "hooks"))
    change(repository)


def monitor(repository: Any, program: str) -> None:
    repository.git("config", "core.fsmonitor", program)


def monitor_in_the_index(repository: Any, program: str) -> None:
    repository.git("-c", "core.fsmonitor=/bin/true", "update-index", "--fsmonitor")
    repository.git("config", "core.fsmonitor", program)


def programs_of_every_kind(repository: Any, program: str) -> None:
    keys = "core.pager pager.status pager.log core.editor core.askPass core.sshCommand core.gitProxy credential.helper"
    keys += " diff.external diff.evil.command diff.evil.textconv merge.evil.driver core.alternateRefsCommand"
    keys += " gpg.program uploadpack.packObjectsHook trailer.sign.command trailer.sign.cmd"
    keys += " interactive.diffFilter remote.origin.vcs"
    for key in keys.split():
        repository.git("config", key, program)
    for alias in ("status", "log", "for-each-ref", "symbolic-ref", "rev-parse", "config"):
        repository.git("config", f"alias.{alias}", f"!{program}")
    for key in ("log.showSignature", "status.submoduleSummary", "diff.noprefix", "format.pretty"):
        repository.git("config", key, "true")
    repository.write(".gitattributes", "* diff=evil merge=evil\n")
    change(repository)


def signed_commit(repository: Any, program: str) -> None:
    repository.git("config", "gpg.program", program)
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "format.pretty", "%G? %s")
    tree = repository.git("rev-parse", "HEAD^{tree}").strip()
    who = "A <a@example.org> 1700000000 +0000"
    text = f"tree {tree}\nauthor {who}\ncommitter {who}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n \n\nSigned\n"
    made = repository.write(".git/made", text)
    commit = repository.git("hash-object", "-t", "commit", "-w", "--literally", str(made)).strip()
    repository.git("update-ref", "refs/heads/main", commit)


def missing_objects(repository: Any, program: str) -> None:
    """A partial clone whose remote is a program: git would fetch what it lacks."""
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "extensions.partialClone", "origin")
    repository.git("config", "remote.origin.url", f"ext::{program}")
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "remote.origin.partialCloneFilter", "blob:none")
    repository.git("config", "protocol.ext.allow", "always")
    blob = repository.git("rev-parse", "HEAD:README.md").strip()
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    repository.git("mv", "README.md", "READ.md")
    repository.write("READ.md", "texts\n")
    (repository.path / ".git" / "index").unlink()
    repository.write("ROAD.md", "texts\n")
    repository.git("-c", "remote.origin.url=/nowhere", "add", "ROAD.md")


def missing_objects_by_ssh(repository: Any, program: str) -> None:
    missing_objects(repository, program)
    repository.git("config", "remote.origin.url", "ssh://git@localhost/x")
    repository.git("config", "core.sshCommand", program)


def submodule(repository: Any, program: str) -> None:
    inner = type(repository)(repository.path / "inner")
    repository.git("init", "--quiet", "--initial-branch=main", "inner")
    inner.commit("Inner", "README.md")
    repository.git("-c", "advice.addEmbeddedRepo=false", "add", "inner")
    repository.write(".gitmodules", '[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    repository.git("add", ".gitmodules")
    repository.git("config", "submodule.inner.update", f"!{program}")
    repository.git("config", "status.submoduleSummary", "true")
    repository.git("config", "diff.ignoreSubmodules", "none")
    filtered(inner, ".git/config", program)
    inner.git("config", "core.fsmonitor", program)


def nested_repository(repository: Any, program: str) -> None:
    inner = type(repository)(repository.path / "inner")
    repository.git("init", "--quiet", "--initial-branch=main", "inner")
    inner.commit("Inner", "README.md")
    filtered(inner, ".git/config", program)
    inner.git("config", "core.fsmonitor", program)


def template_of_git(repository: Any, program: str) -> None:
    (repository.path / ".git" / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "{program}"\n\tworktree = ".."\n'
        f'[filter "evil"]\n\tclean = {program}\n[include]\n\tpath = config\n',
        encoding="utf-8",
    )
    repository.write(".gitattributes", "* filter=evil\n")
    change(repository)


PLANTED = [
    *(clean_filter, process_filter, smudge_filter, required_filter, filter_of_info_attributes),
    *(filter_of_an_attributes_file, included_config, conditionally_included_config, config_of_the_worktree),
    *(common_folder, hooks, hooks_of_another_folder, monitor, monitor_in_the_index, programs_of_every_kind),
    *(signed_commit, missing_objects, missing_objects_by_ssh, submodule, nested_repository, template_of_git),
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
async def test_nothing_that_a_repository_configures_is_run(
    repository: Any, program: str, marker: Path, plant: Plant
) -> None:
    """However a program is planted in a repository, describing the repository does not start it."""
    plant(repository, program)
    marker.unlink(missing_ok=True)
    await described(repository.path)
    assert not marker.exists(), marker.read_text(encoding="utf-8")


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
async def test_nothing_is_run_from_a_linked_worktree(
    repository: Any, program: str, marker: Path, tmp_path: Path, plant: Plant
) -> None:
    """What the main repository configures is not run for its worktrees either."""
    side = tmp_path / "side"
    repository.git("worktree", "add", "--quiet", str(side))
    plant(repository, program)
    if (attributes := repository.path / ".gitattributes").exists():
        shutil.copy(attributes, side)
    (side / "README.md").write_text("TEXT\n", encoding="utf-8")
    os.utime(side / "README.md", (1, 1))
    marker.unlink(missing_ok=True)
    await described(side)
    assert not marker.exists(), marker.read_text(encoding="utf-8")


async def test_an_embedded_bare_repository_is_not_taken(
    repository: Any, make_repository: Callable[..., Any], program: str, marker: Path
) -> None:
    """A folder that looks like git's own, as a clone may bring one, is a folder like any other."""
    bare = make_repository("project/tools.git", "--bare")
    bare.git("config", "core.bare", "false")
    bare.git("config", "core.worktree", str(bare.path))
    bare.git("config", "core.fsmonitor", program)
    lines = await described(bare.path)
    assert not marker.exists()
    assert lines[-1].endswith(" Begin"), "it is described by the repository around it"


async def test_a_bare_repository_alone_is_not_taken(
    make_repository: Callable[..., Any], program: str, marker: Path
) -> None:
    """Where there is no `.git`, there is no repository."""
    bare = make_repository("tools.git", "--bare")
    bare.git("config", "core.fsmonitor", program)
    assert await described(bare.path) == ["Git: this folder is not in a repository"]
    assert not marker.exists()


# Other repositories


@pytest.fixture
def secret(make_repository: Callable[..., Any]) -> Any:
    """Return a repository beside the project whose commits are nobody's business."""
    made = make_repository("secret")
    made.commit(SECRET, "plan.md")
    return made


def git_file(project: Path, secret: Path) -> None:
    (project / ".git").write_text(f"gitdir: {secret}/.git\n", encoding="utf-8")


def git_link(project: Path, secret: Path) -> None:
    (project / ".git").symlink_to(secret / ".git")


def git_links(project: Path, secret: Path) -> None:
    (project / "one").symlink_to(secret)
    (project / "two").symlink_to("one/.git")
    (project / ".git").symlink_to("two")


def git_file_by_way_of_a_link(project: Path, secret: Path) -> None:
    (project / "inside").symlink_to(secret / ".git")
    (project / ".git").write_text("gitdir: inside\n", encoding="utf-8")


def _own(project: Path) -> Path:
    made = project / ".git"
    (made / "refs").mkdir(parents=True)
    (made / "objects").mkdir()
    (made / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (made / "config").write_text("[core]\n\trepositoryformatversion = 0\n", encoding="utf-8")
    return made


def common_folder_of_another(project: Path, secret: Path) -> None:
    made = _own(project)
    (made / "commondir").write_text(f"{secret}/.git\n", encoding="utf-8")


def worktree_of_another(project: Path, secret: Path) -> None:
    made = project / "x" / "worktrees" / "y"
    made.mkdir(parents=True)
    (made / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (made / "commondir").write_text(f"{secret}/.git\n", encoding="utf-8")
    (made / "gitdir").write_text(f"{project}/.git\n", encoding="utf-8")
    (project / ".git").write_text("gitdir: x/worktrees/y\n", encoding="utf-8")


def linked_parts(project: Path, secret: Path) -> None:
    made = _own(project)
    for name in ("refs", "objects"):
        (made / name).rmdir()
        (made / name).symlink_to(secret / ".git" / name)


def linked_folders(project: Path, secret: Path) -> None:
    made = _own(project)
    (made / "refs" / "heads").symlink_to(secret / ".git" / "refs" / "heads")
    for folder in (secret / ".git" / "objects").iterdir():
        (made / "objects" / folder.name).symlink_to(folder)


def linked_objects(project: Path, secret: Path) -> None:
    made = _own(project)
    (made / "refs" / "heads").mkdir()
    for ref in (secret / ".git" / "refs" / "heads").iterdir():
        (made / "refs" / "heads" / ref.name).write_bytes(ref.read_bytes())
    for file in (secret / ".git" / "objects").glob("??/*"):
        (made / "objects" / file.parent.name).mkdir(exist_ok=True)
        (made / "objects" / file.parent.name / file.name).symlink_to(file)


def borrowed_objects(project: Path, secret: Path) -> None:
    made = _own(project)
    (made / "refs" / "heads").symlink_to(secret / ".git" / "refs" / "heads")
    (made / "objects" / "info").mkdir()
    (made / "objects" / "info" / "alternates").write_text(f"{secret}/.git/objects\n", encoding="utf-8")


@pytest.mark.parametrize(
    "lead",
    [
        *(git_file, git_link, git_links, git_file_by_way_of_a_link, common_folder_of_another, worktree_of_another),
        *(linked_parts, linked_folders, linked_objects, borrowed_objects),
    ],
    ids=lambda lead: lead.__name__,
)
async def test_another_repository_is_not_shown(
    tmp_path: Path, secret: Any, lead: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A project that leads git to a repository elsewhere gets no word of what is in there."""
    project = tmp_path.resolve() / "project"
    project.mkdir()
    lead(project, secret.path)
    lines = await described(project)
    assert SECRET not in "\n".join(lines)
    assert "plan.md" not in "\n".join(lines)


@pytest.mark.parametrize("name", ["HEAD", "config"])
async def test_small_files_are_not_read_through_links(repository: Any, tmp_path: Path, name: str) -> None:
    """A file of git that is a link to somewhere outside of the repository is not read."""
    repository.commit("Ours")
    (tmp_path / "word").write_text("ref: refs/heads/canary\n", encoding="utf-8")
    (repository.path / ".git" / name).unlink()
    (repository.path / ".git" / name).symlink_to(tmp_path / "word")
    text = "\n".join(await described(repository.path))
    assert "refs/heads/canary" not in text
    assert "branch: canary" not in text
    assert "leads out of the repository" in text


async def test_other_files_are_not_shown(repository: Any, secret: Any) -> None:
    """A working tree that the config puts elsewhere is not looked at."""
    secret.write("notes.md")
    repository.git("config", "core.worktree", str(secret.path))
    text = "\n".join(await described(repository.path))
    assert "notes.md" not in text
    assert "plan.md" not in text


async def test_replaced_objects_do_not_count(repository: Any) -> None:
    """A ref below `refs/replace` does not put another commit in the place of one."""
    repository.commit("Ours")
    ours = repository.git("rev-parse", "HEAD").strip()
    repository.git("switch", "--quiet", "--orphan", "other")
    repository.commit("Theirs")
    repository.git("switch", "--quiet", "main")
    repository.git("replace", ours, "other")
    text = "\n".join(await described(repository.path))
    assert "Ours" in text
    assert "Theirs" not in text
