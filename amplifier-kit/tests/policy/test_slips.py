"""Rules that can match nothing are told, and what they may have been about is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.policy import Rule, RuleSet, facts, parse_rules
from amplifier_kit.policy.slips import slip_in

_PROJECT = Path("/project")


def _parsed(entry: dict[str, Any]) -> tuple[list[Rule], list[str]]:
    rules, problems = parse_rules([entry], lambda index, key: key or "")
    return rules, [f"{problem.where}: {problem.message}" for problem in problems]


@pytest.mark.parametrize("verdict", ["deny", "ask"])
@pytest.mark.parametrize(
    ("entry", "action", "details", "where"),
    [
        ({"action": "filesystem.wirte", "path": "secret/**"}, "filesystem.write", {"path": "secret/x"}, "action"),
        ({"action": "filesytem.write"}, "filesystem.write", {"path": "x"}, "action"),
        ({"action": "Proces.exec"}, "process.exec", {"command": "ls"}, "action"),
        ({"action": "process.execs"}, "process.exec", {"command": "ls"}, "action"),
        ({"action": "network_fetch", "host": "*"}, "network.fetch", {"host": "example.com"}, "action"),
        ({"action": "filesystem.write", "command": "rm *"}, "process.exec", {"command": "rm x"}, "command"),
        ({"action": "filesystem.*", "command": "rm *"}, "process.exec", {"command": "rm x"}, "command"),
        ({"action": "process.exec", "host": "x.org"}, "network.fetch", {"host": "x.org"}, "host"),
    ],
)
def test_what_a_rule_that_matches_nothing_was_about_is_asked_for(
    entry: dict[str, str], action: str, details: dict[str, str], where: str, verdict: str
) -> None:
    """A rule that restricts and can match nothing is reported at its key, stays, and what it means is asked for."""
    rules, (problem,) = _parsed({**entry, "verdict": verdict})
    assert problem.startswith(f"{where}: ")
    assert rules[0] == Rule(verdict, **entry)  # type: ignore[arg-type]
    decided = RuleSet.from_rules([Rule("allow"), *rules], _PROJECT).decide(facts(action, details, _PROJECT))
    assert decided.verdict == "ask"


def test_what_it_does_not_mean_is_not_asked_for() -> None:
    """What stands in for a rule about a path is about that path."""
    rules, _ = _parsed({"action": "filesystem.wirte", "path": "secret/**", "verdict": "deny"})
    other = facts("filesystem.write", {"path": "src/x"}, _PROJECT)
    assert RuleSet.from_rules([Rule("allow"), *rules], _PROJECT).decide(other).verdict == "allow"


def test_a_rule_that_allows_nothing_is_left_out() -> None:
    """A slip never widens what is allowed."""
    rules, (problem,) = _parsed({"action": "filesystem.wirte", "verdict": "allow"})
    assert rules == []
    assert "left out" in problem


@pytest.mark.parametrize(
    "rule",
    [
        Rule("deny", action="filesystem.write", path="x"), Rule("deny", action="FileSystem.Write"),
        Rule("deny", action="process.exec", path="x"), Rule("deny", action="network.fetch", path="x"),
        Rule("deny", action="mcp.call", command="x"), Rule("deny", action="tool.anything", command="x"),
        Rule("deny", action="rocket.launch"), Rule("deny", action="network.patch"), Rule("deny", action="*", host="x"),
        Rule("deny", action="filesystem.mount", command="x"), Rule("deny", action="filesystem.rea?"),
        Rule("deny", action="process.*", command="x"), Rule("deny", command="x"), Rule("deny"),
        Rule("allow", action="process.exec", host="x"), Rule("allow", action="filesystem.write", command="create"),
    ],
)  # fmt: skip
def test_what_can_match_is_no_slip(rule: Rule) -> None:
    """Actions of other modules, patterns and pairs that occur are left alone."""
    assert slip_in(rule) is None
