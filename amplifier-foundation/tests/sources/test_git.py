"""Git sources, from real repositories."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.content import META_NAME
from amplifier_foundation.sources.fetched import SourceError, SourceNotFoundError
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]


@pytest.fixture
def fetcher(home: Home, environ: Environ) -> Fetcher:
    return Fetcher(home, environ=environ)


async def test_a_branch_is_fetched_into_the_cache(fetcher: Fetcher, home: Home, repository: Any) -> None:
    """Without a ref the branch `main` is fetched, shallow, with the published record."""
    repository.commit({"second": "2"})

    fetched = await fetcher.fetch(repository.uri)

    commit = repository.git("rev-parse", "main")
    record = json.loads((fetched.root / META_NAME).read_bytes())
    assert (fetched.kind, fetched.commit, fetched.is_local) == ("git", commit, False)
    assert fetched.path == fetched.root
    assert fetched.root.parent == home.cache
    assert fetched.root.name.startswith("sample-")
    assert (fetched.root / "second").read_text(encoding="utf-8") == "2"
    assert (fetched.root / ".git" / "shallow").exists()
    assert (record["ref"], record["commit"], record["git_url"], record["sha256"]) == (
        "main",
        commit,
        f"file://{repository.folder}",
        fetched.sha256,
    )
    assert fetcher.fetched == {repository.uri: fetched}


async def test_a_cached_branch_is_used_for_ever_and_refreshed_on_request(
    home: Home, environ: Environ, repository: Any
) -> None:
    """What is in the cache stays as it is, until somebody asks for it anew."""
    old = await Fetcher(home, environ=environ).fetch(repository.uri)
    commit = repository.commit({"second": "2"})

    same = await Fetcher(home, environ=environ).fetch(repository.uri)
    new = await Fetcher(home, environ=environ, refresh=True).fetch(repository.uri)

    assert same == old
    assert (new.commit, new.root) == (commit, old.root)
    assert (new.root / "second").exists()


@pytest.mark.parametrize("ref", ["v1.0", "feature/x", "HEAD", "annotated"])
async def test_branches_tags_and_head(fetcher: Fetcher, repository: Any, ref: str) -> None:
    """Every name git has for a commit can be the ref; HEAD is the branch that the repository prefers."""
    repository.git("tag", "v1.0")
    repository.git("tag", "--annotate", "--message=x", "annotated")
    repository.git("branch", "feature/x")

    fetched = await fetcher.fetch(f"{repository.uri}@{ref}")

    assert fetched.commit == repository.git("rev-parse", "main")


async def test_a_commit_is_fetched_even_when_the_branch_went_on(fetcher: Fetcher, repository: Any) -> None:
    """A whole commit id is fetched as it was."""
    commit = repository.git("rev-parse", "main")
    repository.commit({"later": "x"})

    fetched = await fetcher.fetch(f"{repository.uri}@{commit}")

    assert fetched.commit == commit
    assert not (fetched.root / "later").exists()


async def test_a_server_that_refuses_commits_is_cloned_whole(
    fetcher: Fetcher, environ: Environ, repository: Any
) -> None:
    """When a server does not hand out single commits, the whole repository is cloned and the commit checked out."""
    commit = repository.git("rev-parse", "main")
    repository.commit({"later": "x"})
    # The first protocol has servers that hand out only what a branch or tag points to.
    environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.version", "GIT_CONFIG_VALUE_0": "0"}

    fetched = await fetcher.fetch(f"{repository.uri}@{commit}")

    assert fetched.commit == commit
    assert not (fetched.root / ".git" / "shallow").exists()
    assert not (fetched.root / "later").exists()


@pytest.mark.parametrize("ref", ["no-such", "0" * 40, "abc1234"])
async def test_a_ref_that_is_not_there(fetcher: Fetcher, home: Home, repository: Any, ref: str) -> None:
    """A ref the repository does not have is named in the error, with what to write; nothing stays in the cache."""
    with pytest.raises(SourceNotFoundError, match=f"no branch, tag or commit '{ref}'.*all its 40 digits"):
        await fetcher.fetch(f"{repository.uri}@{ref}")

    assert [path.name for path in home.cache.iterdir() if path.suffix != ".lock"] == []
    assert fetcher.fetched == {}


async def test_a_repository_that_is_not_there(fetcher: Fetcher, tmp_path: Path) -> None:
    """A missing repository is an error that has git's words."""
    with pytest.raises(SourceError, match=r"git could not fetch it: fatal: .*does not (exist|appear)"):
        await fetcher.fetch(f"git+file://{tmp_path}/nothing")


