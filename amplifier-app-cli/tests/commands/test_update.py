"""`amplifier update`, `bundle update`, `bundle lock` and `module update`, with real repositories."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_MODULE = """\
from amplifier_core import ToolResult


class Tides:
    name = "tides"
    description = "Tides {version}."
    input_schema = {{}}
    action = "test.free"

    async def execute(self, input):
        return ToolResult(output="{version}")


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tides(), name="tides")
"""


class _Repository:
    """A git repository to fetch from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def uri(self) -> str:
        return f"git+file://{self.folder}"

    def commit(self, files: Mapping[str, str]) -> str:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=change")
        return self._git("rev-parse", "HEAD")

    def tag(self, name: str) -> None:
        """Set a tag, also one that exists."""
        self._git("tag", "--force", name)

    def _git(self, *arguments: str) -> str:
        who = {f"GIT_{who}_{what}": "t@e" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **own, **who},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()


class _Team:
    """A bundle in a repository, with a module in another one."""

    def __init__(self, folder: Path) -> None:
        self.bundle = _Repository(folder / "team")
        self.module = _Repository(folder / "tool-tides")
        self.commits = [self.commit_module("1"), self.commit_bundle("1.0.0")]

    def commit_bundle(self, version: str) -> str:
        text = f"bundle: {{name: team, version: {version}}}\nincludes: [minimal]\ntools:\n"
        return self.bundle.commit(
            {"bundle.yaml": f"{text}  - {{module: tool-tides, source: '{self.module.uri}@main'}}\n"}
        )

    def commit_module(self, version: str) -> str:
        project = '[project]\nname = "amplifier-module-tool-tides"\nversion = "1.0.0"\n'
        package = _MODULE.format(version=version)
        return self.module.commit({"pyproject.toml": project, "amplifier_module_tool_tides/__init__.py": package})


@pytest.fixture
def team(tmp_path: Path, free_tools: None, amplifier: Amplifier) -> _Team:
    """Return the repositories of a bundle that was added and chosen."""
    made = _Team(tmp_path / "upstream")
    assert amplifier("bundle", "add", made.bundle.uri, "-n", "team").returncode == 0
    assert amplifier("bundle", "use", "team").returncode == 0
    return made


