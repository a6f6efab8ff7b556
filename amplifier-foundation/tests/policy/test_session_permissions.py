"""What one running session may do: rules as the files are now, and what a person adds to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.policy.remembered_rules import RememberedRules, RememberError
from amplifier_foundation.sessions.permissions import SessionPermissions
from amplifier_foundation.trust.store import GivenTrust, TrustStore
from amplifier_kit.guard.policy.rules import Rule

_MAKE: tuple[str, dict[str, Any]] = ("process.exec", {"tool_name": "bash", "tool_input": {"command": "make"}})
_ALLOW = "rules: [{verdict: allow, command: make}]\n"
_DENY = "rules: [{verdict: deny, command: make, reason: not here}]\n"
_ASK = "rules: [{verdict: ask, command: make, reason: better ask}]\n"


@pytest.fixture
def folder(home: Home, project: Path) -> Path:
    """Return where the session has its folder."""
    return home.sessions(project) / "0123"


@pytest.fixture
def of(home: Home, project: Path, folder: Path) -> Callable[..., SessionPermissions]:
    """Return a function that gives the permissions of a session, of a plan if there is one."""

    def made(trust: bool = False, **plan: Any) -> SessionPermissions:
        prepared = Prepared.from_plan(plan, home.path, project)
        return SessionPermissions.of(prepared, folder, trust=GivenTrust.of(project, trust))

    return made


Of = Callable[..., SessionPermissions]


def test_defaults(of: Of) -> None:
    """Without any rules the defaults decide, and the policy says why."""
    permissions = of()
    verdict, reason, _, subject = permissions.policy(*_MAKE)
    assert (verdict, reason, subject) == ("ask", "running a command", _MAKE[1]["tool_input"]["command"])
    assert permissions.judge("filesystem.read", {"tool_input": {"path": "a"}}).verdict == "allow"
    assert permissions.problems == ()


def test_denial_without_a_rule_says_what_to_do(of: Of) -> None:
    """What no rule covers is denied with a hint; what a rule denies has the reason of the rule."""
    verdict, reason, *_ = of().policy("rocket.launch", {})
    assert verdict == "deny"
    assert "amplifier policy explain" in reason
    assert "rocket.launch" in reason


def test_files_that_change_count_at_once(of: Of, files: dict[str, Path]) -> None:
    """A rule that is written, changed or taken away while the session runs counts from the next decision on."""
    permissions = of()
    assert permissions.judge(*_MAKE).verdict == "ask"
    files["user"].write_text(_ALLOW, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "allow"
    files["project"].write_text(_DENY, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "deny"
    assert "not here" in permissions.policy(*_MAKE)[1]
    files["project"].unlink()
    files["user"].unlink()
    assert permissions.judge(*_MAKE).verdict == "ask"


def test_trust_that_is_taken_back_counts_at_once(of: Of, files: dict[str, Path], home: Home, project: Path) -> None:
    """What a project's file allows is allowed from the moment it is trusted to the moment it is not any more."""
    files["project"].write_text(_ALLOW, encoding="utf-8")
    permissions = of()
    assert permissions.judge(*_MAKE).verdict == "ask"
    TrustStore(home).trust(project)
    assert permissions.judge(*_MAKE).verdict == "allow"
    TrustStore(home).revoke(project)
    assert permissions.judge(*_MAKE).verdict == "ask"


def test_loaded_once_while_nothing_changes(project: Path, home: Home, folder: Path, of: Of) -> None:
    """Rules are not read again for every decision."""
    loads = []
    origin = of()

    def load() -> Any:
        loads.append(1)
        return origin.current

    permissions = SessionPermissions(load, RememberedRules(home, project, folder))
    for _ in range(5):
        permissions.judge(*_MAKE)
    assert len(loads) == 1


def test_project_may_allow_only_when_trusted(of: Of, files: dict[str, Path], home: Home, project: Path) -> None:
    """Rules of a project allow nothing unless it is trusted, for good or for this run."""
    files["project"].write_text(_ALLOW, encoding="utf-8")
    assert of().judge(*_MAKE).verdict == "ask"
    assert [problem.message for problem in of().problems] == [
        "1 rule that allows does not count: the project is not trusted"
    ]
    assert of(trust=True).judge(*_MAKE).verdict == "allow"
    TrustStore(home).trust(project)
    assert of().judge(*_MAKE).verdict == "allow"


