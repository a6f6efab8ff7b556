"""Rules read from a file: bad entries are reported alone, and nothing fails open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rule_parser import Problem, check_examples, parse_rules
from amplifier_kit.guard.policy.rules import Example, Rule, RuleSet

PROJECT = Path("/project")


def parse(*entries: Any) -> tuple[list[Rule], list[Problem]]:
    """Read entries of a file whose lines are those of the entries."""
    return parse_rules(list(entries), lambda index, key: f"policy.yaml:{index + 1}:{key or ''}")


def test_entry_becomes_a_rule() -> None:
    """Every key of an entry is kept, and where it stands."""
    entry = {
        "verdict": "allow", "action": "process.exec", "tool": "bash", "command": "git status*", "reason": "only looks",
        "match": ["git status --short"], "not_match": ["git push", {"command": "git status; rm x"}],
    }  # fmt: skip
    rules, problems = parse(entry)
    assert problems == []
    assert rules == [
        Rule(
            "allow", "process.exec", "bash", "git status*", reason="only looks", where="policy.yaml:1:",
            match=(Example(command="git status --short"),),
            not_match=(Example(command="git push"), Example(command="git status; rm x")),
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"verdict": "allow", "comand": "ls"}, "comand"),
        ({"verdict": "allow", "command": None}, "command"),
        ({"verdict": "allow", "command": 3}, "command"),
        ({"verdict": "allow", "command": "a", "path": "b"}, "path"),
        ({"verdict": "allow", "reason": ["x"]}, "reason"),
        ({"verdict": "allow", "command": "ls", "match": "ls"}, "match"),
        ({"verdict": "allow", "command": "ls", "match": [3]}, "match"),
        ({"verdict": "allow", "command": "ls", "not_match": [{"comand": "x"}]}, "not_match"),
        ({"verdict": "allow", "host": "*x"}, "host"),
    ],
)
def test_bad_allowing_entry_is_left_out(entry: dict[str, Any], key: str) -> None:
    """An entry that would allow, but is not understood, allows nothing; its neighbours stay."""
    rules, problems = parse({"verdict": "allow", "command": "a"}, entry, {"verdict": "deny", "command": "b"})
    assert [rule.command for rule in rules] == ["a", "b"]
    assert [problem.where for problem in problems] == [f"policy.yaml:2:{key}"]
    assert "left out" in problems[0].message


@pytest.mark.parametrize(
    ("entry", "action"),
    [
        ({"verdict": "deny", "action": "process.exec", "comand": "rm *"}, "process.exec"),
        ({"verdict": "ask", "action": "process.exec", "command": ""}, "process.exec"),
        ({"verdict": "dney", "action": "process.exec", "command": "rm *"}, "process.exec"),
        ({"action": "process.exec", "command": "rm *"}, "process.exec"),
        ({"verdict": "deny", "action": ["process.exec"], "command": "rm *"}, None),
        ({"verdict": "deny", "comand": "rm *"}, None),
        ({"verdict": True}, None),
        ("deny rm", None),
        (None, None),
        ([], None),
    ],
)
def test_bad_restricting_entry_asks_instead(entry: Any, action: str | None) -> None:
    """An entry that would restrict, but is not understood, asks for its action, or for everything."""
    rules, problems = parse(entry)
    assert [(rule.verdict, rule.action, rule.command) for rule in rules] == [("ask", action, None)]
    assert len(problems) == 1
    own = RuleSet([*rules, Rule("allow")], PROJECT)
    assert own.decide(facts("process.exec", {"command": "rm x"}, PROJECT)).verdict == "ask"


@pytest.mark.parametrize("data", ["allow", {"verdict": "allow"}, 3, True])
def test_rules_that_are_no_list_ask_for_everything(data: Any) -> None:
    """When nothing of a file's rules can be read, everything is asked for."""
    rules, problems = parse_rules(data, lambda index, key: "policy.yaml:1")
    assert [str(rule) for rule in rules] == ["ask everything"]
    assert problems[0].where == "policy.yaml:1"
    assert parse_rules(None, lambda index, key: "") == ([], [])


def test_rule_that_fails_its_examples_does_not_allow() -> None:
    """A rule that is wrong about its own examples is not what its author thinks."""
    wrong = {"command": "git *", "not_match": ["git push"]}
    rules, problems = parse({"verdict": "allow", **wrong})
    assert rules == []
    assert "its example 'git push'" in problems[0].message
    rules, problems = parse({"verdict": "deny", "action": "process.exec", "command": "rm x", "match": ["rm y"]})
    assert [str(rule) for rule in rules] == ['deny process.exec command "rm x"', "ask process.exec"]
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("rule", "failures"),
    [
        (Rule("allow", command="ls *", match=(Example(command="ls; ls x"),)), 0),
        (Rule("allow", command="ls *", match=(Example(command="ls > x"),)), 1),
        (Rule("deny", command="rm *", match=(Example(command="ls; sudo rm x"),)), 0),
        (Rule("deny", path="secrets/**", match=(Example(path="src/../secrets/x"),), not_match=(Example(path="x"),)), 0),
        (Rule("allow", path="src/**", not_match=(Example(path="src/../x"), Example(path="/etc/passwd"))), 0),
        (Rule("allow", host="*.example.com", match=(Example(host="https://a.example.com/x"),)), 0),
        (Rule("allow", host="example.com", not_match=(Example(host="https://example.com@evil.net/"),)), 0),
        (Rule("ask", action="session.spawn", match=(Example(action="session.spawn"),)), 0),
        (Rule("ask", action="session.spawn", not_match=(Example(action="session.spawn"),)), 1),
        (Rule("allow", tool="b*", match=(Example(tool="bash"),), not_match=(Example(tool="cash"),)), 0),
    ],
)
def test_examples_are_decided(rule: Rule, failures: int) -> None:
    """An example matches when the rule alone gives its verdict on it."""
    assert len(check_examples(rule)) == failures