def _answer(amplifier: Amplifier) -> str:
    result = amplifier("tool", "invoke", "tides")
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def _json(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_lock_names_every_source(amplifier: Amplifier, team: _Team) -> None:
    """Before there is a lock `--check` ends with 1; `lock` writes it with the commits, and then `--check` passes."""
    result = amplifier("bundle", "lock", "--check")
    assert result.returncode == 1
    assert f"{team.module.uri}@main: not in the lock" in result.stdout
    record = _json(amplifier("bundle", "lock", "--format", "json"))
    content = json.loads(Path(record["lock"]).read_text(encoding="utf-8"))
    assert content["bundle"] == "team"
    assert sorted(pin["commit"] for pin in content["sources"].values()) == sorted(team.commits)
    assert amplifier("bundle", "lock", "--check").returncode == 0
    assert _json(amplifier("bundle", "lock", "--format", "json"))["changes"] == []


def test_lock_check_sees_what_is_not_used_any_more(amplifier: Amplifier, team: _Team) -> None:
    """A source that nothing names any more changes the lock, and `lock` takes it out."""
    amplifier("bundle", "lock")
    amplifier("source", "add", "tool-tides", str(team.module.folder))
    result = amplifier("bundle", "lock", "--check")
    assert result.returncode == 1
    assert "not used any more" in result.stdout
    assert amplifier("bundle", "lock").returncode == 0
    assert amplifier("bundle", "lock", "--check").returncode == 0


def test_module_of_the_settings_is_locked_too(amplifier: Amplifier, team: _Team) -> None:
    """What settings add to a bundle is pinned and updated with it."""
    amplifier("bundle", "clear")
    assert amplifier("module", "add", "tool-tides", "-s", f"{team.module.uri}@main").returncode == 0
    assert amplifier("bundle", "lock", "--check").returncode == 1
    record = _json(amplifier("bundle", "lock", "--format", "json"))
    assert [pin["commit"] for pin in record["sources"].values()] == [team.commits[0]]
    assert amplifier("bundle", "lock", "--check").returncode == 0
    new = team.commit_module("2")
    assert _answer(amplifier) == "1"
    assert new[:12] in amplifier("update", "--yes").stdout
    assert _answer(amplifier) == "2"


def test_bundle_that_fetches_nothing_needs_no_lock(amplifier: Amplifier) -> None:
    """The shipped bundles have nothing to lock and nothing to update."""
    assert amplifier("bundle", "lock", "--check").returncode == 0
    assert amplifier("bundle", "update", "--yes").returncode == 0


def test_lock_that_cannot_be_written_is_a_failure(
    amplifier: Amplifier, team: _Team, environment: dict[str, str]
) -> None:
    """A lock command that wrote no lock does not end with 0."""
    (Path(environment["HOME"]) / ".amplifier" / "locks").write_text("in the way", encoding="utf-8")
    result = amplifier("bundle", "lock")
    assert result.returncode == 1
    assert "lock" in result.stderr


def test_locked_bundle_stays_until_it_is_updated(amplifier: Amplifier, team: _Team) -> None:
    """Newer commits are not used by themselves; `update` says which change, and then they are used."""
    assert _answer(amplifier) == "1"
    new = [team.commit_module("2"), team.commit_bundle("2.0.0")]
    assert _answer(amplifier) == "1"
    (check,) = _json(amplifier("bundle", "update", "--check", "--format", "json"))
    assert sorted((one["before"], one["after"]) for one in check["sources"]) == sorted(
        zip(team.commits, new, strict=True)
    )
    assert {one["status"] for one in check["sources"]} == {"newer"}
    assert _answer(amplifier) == "1"
    result = amplifier("bundle", "update", "team", "--yes")
    assert result.returncode == 0, result.stderr
    for commit in (*team.commits, *new):
        assert commit[:12] in result.stdout
    assert _answer(amplifier) == "2"
    assert _json(amplifier("bundle", "current", "--format", "json"))["version"] == "2.0.0"
    assert "nothing newer" in amplifier("bundle", "update").stderr


@pytest.mark.parametrize("command", [("bundle", "update"), ("module", "update"), ("update",)])
def test_update_asks_or_refuses(amplifier: Amplifier, team: _Team, command: tuple[str, ...]) -> None:
    """Without a terminal and without --yes nothing is fetched: exit 2, and the flag is named."""
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    result = amplifier(*command)
    assert result.returncode == 2
    assert "--yes" in result.stderr
    assert _answer(amplifier) == "1"


def test_check_changes_nothing(amplifier: Amplifier, team: _Team, environment: dict[str, str]) -> None:
    """Looking for newer versions leaves the cache and the lock as they are, so that work without network continues."""
    assert _answer(amplifier) == "1"
    home = Path(environment["HOME"]) / ".amplifier"
    team.commit_module("2")
    before = {path: path.stat().st_mtime_ns for path in [*home.glob("cache/*"), *home.glob("locks/*")]}
    for command in (("bundle", "update", "--check"), ("update", "--check-only"), ("module", "update", "--check-only")):
        assert amplifier(*command).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in [*home.glob("cache/*"), *home.glob("locks/*")]} == before


def test_module_update_leaves_bundles_alone(amplifier: Amplifier, team: _Team) -> None:
    """One module moves to its newest commit, and the bundle that names it stays where it was."""
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    team.commit_bundle("2.0.0")
    record = _json(amplifier("module", "update", "tool-tides", "--yes", "--format", "json"))
    assert [one["status"] for one in record["sources"]] == ["newer"]
    assert len(record["changes"]) == 1
    assert _answer(amplifier) == "2"
    assert _json(amplifier("bundle", "current", "--format", "json"))["version"] == "1.0.0"
    result = amplifier("module", "update", "tool-wbe")
    assert result.returncode == 2
    assert "did you mean 'tool-tides'?" in result.stderr


def test_mutable_only_leaves_versions_alone(amplifier: Amplifier, team: _Team) -> None:
    """A tag that looks like a version is left out even when it was moved; a branch is fetched again."""
    team.module.tag("v1.0")
    amplifier("source", "add", "tool-tides", f"{team.module.uri}@v1.0")
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    team.module.tag("v1.0")
    assert _json(amplifier("module", "update", "--mutable-only", "--yes", "--json"))["sources"] == []
    assert _answer(amplifier) == "1"
    assert amplifier("module", "update", "--yes").returncode == 0
    assert _answer(amplifier) == "2"
    amplifier("source", "remove", "tool-tides")
    (branch,) = _json(amplifier("module", "update", "--mutable-only", "--check", "--json"))["sources"]
    assert branch["uri"].endswith("@main")


@pytest.mark.parametrize("command", [("bundle", "update", "team"), ("update",)])
def test_update_of_one_source(amplifier: Amplifier, team: _Team, command: tuple[str, ...]) -> None:
    """With --source that address alone is fetched again, and another one is a usage error with a hint."""
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    team.commit_bundle("2.0.0")
    source = f"{team.module.uri}@main"
    (check,) = _json(amplifier(*command, "--source", source, "--check", "--json"))
    assert [one["uri"] for one in check["sources"]] == [source]
    result = amplifier(*command, "--source", source, "--yes")
    assert result.returncode == 0, result.stderr
    assert _answer(amplifier) == "2"
    assert _json(amplifier("bundle", "current", "--json"))["version"] == "1.0.0"
    result = amplifier(*command, "--source", source.replace("tides", "tydes"))
    assert result.returncode == 2
    assert f"did you mean '{source}'?" in result.stderr
    assert amplifier("bundle", "update", "--all", "--source", source).returncode == 2


