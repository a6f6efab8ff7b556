"""`amplifier policy list`, `check` and `revoke`: the rules there are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.remembered_rules import RememberedRules
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.guard.policy.rules import Rule

Give = Callable[..., Result]
Wrote = Callable[[str, str], Path]

_USER = "rules:\n  - {command: 'git push *', verdict: deny}\n  - {comand: 'rm *', verdict: deny}\n"
_PROJECT = "rules: [{action: process.exec, verdict: allow}, {action: tool.x, verdict: ask}]\n"


def test_the_program_as_a_process(amplifier: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The group is in the tree of the program, its commands run, and the defaults are listed in a bare project."""
    listed = amplifier("policy", "list")
    assert listed.returncode == 0, listed.stderr
    assert 'allow filesystem.read path "**"' in listed.stdout
    assert "the program" in listed.stdout
    assert listed.stderr == ""
    explained = amplifier("policy", "explain", "--command", "ls; rm x")
    assert explained.stdout.startswith("ask: process.exec\n")


def test_list_by_source(give: Give, wrote: Wrote) -> None:
    """Every rule has its source and its line; those of an untrusted project that allow are marked, and why is said."""
    user, project = wrote("user", _USER), wrote("project", _PROJECT)
    result = give("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert any("deny command" in line and f"{user}:2" in line and "user" in line for line in lines)
    assert any("allow process.exec " in line and "project, ignored" in line for line in lines)
    assert any("ask everything" in line and "user, for a bad entry" in line and f"{user}:3" in line for line in lines)
    assert f"problem: {user}:3: unknown key 'comand'" in result.stderr
    assert f"problem: {project}: 1 rule that allows does not count" in result.stderr
    assert "amplifier trust" in result.stderr


def test_list_for_programs(give: Give, wrote: Wrote, home: Home, project: Path) -> None:
    """JSON has every rule with its parts, scope, place, whether it counts, and the id of remembered ones."""
    wrote("project", _PROJECT)
    (kept,) = RememberedRules(home, project).remember([Rule("allow", action="tool.y")], "user")
    record = json.loads(give("list", "--format", "json").stdout)
    by_rule = {each["rule"]: each for each in record["rules"]}
    assert by_rule["allow tool.y"]["id"] == kept.id
    assert by_rule["allow process.exec"]["counts"] is False
    assert by_rule["ask tool.x"]["scope"] == "project"
    assert by_rule["allow tool.todo"]["scope"] == "default"
    assert [problem["where"] for problem in record["problems"]] == [str(project / ".amplifier/policy.yaml")]


def test_list_remembered_by_sessions(give: Give, home: Home, project: Path) -> None:
    """What sessions of this project remember is listed with their ids, and can be revoked."""
    folder = home.sessions(project) / "abcd"
    folder.mkdir(parents=True)
    (kept,) = RememberedRules(home, project, folder).remember([Rule("allow", action="tool.y")], "session")
    line = next(line for line in give("list").stdout.splitlines() if kept.id in line)
    assert "session abcd" in line
    record = json.loads(give("list", "--format", "json").stdout)["rules"][0]
    assert (record["scope"], record["session"], record["id"]) == ("session", "abcd", kept.id)
    assert give("revoke", kept.id).exit_code == 0
    assert kept.id not in give("list").stdout


def test_rules_of_the_bundle_are_listed(give: Give, home: Home, project: Path) -> None:
    """Rules that the bundle configures hooks-approval with are there; an untrusted project's bundle does not allow."""
    bundle = project / "bundle.yaml"
    bundle.write_text(
        "bundle: {name: mine}\nincludes: [minimal]\nhooks:\n  - module: hooks-approval\n    config:\n"
        "      rules: [{action: tool.y, verdict: allow}, {pattern: 'rm *', action: auto_deny}]\n",
        encoding="utf-8",
    )
    (project / ".amplifier").mkdir()
    (project / ".amplifier/settings.yaml").write_text("bundle: {active: ./bundle.yaml}\n", encoding="utf-8")
    record = json.loads(give("list", "--format", "json").stdout)
    rules = {each["rule"]: each for each in record["rules"] if each["scope"] == "bundle"}
    assert rules["allow tool.y"]["counts"] is False
    assert rules['deny command "rm *"']["counts"] is True
    assert rules["allow tool.y"]["where"] == "bundle mine: hooks-approval, rule 1"
    TrustStore(home).trust(project, [bundle])
    record = json.loads(give("list", "--format", "json").stdout)
    assert next(each for each in record["rules"] if each["rule"] == "allow tool.y")["counts"] is True


def test_a_bundle_that_cannot_be_composed(give: Give, project: Path) -> None:
    """It is reported, and the other rules are listed all the same."""
    (project / ".amplifier").mkdir()
    (project / ".amplifier/settings.yaml").write_text("bundle: {active: nowhere-at-all}\n", encoding="utf-8")
    result = give("list")
    assert result.exit_code == 0
    assert "note: rules of the bundle are left out" in result.stderr
    assert "tool.todo" in result.stdout


def test_check(give: Give, wrote: Wrote) -> None:
    """Every policy file is checked; one with a problem is named with its line, and the exit code is 1."""
    assert give("check").exit_code == 0
    user, project = wrote("user", _USER), wrote("project", _PROJECT)
    result = give("check")
    assert result.exit_code == 1
    assert f"{user}:3: unknown key 'comand'" in result.stdout
    assert f"{user}: 1 problem (1 rule)" in result.stdout
    assert f"{project}: valid (2 rules)" in result.stdout
    record = json.loads(give("check", "--format", "json").stdout)
    assert (record["valid"], len(record["problems"]), len(record["sources"])) == (False, 1, 2)


@pytest.mark.parametrize("pattern", [" git push *", "git  push *", "git push * "])
def test_check_reports_what_can_match_nothing(give: Give, wrote: Wrote, pattern: str) -> None:
    """A rule with blanks that no command has is named with its line, and what it means is asked for meanwhile."""
    user = wrote(
        "user", f"rules:\n  - {{command: 'git *', verdict: allow}}\n  - {{command: '{pattern}', verdict: deny}}\n"
    )
    result = give("check")
    assert result.exit_code == 1
    assert f"{user}:3" in result.stdout
    assert "did you mean 'git push *'" in result.stdout
    explained = give("explain", "--command", "git push origin")
    assert explained.stdout.startswith("ask: process.exec\n")
    assert f"{user}:3" in explained.stderr


def test_check_a_file(give: Give, project: Path) -> None:
    """A file that is not in use yet can be checked, examples and all; one that does not exist is an error."""
    text = "rules: [{action: process.exec, command: 'make *', verdict: allow, match: [make all], not_match: [rm x]}]\n"
    (project / "new.yaml").write_text(text, encoding="utf-8")
    assert give("check", "new.yaml").exit_code == 0
    (project / "new.yaml").write_text(text.replace("make all", "ninja"), encoding="utf-8")
    failed = give("check", "new.yaml")
    assert failed.exit_code == 1
    assert "does not match its example 'ninja'" in failed.stdout
    missing = give("check", "nothing.yaml", "--format", "json")
    assert missing.exit_code == 2
    assert json.loads(missing.stdout)["code"] == "path_not_found"


def test_revoke(give: Give, home: Home, project: Path) -> None:
    """A remembered rule is gone from its file; an id that means nothing is an error with its code."""
    (kept,) = RememberedRules(home, project).remember([Rule("allow", action="tool.y")], "user")
    result = give("revoke", kept.id[:5], "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["id"] == kept.id
    again = give("revoke", kept.id, "--format", "json")
    assert again.exit_code == 2
    assert json.loads(again.stdout)["code"] == "policy_rule_not_found"


@pytest.mark.parametrize("command", ["list", "check", "explain", "suggest", "allow", "ask", "deny", "remove"])
def test_help(give: Give, command: str) -> None:
    """Every command shows how it is used."""
    shown = give(command, "--help")
    assert shown.exit_code == 0
    assert f"amplifier policy {command}" in shown.stdout.partition("Examples:")[2]
