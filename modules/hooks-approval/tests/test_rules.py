"""Rules of both formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_hooks_approval.config import DEFAULT_RULES
from amplifier_module_hooks_approval.rules import VERDICTS, read_rules


@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ({"pattern": "rm *", "action": "auto_deny"}, ['deny command "rm *"']),
        ({"pattern": "rm *", "action": "require_approval"}, ['ask command "rm *"']),
        (
            {"pattern": "ls*", "action": "auto_approve"},
            ['allow tool "bash" command "ls*"', 'allow process.exec command "ls*"'],
        ),
        ({"pattern": "*.md", "tool": "write_file", "action": "auto_approve"}, ['allow tool "write_file" path "*.md"']),
        (
            {"pattern": "*.env", "tool": "read_file", "action": "auto_deny"},
            ['deny tool "read_file" path "*.env"', 'deny tool "read_file" path "**/*.env"'],
        ),
        (
            {"pattern": "key*", "tool": "read_file", "action": "require_approval"},
            [f'ask tool "read_file" path "{path}"' for path in ("key*", "**/key*", "**/key*/**")],
        ),
        ({"pattern": "/etc/*", "tool": "read_file", "action": "deny"}, ['deny tool "read_file" path "/etc/*"']),
        ({"tool": "look", "action": "auto_approve"}, ['allow tool "look"']),
        ({"tool_name": "mail", "action": "auto_deny"}, ['deny tool "mail"']),
        ({"verdict": "deny", "action": "network.fetch", "host": "*"}, ['deny network.fetch host "*"']),
    ],
)
def test_an_entry_is_understood(entry: Any, rules: list[str]) -> None:
    """The published format and that of policies mean what they say."""
    found, problems = read_rules([entry])
    assert [str(rule) for rule in found] == rules
    assert problems == []


def test_the_description_is_the_reason() -> None:
    """What a published rule calls its description is what people read."""
    [rule], _ = read_rules([{"pattern": "rm *", "action": "auto_deny", "description": "too dangerous"}])
    assert rule.reason == "too dangerous"


def test_the_default_rules_are_the_published_ones() -> None:
    """Three commands run unasked."""
    assert [entry["pattern"] for entry in DEFAULT_RULES] == ["ls*", "pwd", "echo*"]
    assert read_rules(DEFAULT_RULES)[1] == []


@pytest.mark.parametrize(
    "entry",
    [
        {"pattern": "x", "action": "auto_explode"},
        {"pattern": 5, "action": "auto_deny"},
        {"pattern": "x"},
        {"pattern": "", "action": "require_approval"},
        {"pattern": "x", "action": ["auto_approve"]},
        {"pattern": "x", "action": "auto_deny", "colour": "blue"},
        7,
        None,
    ],
)
def test_a_bad_entry_is_reported_alone_and_asks(entry: Any) -> None:
    """The report names the entry, the others stay, and what it may have meant is asked for."""
    good = [{"pattern": "ls*", "action": "auto_approve"}, {"pattern": "rm *", "action": "auto_deny"}]
    found, problems = read_rules([good[0], entry, good[1]])
    assert len(problems) == 1
    assert problems[0].startswith("hooks-approval: rules[1]")
    assert [rule.verdict for rule in found] == ["allow", "allow", "ask", "deny"]


def test_a_bad_entry_that_would_have_allowed_allows_nothing() -> None:
    """It is left out and reported once."""
    found, problems = read_rules([{"pattern": 5, "action": "auto_approve"}])
    assert [rule.verdict for rule in found if rule.verdict == "allow"] == []
    assert problems


def test_examples_of_rules_are_checked() -> None:
    """A rule whose own example contradicts it is reported."""
    entry = {"verdict": "deny", "command": "rm *", "not_match": ["rm x"]}
    assert read_rules([entry])[1] != []


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(sorted(VERDICTS)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pattern", "action", "verdict", "command", "tool", "path", "x"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(JUNK)
def test_no_rules_raise(entries: Any) -> None:
    """Whatever stands under `rules`, there is an answer; nonsense is a problem, and rules are rules."""
    rules, problems = read_rules(entries)
    assert all(rule.verdict in ("allow", "ask", "deny") for rule in rules)
    assert entries is None or isinstance(entries, list) or problems