def test_update_covers_what_runs_here_and_says_how_to_update_itself(amplifier: Amplifier, team: _Team) -> None:
    """`amplifier update` moves bundles and modules of the bundle that runs here; itself is the installer's business."""
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    result = amplifier("update", "--yes")
    assert result.returncode == 0, result.stderr
    assert "the program itself: version" in result.stderr
    assert _answer(amplifier) == "2"


def test_source_that_is_gone_is_told(amplifier: Amplifier, team: _Team) -> None:
    """A repository that cannot be asked is named with the reason, the exit code is 1, and what is locked still runs."""
    assert _answer(amplifier) == "1"
    team.module.folder.rename(team.module.folder.with_name("moved"))
    result = amplifier("bundle", "update", "--check")
    assert result.returncode == 1
    assert "tool-tides@main" in result.stdout
    assert _answer(amplifier) == "1"


def test_fixed_commit_is_never_newer(amplifier: Amplifier, team: _Team) -> None:
    """A source that names a commit stays what it is."""
    amplifier("source", "add", "tool-tides", f"{team.module.uri}@{team.commits[0]}")
    assert _answer(amplifier) == "1"
    team.commit_module("2")
    (check,) = _json(amplifier("update", "--check-only", "--format", "json"))
    assert {one["status"] for one in check["sources"] if "tool-tides" in one["uri"]} == {"fixed"}


def test_all_goes_on_when_one_fails(amplifier: Amplifier, team: _Team, environment: dict[str, str]) -> None:
    """With --all a bundle that cannot be composed is named, the others are updated, and the exit code is 1."""
    assert _answer(amplifier) == "1"
    broken = Path(environment["HOME"]) / ".amplifier" / "bundles" / "broken.yaml"
    broken.parent.mkdir()
    broken.write_text("bundel: {}\n", encoding="utf-8")
    team.commit_module("2")
    result = amplifier("bundle", "update", "--all", "--yes")
    assert result.returncode == 1
    assert f"{broken}:1" in result.stderr
    assert _answer(amplifier) == "2"
    assert amplifier("bundle", "update", "team", "--all").returncode == 2


async def test_asking_for_newer_states_shows_no_password(tmp_path: Path) -> None:
    """Git is asked without the password of an address on its command line; its environment has it."""
    from amplifier_foundation.sources.git import newest_commit
    from amplifier_foundation.sources.uri import parse_source

    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$*" > "{tmp_path}/words"\nenv > "{tmp_path}/variables"\n'
        'printf "0123456789012345678901234567890123456789\\trefs/heads/main\\n"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    source = parse_source("git+https://me:s3cret@git.example/o/r@main")
    assert await newest_commit(source, environ, [str(tmp_path / "project")]) == (
        "0123456789012345678901234567890123456789",
        None,
    )
    words = (tmp_path / "words").read_text(encoding="utf-8")
    assert "ls-remote --quiet -- https://git.example/o/r refs/heads/main" in words
    assert "s3cret" not in words
    assert "AMPLIFIER_GIT_PASSWORD=s3cret\n" in (tmp_path / "variables").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", ["core.sshCommand", "url.ext::{program} %S.insteadOf", "core.fsmonitor"])
async def test_asking_for_newer_states_runs_nothing_of_the_project(tmp_path: Path, key: str) -> None:
    """The config of the repository we work in has no say about the servers that other repositories come from."""
    from amplifier_foundation.sources.git import newest_commit
    from amplifier_foundation.sources.uri import parse_source

    marker, program = tmp_path / "ran", tmp_path / "planted"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    project = tmp_path / "project"
    (project / ".git" / "objects").mkdir(parents=True)
    (project / ".git" / "refs").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    section, _, name = key.format(program=program).rpartition(".")
    head, _, sub = section.partition(".")
    value = "ssh://" if head == "url" else program
    quoted = f' "{sub}"' if sub else ""
    config = f"[{head}{quoted}]\n\t{name} = {value}\n[protocol]\n\tallow = always\n"
    (project / ".git" / "config").write_text(config, encoding="utf-8")
    source = parse_source("git+ssh://git@localhost:1/o/r@main")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    commit, problem = await newest_commit(source, environ, [str(project)])
    assert commit is None
    assert problem is not None
    assert not marker.exists()
