"""Fetching takes the user's own settings, and nothing that a repository configures: neither the fetched nor another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetched import SourceError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return the file that the planted program makes."""
    return tmp_path / "ran"


@pytest.fixture
def program(tmp_path: Path, marker: Path) -> str:
    """Return the path of a program that leaves a mark and passes on what it reads."""
    path = tmp_path / "planted"
    path.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\nexec cat\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def plant(repository: Any, program: str) -> None:
    """Name the program wherever a config can name one."""
    keys = "core.fsmonitor core.sshCommand core.gitProxy core.askPass core.alternateRefsCommand credential.helper"
    keys += " filter.evil.clean filter.evil.smudge filter.evil.process uploadpack.packObjectsHook gpg.program"
    for key in keys.split():
        repository.git("config", key, program)
    hooks = repository.folder / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-update"):
        (hooks / name).symlink_to(program)
    repository.git("config", "core.hooksPath", str(hooks))
    repository.git("config", "init.templateDir", str(hooks))


@pytest.mark.parametrize("ref", ["main", "commit"])
async def test_a_repository_around_the_cache_has_no_say(
    tmp_path: Path,
    environ: Environ,
    repository: Any,
    new_repository: Callable[[Path], Any],
    program: str,
    marker: Path,
    ref: str,
) -> None:
    """With a home inside a repository, that repository's config decides nothing about what is fetched."""
    around = new_repository(tmp_path / "project")
    plant(around, program)
    around.git("config", "url.file:///nowhere.insteadOf", f"file://{repository.folder}")
    commit = repository.commit({".gitattributes": "* filter=evil\n"})
    marker.unlink(missing_ok=True)
    uri = f"{repository.uri}@{commit if ref == 'commit' else ref}"
    fetcher = Fetcher(Home(around.folder / "home"), environ=environ)
    fetched = await fetcher.fetch(uri)
    assert fetched.commit == commit
    with pytest.raises(SourceError):
        await fetcher.fetch("git+ssh://git@localhost:1/o/r@main")
    assert not marker.exists(), marker.read_text(encoding="utf-8")


@pytest.mark.parametrize("ref", ["main", "commit"])
async def test_a_local_repository_runs_nothing_while_it_is_fetched(
    home: Home, environ: Environ, repository: Any, program: str, marker: Path, ref: str
) -> None:
    """The other end of a local fetch runs in that repository: nothing that it configures is started."""
    commit = repository.commit({".gitattributes": "* filter=evil\n", "file": "1"})
    plant(repository, program)
    marker.unlink(missing_ok=True)
    uri = f"{repository.uri}@{commit if ref == 'commit' else ref}"
    fetched = await Fetcher(home, environ=environ).fetch(uri)
    assert fetched.commit == commit
    assert not marker.exists(), marker.read_text(encoding="utf-8")


async def test_a_local_repository_that_lacks_objects_fetches_none(
    home: Home, environ: Environ, repository: Any, program: str, marker: Path
) -> None:
    """A source that is a partial clone does not make its end of git call anybody."""
    blob = repository.git("rev-parse", "HEAD:bundle.md")
    repository.git("config", "core.repositoryFormatVersion", "1")
    repository.git("config", "extensions.partialClone", "origin")
    repository.git("config", "remote.origin.url", "ssh://git@localhost/x")
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "core.sshCommand", program)
    (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(SourceError):
        await Fetcher(home, environ=environ).fetch(repository.uri)
    assert not marker.exists(), marker.read_text(encoding="utf-8")


async def test_templates_are_not_copied(
    home: Home, environ: Environ, repository: Any, tmp_path: Path, program: str, marker: Path
) -> None:
    """A fetched repository has no hooks, not even those that the user gives to new repositories."""
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").symlink_to(program)
    config = tmp_path / "gitconfig"
    config.write_text(f"[init]\n\ttemplateDir = {tmp_path}/template\n", encoding="utf-8")
    environ["GIT_CONFIG_GLOBAL"] = str(config)
    for ref in ("main", repository.git("rev-parse", "HEAD")):
        fetched = await Fetcher(home, environ=environ).fetch(f"{repository.uri}@{ref}")
        assert not (fetched.root / ".git" / "hooks").exists()
    assert not marker.exists()


async def test_a_git_in_the_project_is_not_run(
    home: Home,
    environ: Environ,
    repository: Any,
    tmp_path: Path,
    marker: Path,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program called git, or one that git starts, is not taken from the folder we were started in."""
    folder = tmp_path / "project" / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("git", "ssh", "git-upload-pack"):
        (folder / name).symlink_to(program)
    monkeypatch.chdir(tmp_path / "project")
    environ["PATH"] = os.pathsep.join([str(folder), ".venv/bin", environ["PATH"]])
    await Fetcher(home, environ=environ).fetch(repository.uri)
    with pytest.raises(SourceError):
        await Fetcher(home, environ=environ).fetch("git+ssh://git@localhost:1/o/r@main")
    assert not marker.exists(), marker.read_text(encoding="utf-8")


async def test_a_filter_of_the_user_counts(
    home: Home, environ: Environ, repository: Any, tmp_path: Path, marker: Path
) -> None:
    """Files that the user's own filters produce, as with large file storage, are what is fetched and hashed."""
    repository.commit({".gitattributes": "*.bin filter=large\n", "a.bin": "pointer\n"})
    config = tmp_path / "gitconfig"
    config.write_text('[filter "large"]\n\tsmudge = "tr a-z A-Z"\n', encoding="utf-8")
    environ["GIT_CONFIG_GLOBAL"] = str(config)
    fetched = await Fetcher(home, environ=environ).fetch(repository.uri)
    assert (fetched.root / "a.bin").read_text(encoding="utf-8") == "POINTER\n"
