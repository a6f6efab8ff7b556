"""A rule that allows `git status` is about the project's repository, wherever a line or a tool goes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.repositories import repository_of
from amplifier_kit.guard.policy.rules import Decision, Rule, RuleSet, suggest
from amplifier_kit.guard.redaction.redactor import Redactor

_RULES = [Rule("allow", command="git *"), Rule("allow", command="cd *")]


def _git(*words: str, folder: Path) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that git has made, with a plain folder, a bare repository and a work tree in it."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    _git("init", folder=project)
    _git("init", "--bare", "planted", folder=project)
    _git("init", "nested", folder=project)
    return project


def _decide(command: str, project: Path, *rules: Rule, **details: Any) -> Decision:
    given = {"tool_name": "bash", "tool_input": {"command": command, **details.pop("tool_input", {})}, **details}
    return RuleSet(rules or _RULES, project).decide(facts("process.exec", given, project))


def test_an_embedded_bare_repository_is_not_allowed_by_its_neighbour(project: Path) -> None:
    """What git would run there is not what the rule is about, and the reason names the repository."""
    marker = project / "ran"
    _git("config", "core.fsmonitor", f"touch {marker}; false", folder=project / "planted")
    decision = _decide("cd planted && git --no-pager log", project)
    assert decision.verdict is None
    assert str(project / "planted") in decision.reason
    assert not suggest(facts("process.exec", {"command": "cd planted && git status"}, project))


def test_a_folder_that_is_known_later_reveals_no_secret(project: Path) -> None:
    """The command that decides the folder is cut in the reason so that redaction recognises a known secret in it."""
    secret = "correct-horse-battery-staple-77"
    decision = _decide(f'cd "$X/backups/of/this/project/{secret}" && git status', project)
    assert "a folder that is not known yet" in decision.reason
    assert "correct" not in Redactor([secret]).scrub_text(decision.reason)


@pytest.mark.parametrize("folder", ["planted", "nested", "..", "/", "missing"])
@pytest.mark.parametrize("key", ["working_dir", "cwd", "workdir", "working_directory"])
def test_the_folder_of_the_tool_counts(folder: str, key: str, project: Path) -> None:
    """Where a tool runs its commands is as good as a `cd`, whether it says so itself or takes it as input."""
    given = {"working_dir": folder} if key == "working_dir" else {"tool_input": {key: folder}}
    assert _decide("git status", project, **given).verdict is None
    assert _decide("ls", project, Rule("allow", command="ls *"), **given).verdict == "allow"
    plain = {"working_dir": "src"} if key == "working_dir" else {"tool_input": {key: "src"}}
    assert _decide("git status", project, **plain).verdict == "allow"


def test_a_folder_given_as_input_counts_for_redirects(project: Path) -> None:
    """A file that the shell opens lies in the folder that the tool was given."""
    rules = (Rule("allow", command="ls *"), Rule("allow", path="src/**"), Rule("deny", path="planted/**"))
    decision = _decide("ls > src/list", project, *rules, tool_input={"cwd": "planted"})
    assert decision.verdict == "deny"


def test_a_session_in_a_folder_of_a_repository_may_look_at_all_of_it(project: Path) -> None:
    """The repository decides, not the folder that a session was started in."""
    assert _decide("cd .. && git status", project / "src").verdict == "allow"
    assert _decide("cd ../planted && git status", project / "src").verdict is None


def test_a_project_that_is_a_bare_repository_is_asked_for(project: Path) -> None:
    """Nothing tells a repository that somebody made from one that an archive has brought."""
    assert _decide("git status", project / "planted").verdict is None


def test_a_project_without_a_repository_ends_at_its_folder(tmp_path: Path) -> None:
    """Where git finds nothing, it runs nothing: below the project that is known, elsewhere it may change."""
    if (above := repository_of(str(tmp_path))) is not None:
        pytest.skip(f"temporary folders are in the repository {above}")
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    assert _decide("cd src && git status", tmp_path / "project").verdict == "allow"
    assert _decide("cd ../beside && git status", tmp_path / "project").verdict is None


def test_a_rule_for_every_command_still_allows_it(project: Path) -> None:
    """The words are known: only rules that name a command are about the project."""
    rules = (Rule("allow", action="process.exec"), Rule("deny", command="rm *"))
    assert _decide("cd planted && git status", project, *rules).verdict == "allow"
    assert _decide("cd planted && git push", project, *_RULES, Rule("deny", command="git push *")).verdict == "deny"


def test_the_search_path_of_the_shell_is_followed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CDPATH in the environment, `cd src` may lead elsewhere."""
    (project / "nested/src").mkdir()
    monkeypatch.setenv("CDPATH", str(project / "nested"))
    assert _decide("cd src && git status", project).verdict is None
    assert _decide("cd ./src && git status", project).verdict == "allow"


