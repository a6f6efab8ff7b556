"""Rules that can match nothing are told, and what they may have been about is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rule_parser import example_command, find_mistake, parse_rules
from amplifier_kit.guard.policy.rules import Rule, RuleSet

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
        ({"command": " rm *"}, "process.exec", {"command": "rm x"}, "command"),
        ({"command": "rm * "}, "process.exec", {"command": "rm x"}, "command"),
        ({"command": "rm  -rf *"}, "process.exec", {"command": "rm -rf x"}, "command"),
        ({"command": "*  --force*"}, "process.exec", {"command": "git push --force"}, "command"),
        ({"command": 'git commit -m "wip *"'}, "process.exec", {"command": "git commit -m 'wip x'"}, "command"),
        ({"command": "git commit -m 'wip'"}, "process.exec", {"command": "git commit -m wip"}, "command"),
        ({"command": "curl *  |  sh"}, "process.exec", {"command": "curl x | sh"}, "command"),
        ({"command": "r\u200bm *"}, "process.exec", {"command": "ls"}, "command"),
        ({"command": "it's *"}, "process.exec", {"command": "ls"}, "command"),
        ({"path": " secret/**"}, "filesystem.read", {"path": "secret/x"}, "path"),
        ({"path": "secret\\**"}, "filesystem.read", {"path": "secret/x"}, "path"),
        ({"path": "https://x.org/**"}, "network.fetch", {"host": "x.org"}, "path"),
        ({"host": "*.10.0.0.1"}, "network.fetch", {"host": "10.0.0.1"}, "host"),
        ({"host": "*.::1"}, "network.fetch", {"host": "::1"}, "host"),
        ({"action": " process.exec"}, "process.exec", {"command": "ls"}, "action"),
        ({"tool": "bash "}, "process.exec", {"tool_name": "bash", "command": "ls"}, "tool"),
        ({"action": "tool.bash"}, "process.exec", {"tool_name": "bash", "command": "ls"}, "action"),
        ({"action": "Tool.Write_File"}, "filesystem.write", {"tool_name": "write_file", "path": "x"}, "action"),
        ({"tool": "tool-bash"}, "process.exec", {"tool_name": "bash", "command": "ls"}, "tool"),
        ({"tool": "tool-apply-patch"}, "filesystem.write", {"tool_name": "apply_patch", "path": "x"}, "tool"),
        ({"tool": "tool-filesystem"}, "filesystem.write", {"tool_name": "edit_file", "path": "x"}, "tool"),
        ({"tool": "Bash(*)"}, "process.exec", {"tool_name": "bash", "command": "ls"}, "tool"),
        ({"tool": "Bash(rm:*)"}, "process.exec", {"tool_name": "bash", "command": "rm x"}, "tool"),
        ({"tool": "Read(./.env)"}, "filesystem.read", {"tool_name": "read_file", "path": ".env"}, "tool"),
        ({"tool": "Other(x)"}, "filesystem.read", {"tool_name": "read_file", "path": ".env"}, "tool"),
        ({"tool": "MultiEdit"}, "filesystem.write", {"tool_name": "edit_file", "path": "x"}, "tool"),
        ({"action": "process.exec", "path": "**"}, "process.exec", {"command": "ls"}, "path"),
        ({"path": "{secrets,other}/**"}, "filesystem.read", {"path": "secrets/d/k"}, "path"),
        ({"path": "a/{b/c,d}/x"}, "filesystem.read", {"path": "a/b/c/x"}, "path"),
        ({"path": "$HOME/x/**"}, "filesystem.read", {"path": "~/x/y"}, "path"),
        ({"path": "${HOME}/x"}, "filesystem.read", {"path": "~/x"}, "path"),
        ({"path": "$DATA/x/**"}, "filesystem.read", {"path": "/srv/data/x/y"}, "path"),
        ({"path": "!public/**"}, "filesystem.read", {"path": "secrets/x"}, "path"),
    ],
)
def test_what_a_rule_that_matches_nothing_was_about_is_asked_for(
    entry: dict[str, str], action: str, details: dict[str, str], where: str, verdict: str
) -> None:
    """A rule that restricts and can match nothing is reported at its key, stays, and what it means is asked for."""
    rules, (problem,) = _parsed({**entry, "verdict": verdict})
    assert problem.startswith(f"{where}: ")
    assert rules[0] == Rule(verdict, **entry)  # type: ignore[arg-type]
    decided = RuleSet([Rule("allow"), *rules], _PROJECT).decide(facts(action, details, _PROJECT))
    assert decided.verdict == "ask"


def test_what_it_does_not_mean_is_not_asked_for() -> None:
    """What stands in for a rule about a path is about that path."""
    rules, _ = _parsed({"action": "filesystem.wirte", "path": "secret/**", "verdict": "deny"})
    other = facts("filesystem.write", {"path": "src/x"}, _PROJECT)
    assert RuleSet([Rule("allow"), *rules], _PROJECT).decide(other).verdict == "allow"


def test_a_rule_that_allows_nothing_is_left_out() -> None:
    """A slip never widens what is allowed."""
    rules, (problem,) = _parsed({"action": "filesystem.wirte", "verdict": "allow"})
    assert rules == []
    assert "left out" in problem


@pytest.mark.parametrize(
    "entry",
    [
        {"command": " ls *"}, {"command": "ls  *"}, {"command": "ls * "}, {"command": "git commit -m \"x\""},
        {"command": "make && make test"}, {"command": "git -C .. status"}, {"command": "sed -i s/a/b/ x"},
        {"command": "if ls"}, {"path": "/proc/self/environ"}, {"path": "/proc/**"}, {"path": "src\\*"},
        {"action": "Process.Exec"}, {"action": "process.exec "}, {"host": "*.127.0.0.1"}, {"command": "x\u00a0y"},
        {"command": "x[z-a]"}, {"host": "-10.0.0.1"}, {"host": "0x-1.1"},
    ],
)  # fmt: skip
def test_a_rule_that_can_allow_nothing_is_reported(entry: dict[str, str]) -> None:
    """A rule that allows, and that nothing can match, is reported and left out."""
    rules, problems = _parsed({**entry, "verdict": "allow"})
    assert rules == []
    assert len(problems) == 1
    assert "left out" in problems[0]


@pytest.mark.parametrize(
    "rule",
    [
        Rule("deny", action="filesystem.write", path="x"), Rule("deny", action="FileSystem.Write"),
        Rule("deny", action="process.exec", path="x"), Rule("deny", action="network.fetch", path="x"),
        Rule("deny", action="mcp.call", command="x"), Rule("deny", action="tool.anything", command="x"),
        Rule("deny", action="rocket.launch"), Rule("deny", action="network.patch"), Rule("deny", action="*", host="x"),
        Rule("deny", action="filesystem.mount", command="x"), Rule("deny", action="filesystem.rea?"),
        Rule("deny", action="process.*", command="x"), Rule("deny", command="x"), Rule("deny"),
        Rule("allow", command="git commit -m 'a  b'"), Rule("allow", command="find . -exec ls ;"),
        Rule("allow", command="grep -E a|b *"), Rule("deny", command="curl * | sh*"), Rule("deny", command="a&&b"),
        Rule("allow", command="*"), Rule("allow", command="ls '*'"), Rule("deny", command='*"x"*'),
        Rule("allow", command="ls caf\u00e9"), Rule("deny", path="a b/*"), Rule("deny", path="../x"),
        Rule("deny", path="/proc/**"), Rule("deny", host="*.example.com"), Rule("deny", host="example.com:8080"),
        Rule("allow", tool="Bash"), Rule("allow", command="sh -c *"), Rule("deny", command="git -C * push"),
        Rule("allow", action="process.exec", host="x"), Rule("allow", action="filesystem.write", command="create"),
    ],
)  # fmt: skip
def test_what_can_match_is_no_slip(rule: Rule) -> None:
    """Actions of other modules, patterns and pairs that occur are left alone."""
    assert find_mistake(rule) is None


_PIECES = (
    "tool",
    "a",
    "\u00e9",
    " ",
    "  ",
    "*",
    "?",
    "[ab]",
    "[! ]",
    "'",
    '"',
    "\\",
    "'a b'",
    "-x",
    "/",
    "''",
    "$",
    "#",
    "\u200b",
)
_PATTERNS = st.lists(st.sampled_from(_PIECES), max_size=6).map(lambda pieces: "tool" + "".join(pieces))


@given(pattern=_PATTERNS | _PATTERNS.map(" {}".format), verdict=st.sampled_from(["allow", "ask", "deny"]))
def test_every_command_that_is_not_reported_can_match(pattern: str, verdict: str) -> None:
    """For each rule that is taken without a word there is a line that it judges."""
    rules, problems = _parsed({"command": pattern, "verdict": verdict})
    if problems:
        return
    line = example_command(pattern, is_allowing=verdict == "allow")
    assert line is not None
    decided = RuleSet(rules, _PROJECT).decide(facts("process.exec", {"command": line}, _PROJECT))
    assert decided.verdict == verdict, (line, decided)


_PARTS = st.sampled_from(
    ["a", "*", "**", "?", "[ab]", "[!a]x", "..", ".", "", " ", "a b", "\\", "~", "*.py", "https:", "@x:y"]
)


@given(parts=st.lists(_PARTS, min_size=1, max_size=5), verdict=st.sampled_from(["allow", "ask", "deny"]))
def test_every_path_that_is_not_reported_can_match(parts: list[str], verdict: str) -> None:
    """For each path of a rule that is taken without a word there is a file that it judges."""
    pattern = "/".join(parts)
    rules, problems = _parsed({"path": pattern, "verdict": verdict})
    if problems:
        return
    filled = pattern.replace("[!a]", "b").replace("[ab]", "a").replace("**", "a").replace("*", "a").replace("?", "a")
    path = filled + "a" * pattern.endswith("/")
    path = path if path.startswith(("/", "~")) else f"./{path}"
    decided = RuleSet(rules, _PROJECT).decide(facts("filesystem.read", {"path": path}, _PROJECT))
    assert decided.verdict == verdict, (path, decided)


_HOSTS = st.lists(
    st.sampled_from(
        ["*", "*.", "example", ".com", "10.0.0.1", "::1", "[::1]", ":80", "https://", "/x", " ", "\u00e9", "X", "-"]
    ),
    min_size=1,
    max_size=4,
).map("".join)


@given(pattern=_HOSTS, verdict=st.sampled_from(["allow", "ask", "deny"]))
def test_every_host_that_is_not_reported_can_match(pattern: str, verdict: str) -> None:
    """For each host of a rule that is taken without a word there is one that it judges."""
    rules, problems = _parsed({"host": pattern, "verdict": verdict})
    if problems:
        return
    host = "x.org" if pattern == "*" else pattern.replace("*.", "x.")
    decided = RuleSet(rules, _PROJECT).decide(facts("network.fetch", {"host": host}, _PROJECT))
    assert decided.verdict == verdict, (host, decided)


@pytest.mark.parametrize(
    "entry",
    [
        {"action": "tool.todo"}, {"action": "tool.*"}, {"action": "tool.mine"}, {"tool": "bash"}, {"tool": "tool_x"},
        {"action": "process.exec", "path": "secrets/**"}, {"path": "a{b}c"}, {"path": "price$/**"},
    ],
)  # fmt: skip
def test_names_that_may_be_meant_are_let_pass(entry: dict[str, str]) -> None:
    """Actions of tools that nobody knows here, and unusual names of files, are no slips."""
    assert _parsed({**entry, "verdict": "deny"}) == ([Rule("deny", **entry)], [])  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", ["deny", "ask"])
@pytest.mark.parametrize("pattern", ["secrets", "**/secrets", "./secrets", "sub/../secrets", "Secrets"])
def test_a_folder_is_restricted_with_what_lies_below(pattern: str, verdict: str) -> None:
    """A rule that denies or asks for a folder covers the files in it."""
    (rule,), problems = _parsed({"path": pattern, "verdict": verdict})
    rules = RuleSet([rule], _PROJECT)
    assert problems == []
    for path in ("secrets", "secrets/k", "secrets/d/k"):
        assert rules.decide(facts("filesystem.read", {"path": path}, _PROJECT)).verdict == verdict
    assert rules.decide(facts("filesystem.read", {"path": "secrets2"}, _PROJECT)).verdict is None


def test_a_folder_that_is_allowed_is_the_folder_alone() -> None:
    """What is allowed is what the rule says and no more, and a rule may restrict a folder alone if it says so."""
    for rule in (Rule("allow", path="docs"), Rule("ask", path="docs", is_exact=True)):
        rules = RuleSet([rule], _PROJECT)
        assert rules.decide(facts("filesystem.read", {"path": "docs"}, _PROJECT)).verdict == rule.verdict
        assert rules.decide(facts("filesystem.read", {"path": "docs/x"}, _PROJECT)).verdict is None
