"""A rule as one line of text is read as it is shown."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.policy.rule_text import parse_rule_text
from amplifier_kit.guard.policy.rules import Rule, RuleError


@pytest.mark.parametrize(
    "rule",
    [
        Rule("allow", command="git status *"),
        Rule("allow", action="process.exec", tool="bash", command="make test"),
        Rule("allow", action="filesystem.write", path="docs/**"),
        Rule("allow", path="my folder/**"),
        Rule("allow", host="*.example.com"),
        Rule("allow", action="tool.count_words"),
        Rule("allow", tool="count_words"),
        Rule("allow", action="mcp.call", tool="mcp_files_*"),
        Rule("allow"),
    ],
)
def test_what_is_shown_is_read_back(rule: Rule) -> None:
    """The text of a rule, with or without its verdict, is the same rule again."""
    assert parse_rule_text(str(rule), "allow") == rule
    assert parse_rule_text(str(rule).removeprefix("allow "), "allow") == rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("command git push *", Rule("deny", command="git push *")),
        ("command: git push *", Rule("deny", command="git push *")),
        ("path=src/**", Rule("deny", path="src/**")),
        ("tool bash command rm *", Rule("deny", tool="bash", command="rm *")),
        ('  command "a "b" c"  ', None),
    ],
)
def test_quotes_are_optional(text: str, rule: Rule | None) -> None:
    """A pattern goes to the end of the text; quotes inside of it are a mistake that is reported."""
    if rule is None:
        with pytest.raises(RuleError):
            parse_rule_text(text, "deny")
    else:
        assert parse_rule_text(text, "deny") == rule


@pytest.mark.parametrize(
    "text",
    [
        *("", "git status *", "bash", "allow", 'deny command "x"', "filesystem.wirte path a", "path", "host a b"),
        *('command "git  status"', 'path "a" path "b"', "filesystem.read filesystem.write", "everything else"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    """A text that is not a rule, or one that matches nothing, is never read as another rule."""
    with pytest.raises(RuleError):
        parse_rule_text(text, "allow")