def test_git_finds_the_same_repository(project: Path) -> None:
    """Git itself, asked in each folder, agrees about which repository it is."""
    for folder in (project, project / "src", project / "planted", project / "planted/refs", project / "nested"):
        told = subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir"], cwd=folder, check=True, capture_output=True, text=True
        )
        assert repository_of(str(folder)) == told.stdout.strip()


@pytest.mark.parametrize(
    "command",
    [
        "git push ./planted HEAD:x",
        "git push planted",
        "git push -f planted HEAD",
        "git push -o x planted",
        "git push --push-option https://x.example planted",
        "git push --repo=planted",
        "git push --repo planted",
        "git push origin ./planted",
        "git push -- planted",
        "git push file:///somewhere/planted",
        "git push FILE://somewhere",
        "git push /somewhere",
        "git push ~/somewhere",
        "git push missing/there HEAD",
        "git push ./$x",
        "git fetch ../x",
        "git fetch --depth 1 planted",
        "git fetch --all ./planted",
        "git fetch 'ext::sh -c make'",
        "git pull --rebase planted main",
        "git pull -s ours planted main",
        "git clone ./planted copy",
        "git clone -b main planted",
        "git clone --depth 1 planted copy",
        "git ls-remote planted",
        "git remote show ./planted",
        "git remote update planted",
        "git submodule add ./planted sub",
        "git submodule add -b main planted",
        "git fetch-pack planted",
        "git send-pack ./planted",
        "git --no-pager push planted",
        "/usr/bin/git push planted",
        "cd src && git push ../planted",
        "git receive-pack planted",
        "git upload-pack planted",
        "git upload-archive planted",
        "git http-backend",
    ],
)
def test_a_repository_that_is_contacted_by_its_path_is_asked_for(command: str, project: Path) -> None:
    """Its hooks and configuration are run by `git push` and the like, and the rule is not about them."""
    rules = (*_RULES, Rule("allow", command="/usr/bin/git *"))
    assert _decide(command, project, *rules).verdict is None


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "git push -u origin HEAD",
        "git push -u nested HEAD",
        "git push origin src planted",
        "git push origin HEAD:refs/heads/x/y",
        "git push git@x.example:a/b.git main",
        "git push https://x.example/a/b main",
        "git push --force-with-lease origin feature/x",
        "git push team/fork main",
        "git fetch origin",
        "git fetch origin feature/x",
        "git fetch --depth 1 origin",
        "git fetch . main:other",
        "git fetch --all --prune",
        "git pull --rebase",
        "git pull --rebase origin main",
        "git pull -s ours origin main",
        "git clone https://x.example/a/b",
        "git clone https://x.example/a/b ./planted/x",
        "git clone --bare https://x.example/a/b ./there",
        "git clone -b main --depth 1 https://x.example/a/b src/b",
        "git ls-remote",
        "git ls-remote --heads origin",
        "git remote",
        "git remote -v",
        "git remote show origin",
        "git remote get-url origin",
        "git remote update",
        "git submodule update --init",
        "git submodule add https://x.example/a/b src/b",
    ],
)
def test_remotes_of_the_project_and_of_the_net_are_contacted_as_rules_say(command: str, project: Path) -> None:
    """What the project's repository is configured with, and addresses, are as good as before."""
    for name in ("origin", "nested", "team/fork"):
        _git("remote", "add", name, "https://x.example/a", folder=project)
    assert _decide(command, project).verdict == "allow"


def test_an_empty_project_still_contacts_no_folder(tmp_path: Path) -> None:
    """Without a repository, a folder beside is nothing that a rule about git means."""
    (tmp_path / "project").mkdir()
    _git("init", "--bare", "planted", folder=tmp_path / "project")
    assert _decide("git clone planted copy", tmp_path / "project").verdict is None