async def test_a_part_of_a_repository(fetcher: Fetcher, repository: Any) -> None:
    """A subdirectory is a folder with a module or bundle, or a single file; the rest comes along in the root."""
    repository.commit({"modules/tool x/pyproject.toml": "", "behaviors/b.yaml": "bundle: {name: b}"})

    module = await fetcher.fetch(f"{repository.uri}#subdirectory=modules/tool x")
    file = await fetcher.fetch(f"{repository.uri}#subdirectory=behaviors/b.yaml")

    assert module.path == module.root / "modules" / "tool x"
    assert file.path == file.root / "behaviors" / "b.yaml"
    assert (file.root, file.sha256, file.commit) == (module.root, module.sha256, module.commit)


async def test_a_part_that_is_not_there(fetcher: Fetcher, repository: Any) -> None:
    """A missing subdirectory is an error of its own kind that names the copy it was looked for in."""
    with pytest.raises(SourceNotFoundError, match=r"there is no 'nope' in .*the copy of 20"):
        await fetcher.fetch(f"{repository.uri}#subdirectory=nope")


async def test_a_repository_must_hold_a_bundle_or_a_module(fetcher: Fetcher, repository: Any) -> None:
    """A root (or the asked part) without any file of a bundle or module is refused, another part may be good."""
    repository.git("mv", "bundle.md", "README.md")
    repository.commit({"docs/x": "", "mod/pyproject.toml": ""})

    with pytest.raises(SourceNotFoundError, match="neither a bundle nor a module"):
        await fetcher.fetch(repository.uri)
    with pytest.raises(SourceNotFoundError, match=r"neither a bundle nor a module.*#subdirectory=path"):
        await fetcher.fetch(f"{repository.uri}#subdirectory=docs")
    assert (await fetcher.fetch(f"{repository.uri}#subdirectory=mod")).path.name == "mod"


async def test_a_link_out_of_the_repository_is_refused(fetcher: Fetcher, repository: Any) -> None:
    """A subdirectory that is a link to somewhere else on this machine is not followed."""
    os.symlink("/", repository.folder / "out")
    repository.commit({})

    with pytest.raises(SourceError, match="leads out of"):
        await fetcher.fetch(f"{repository.uri}#subdirectory=out/etc")


async def test_spaces_and_unicode_in_the_path(
    fetcher: Fetcher, tmp_path: Path, new_repository: Callable[[Path], Any]
) -> None:
    """A repository may lie in a folder with any name; an `@` in it is written %40."""
    repository = new_repository(tmp_path / "Grüße @ home" / "my repo")

    fetched = await fetcher.fetch(repository.uri.replace("@", "%40"))

    assert fetched.commit == repository.git("rev-parse", "main")
    assert fetched.root.name.startswith("my-repo-")


async def test_the_caller_s_repository_is_left_alone(fetcher: Fetcher, environ: Environ, repository: Any) -> None:
    """Variables that git sets for its hooks do not lead a fetch into the repository that they name."""
    before = repository.git("status", "--porcelain"), repository.git("rev-parse", "HEAD")
    environ |= {"GIT_DIR": str(repository.folder / ".git"), "GIT_WORK_TREE": str(repository.folder)}

    fetched = await fetcher.fetch(repository.uri)

    assert (fetched.root / "bundle.md").exists()
    assert before == (repository.git("status", "--porcelain"), repository.git("rev-parse", "HEAD"))


async def test_no_hook_of_anybody_runs(fetcher: Fetcher, environ: Environ, tmp_path: Path, repository: Any) -> None:
    """Fetching runs git and nothing else, also when the user's own settings name hooks."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    (hooks / "post-checkout").chmod(0o755)
    environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": str(hooks)}

    await fetcher.fetch(repository.uri)

    assert not (tmp_path / "ran").exists()


async def test_line_ends_are_those_of_the_repository(fetcher: Fetcher, environ: Environ, repository: Any) -> None:
    """The same commit has the same bytes on every machine, whatever its git is set to."""
    environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.autocrlf", "GIT_CONFIG_VALUE_0": "true"}

    fetched = await fetcher.fetch(repository.uri)

    assert b"\r" not in (fetched.path / "bundle.md").read_bytes()
