"""Decisions that hold from then on: in a session, in a project, for the user; each can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.remembered_rules import RememberedRules, RememberError, RuleNotFoundError
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.guard.policy.rules import Rule

_MAKE = Rule("allow", action="process.exec", command="make test")
_FILE = Rule("allow", action="filesystem.write", path="src/a.py")
_RUN: tuple[str, dict[str, Any]] = ("process.exec", {"command": "make test"})


@pytest.fixture
def folder(home: Home, project: Path) -> Path:
    """Return the folder of a session that runs."""
    path = home.sessions(project) / "0123"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def memory(home: Home, project: Path, folder: Path) -> RememberedRules:
    """Return what remembers in a session."""
    return RememberedRules(home, project, folder)


@pytest.mark.parametrize("scope", ["session", "local", "user"])
def test_remembered_until_revoked(
    memory: RememberedRules, trusted: TrustStore, home: Home, project: Path, folder: Path, scope: Any
) -> None:
    """A decision holds in a new process from the moment it is kept until it is taken back by its id."""
    (kept,) = memory.remember([_MAKE], scope)
    assert (kept.scope, str(kept.rule)) == (scope, str(_MAKE))
    assert kept.rule.reason.startswith("remembered 20")
    assert Permissions.load(home, project, session=folder).judge(*_RUN).verdict == "allow"
    (listed,) = RememberedRules(home, project).list()
    assert (listed.id, listed.scope) == (kept.id, scope)
    assert listed.session == ("0123" if scope == "session" else None)
    assert memory.revoke(kept.id[:6]).id == kept.id
    assert Permissions.load(home, project, session=folder).judge(*_RUN).verdict == "ask"
    assert memory.list() == ()


def test_scopes_end_where_they_say(
    memory: RememberedRules, trusted: TrustStore, home: Home, project: Path, tmp_path: Path
) -> None:
    """What is remembered in a session holds in no other, and what in a project in no other."""
    memory.remember([_MAKE], "session")
    assert Permissions.load(home, project).judge(*_RUN).verdict == "ask"
    memory.remember([_MAKE], "local")
    assert Permissions.load(home, project).judge(*_RUN).verdict == "allow"
    other = tmp_path / "other"
    other.mkdir()
    assert Permissions.load(home, other).judge(*_RUN).verdict == "ask"
    memory.remember([_MAKE], "user")
    assert Permissions.load(home, other).judge(*_RUN).verdict == "allow"


def test_files_are_private(memory: RememberedRules, folder: Path) -> None:
    """What a session remembers is in its folder, for its owner alone."""
    memory.remember([_MAKE], "session")
    assert (folder / "policy.yaml").stat().st_mode & 0o777 == 0o600


def test_the_users_rule_is_about_the_file_that_was_shown(
    memory: RememberedRules, home: Home, project: Path, tmp_path: Path
) -> None:
    """A path relative to the project is written out for the user: the same name elsewhere is another file."""
    (kept,) = memory.remember([_FILE], "user")
    assert kept.rule.path == f"{project}/src/a.py"
    write = ("filesystem.write", {"path": "src/a.py"})
    assert Permissions.load(home, project).judge(*write).verdict == "allow"
    other = tmp_path / "other"
    other.mkdir()
    assert Permissions.load(home, other).judge(*write).verdict == "ask"


def test_a_project_with_wildcards_in_its_name(home: Home, tmp_path: Path) -> None:
    """Brackets and question marks in the name of a project's folder are names, not patterns."""
    odd = tmp_path / "odd [ab] ?"
    odd.mkdir()
    RememberedRules(home, odd).remember([_FILE], "user")
    assert Permissions.load(home, odd).judge("filesystem.write", {"path": "src/a.py"}).verdict == "allow"
    (tmp_path / "odd a x").mkdir()
    judged = Permissions.load(home, tmp_path / "odd a x").judge("filesystem.write", {"path": "src/a.py"})
    assert judged.verdict == "ask"


def test_twice_is_once(memory: RememberedRules) -> None:
    """The same decision again gives the same rule with the same id."""
    assert memory.remember([_MAKE], "user") == memory.remember([_MAKE, _MAKE], "user")[:1]
    assert len(memory.list()) == 1


