"""Rules as people type them."""

from __future__ import annotations

import pytest

from amplifier_foundation.policy.policy_file import rule_entry
from amplifier_foundation.policy.rule_text import RuleTextError, describe, example_of, parse_rule, with_any_verdict
from amplifier_kit.guard.policy.rules import Rule


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("npm test", {"action": "process.exec", "command": "npm test"}),
        ("  git *  ", {"action": "process.exec", "command": "git *"}),
        ("allow npm test", {"action": "process.exec", "command": "npm test"}),
        ("command read x", {"action": "process.exec", "command": "read x"}),
        ("read", {"action": "process.exec", "command": "read"}),
        ("read docs/**", {"action": "filesystem.read", "path": "docs/**"}),
        ('write "a b.txt"', {"action": "filesystem.write", "path": "a b.txt"}),
        ("fetch docs.example.com", {"action": "network.fetch", "host": "docs.example.com"}),
        ("fetch https://docs.example.com:8080/x?y", {"action": "network.fetch", "host": "docs.example.com"}),
        ("tool mcp_notes_*", {"tool": "mcp_notes_*"}),
        ("session.spawn", {"action": "session.spawn"}),
        ("everything", {}),
        ("command *", {"action": "process.exec", "command": "*"}),
        ('filesystem.write path "src/**"', {"action": "filesystem.write", "path": "src/**"}),
        ('tool "bash" command "make *"', {"tool": "bash", "command": "make *"}),
        ("{action: mcp.call, tool: x_*, reason: why}", {"action": "mcp.call", "tool": "x_*", "reason": "why"}),
    ],
)
def test_forms(text: str, fields: dict[str, str]) -> None:
    """Each form of a text is one rule."""
    assert rule_entry(parse_rule(text, "allow")) == {**fields, "verdict": "allow"}


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
@pytest.mark.parametrize(
    "rule",
    [
        Rule("allow", action="process.exec", command="git push *"),
        Rule("allow", action="filesystem.read", path="~/notes/**"),
        Rule("allow", action="network.fetch", host="*.example.com"),
        Rule("allow", tool="bash"),
        Rule("allow", path="my folder/**"),
        Rule("allow"),
        Rule("allow", action="mcp.*"),
        Rule("allow", action="process.exec", tool="bash", command="make"),
    ],
    ids=str,
)
def test_what_lists_print_is_understood(rule: Rule, verdict: str) -> None:
    """A rule that is printed is read back as the same rule, whatever its verdict."""
    given = Rule(**{**vars(rule), "verdict": verdict})
    assert parse_rule(str(given), given.verdict) == given


@pytest.mark.parametrize(
    "text",
    [
        *("", "allow", "deny x", "{", "{verdict: deny, command: x}", "mcp.call what", "a && b", "*", "host a b"),
        *("path=src/**", "command: git push *", "tool bash command rm *", 'path "a" path "b"', "filesystem.wirte"),
        *('command "git  status"', "filesystem.read filesystem.write", 'command "a "b" c"'),
        *('command "a" command "b"', "fetch http://[::1"),
    ],
)
def test_what_is_no_rule(text: str) -> None:
    """A text that is not a rule, or says another verdict, is refused; a lone verdict is a command of that name."""
    if text == "allow":
        assert parse_rule(text, "allow").command == "allow"
        return
    with pytest.raises(RuleTextError):
        parse_rule(text, "allow")


def test_any_verdict() -> None:
    """A text without a verdict may mean each of the three rules, one with it only that."""
    assert [rule.verdict for rule in with_any_verdict("npm test")] == ["allow", "ask", "deny"]
    assert [rule.verdict for rule in with_any_verdict("deny npm test")] == ["deny"]


@pytest.mark.parametrize(
    ("text", "said", "example"),
    [
        ("npm test", "exactly the command `npm test`", ("process.exec", {"command": "npm test"})),
        ("npm *", "commands of the form `npm *`", None),
        ("command *", "every command", None),
        ("everything", "everything", None),
        ("write x.txt", "writing `x.txt`", ("filesystem.write", {"path": "x.txt"})),
        ("fetch *", "every host", None),
        ("tool web_search", "the tool web_search, with any input", ("tool.web_search", {"tool_name": "web_search"})),
        ("mcp.call", "calling any tool of any MCP server", ("mcp.call", {})),
        ("filesystem.write", "writing any file", None),
    ],
)
def test_plain_words(text: str, said: str, example: tuple[str, dict[str, str]] | None) -> None:
    """A rule is described in plain words, and gives an example unless its patterns leave open which."""
    rule = parse_rule(text, "deny")
    assert describe(rule) == f"denied: {said}"
    assert example_of(rule) == example