def test_trust_for_a_run_ends_with_what_was_trusted(of: Of, files: dict[str, Path]) -> None:
    """What came into a project after the user trusted it for the run, by whatever way, allows nothing."""
    files["project"].write_text(_ASK.replace("make", "other"), encoding="utf-8")
    permissions = of(trust=True)
    assert permissions.judge(*_MAKE).verdict == "ask"
    files["local"].write_text(_ALLOW, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "ask"
    files["local"].unlink()
    files["project"].write_text(_ALLOW, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "ask"


def test_broken_file_tightens(of: Of, files: dict[str, Path]) -> None:
    """A file that breaks while the session runs allows nothing more than before, and is a problem with its place."""
    permissions = of()
    files["user"].write_text(_ALLOW, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "allow"
    files["user"].write_text("rules: [", encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict != "allow"
    assert str(files["user"]) in permissions.problems[0].where


def test_file_that_cannot_be_read_tightens(of: Of, files: dict[str, Path]) -> None:
    """A folder in the place of a rule file does not let anything pass that was denied or asked for."""
    files["user"].mkdir()
    permissions = of()
    assert permissions.judge(*_MAKE).verdict != "allow"
    assert permissions.problems


@pytest.mark.parametrize(("scope", "is_known"), [("user", True), ("project", True), ("local", True), (None, False)])
def test_whose_word_it_is(of: Of, files: dict[str, Path], scope: str | None, is_known: bool) -> None:
    """A rule that somebody wrote is a person's word; the defaults are not."""
    if scope is not None:
        files[scope].write_text(_ALLOW, encoding="utf-8")
    permissions = of(trust=True)
    assert permissions.is_allowed_by_person(*_MAKE) is is_known
    assert not permissions.is_allowed_by_person("filesystem.read", {"tool_input": {"path": "a"}})


def test_whose_word_it_is_not(of: Of, files: dict[str, Path]) -> None:
    """A rule that allows counts for nothing as long as another one asks or denies."""
    files["user"].write_text(_ALLOW, encoding="utf-8")
    for text in (_ASK, _DENY):
        files["project"].write_text(text, encoding="utf-8")
        assert not of().is_allowed_by_person(*_MAKE)


def test_rules_of_the_bundle_are_nobodys_word(of: Of) -> None:
    """What a bundle allows is not what a person has allowed."""
    hook = {"module": "hooks-approval", "config": {"rules": [{"verdict": "allow", "command": "make"}]}}
    permissions = of(trust=True, hooks=[hook])
    assert permissions.judge(*_MAKE).verdict == "allow"
    assert not permissions.is_allowed_by_person(*_MAKE)


def test_what_is_suggested_and_remembered_is_enough(of: Of, folder: Path) -> None:
    """The rules that are suggested for an action allow it, in this session from now on, and no other command."""
    permissions = of()
    rules = permissions.suggest(*_MAKE)
    (kept,) = permissions.remember(rules, "session")
    assert permissions.judge(*_MAKE).verdict == "allow"
    assert permissions.is_allowed_by_person(*_MAKE)
    assert kept.file == folder / "policy.yaml"
    other = {"tool_name": "bash", "tool_input": {"command": "make && curl example.com"}}
    assert permissions.judge("process.exec", other).verdict == "ask"
    assert permissions.suggest(*_MAKE) == ()
    assert of().judge(*_MAKE).verdict == "allow"  # the same session, taken up again


def test_another_session_does_not_know(of: Of, home: Home, project: Path) -> None:
    """What is remembered in one session holds in no other."""
    of().remember(of().suggest(*_MAKE), "session")
    other = SessionPermissions.of(Prepared.from_plan({}, home.path, project), home.sessions(project) / "4567")
    assert other.judge(*_MAKE).verdict == "ask"


def test_nothing_is_suggested_where_nothing_would_help(of: Of, files: dict[str, Path]) -> None:
    """For what is denied, and for what somebody wants to be asked about, no rule is suggested."""
    for text in (_ASK, _DENY):
        files["user"].write_text(text, encoding="utf-8")
        assert of().suggest(*_MAKE) == ()


def test_remembered_rule_does_not_beat_a_denial(of: Of, files: dict[str, Path]) -> None:
    """A rule that denies, written after something was remembered, denies."""
    permissions = of()
    permissions.remember(permissions.suggest(*_MAKE), "user")
    files["project"].write_text(_DENY, encoding="utf-8")
    assert permissions.judge(*_MAKE).verdict == "deny"


def test_untrusted_project_remembers_nothing(of: Of, files: dict[str, Path]) -> None:
    """A rule that would not count is not remembered."""
    permissions = of()
    with pytest.raises(RememberError, match="not trusted"):
        permissions.remember([Rule("allow", action="process.exec", command="make")], "local")
    assert not files["local"].exists()
    assert permissions.judge(*_MAKE).verdict == "ask"


def test_folder_of_the_session_that_is_a_file(of: Of, folder: Path) -> None:
    """Where nothing can be written, remembering raises, and nothing is allowed by it."""
    folder.parent.mkdir(parents=True)
    folder.write_text("", encoding="utf-8")
    permissions = of()
    with pytest.raises(Exception, match=r"policy\.yaml"):
        permissions.remember(permissions.suggest(*_MAKE), "session")
    assert permissions.judge(*_MAKE).verdict == "ask"