def test_an_untrusted_project_remembers_no_grant(memory: RememberedRules, project: Path) -> None:
    """What would not count is not written, and it is said what to do; a denial can be kept."""
    with pytest.raises(RememberError, match="amplifier trust"):
        memory.remember([_MAKE], "local")
    assert not (project / ".amplifier/policy.local.yaml").exists()
    memory.remember([Rule("deny", action="process.exec", command="rm *")], "local")
    assert len(memory.list()) == 1


def test_a_trusted_project_stays_trusted(memory: RememberedRules, trusted: TrustStore, project: Path) -> None:
    """Our own change needs no second look; a change of somebody else to the same file does, and stays noticed."""
    (kept,) = memory.remember([_MAKE], "local")
    assert trusted.state(project).trusted
    memory.revoke(kept.id)
    assert trusted.state(project).trusted
    memory.remember([_MAKE], "local")
    file = project / ".amplifier/policy.local.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "  - {verdict: allow}\n", encoding="utf-8")
    with pytest.raises(RememberError, match=r"policy\.local\.yaml changed"):
        memory.remember([_FILE], "local")
    memory.remember([Rule("deny", action="tool.x")], "local")
    assert trusted.state(project).state == "changed"


def test_rules_of_people_are_not_ours_to_revoke(memory: RememberedRules, home: Home) -> None:
    """What somebody wrote has no id; taking back a remembered rule leaves it where it is."""
    file = home.path / "policy.yaml"
    written = "rules:\n  # mine\n  - {action: process.exec, command: make test, verdict: allow}\n"
    file.write_text(written, encoding="utf-8")
    assert memory.list() == ()
    (kept,) = memory.remember([_MAKE], "user")
    memory.revoke(kept.id)
    assert file.read_text(encoding="utf-8") == written


def test_ids_that_mean_nothing_or_too_much(memory: RememberedRules) -> None:
    """No id, an unknown one and the beginning of several are refused, and nothing is taken back."""
    memory.remember([_MAKE, *(Rule("allow", action=f"tool.{number}") for number in range(40))], "user")
    ids = [each.id for each in memory.list()]
    shared = next(one[:1] for one in ids if sum(other.startswith(one[:1]) for other in ids) > 1)
    for text in ("", "zz", shared):
        with pytest.raises(RuleNotFoundError, match="policy list"):
            memory.revoke(text)
    assert len(memory.list()) == 41


def test_without_a_session(home: Home, project: Path) -> None:
    """There is no place for a session's decision when none runs; scopes that do not exist are refused."""
    memory = RememberedRules(home, project)
    with pytest.raises(RememberError, match="no session"):
        memory.remember([_MAKE], "session")
    with pytest.raises(RememberError, match="is not a scope"):
        memory.remember([_MAKE], "project")  # type: ignore[arg-type]


def test_a_damaged_memory_grants_nothing(memory: RememberedRules, home: Home, project: Path, folder: Path) -> None:
    """A session whose file cannot be read remembers nothing and asks for everything."""
    memory.remember([_MAKE], "session")
    file = folder / "policy.yaml"
    file.write_bytes(file.read_bytes()[:-10] + b"\xff")
    assert memory.list() == ()
    permissions = Permissions.load(home, project, session=folder)
    assert permissions.judge(*_RUN).verdict == "ask"
    assert permissions.judge("filesystem.read", {"path": "a"}).verdict == "ask"
    assert str(file) in permissions.problems[0].where


def test_remember_what_was_suggested(memory: RememberedRules, home: Home, project: Path, folder: Path) -> None:
    """One "always" keeps exactly the rules that were shown, and the same action is not asked for again."""
    details = {"tool_name": "bash", "tool_input": {"command": "make test > 'out [a].txt'"}}
    rules = Permissions.load(home, project).suggest("tool.bash", details)
    kept = memory.remember(rules, "session")
    assert [str(each.rule) for each in kept] == [str(rule) for rule in rules]
    assert Permissions.load(home, project, session=folder).judge("tool.bash", details).verdict == "allow"


def test_sessions_of_another_project_are_not_listed(
    memory: RememberedRules, home: Home, tmp_path: Path, session: Callable[..., Path]
) -> None:
    """Only sessions of this project are looked at."""
    other = tmp_path / "other"
    other.mkdir()
    RememberedRules(home, other, session(working_dir=other)).remember([_MAKE], "session")
    assert memory.list() == ()
