"""Patterns match what they say, whatever characters are in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.paths import check_classes, compiled, escaped
from amplifier_kit.guard.policy.rules import Rule, RuleSet

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(TEXTS, TEXTS)
def test_escaped_text_matches_itself_alone(text: str, other: str) -> None:
    """A pattern made of a text matches that text and no other one."""
    assert compiled(escaped(text)).match(text)
    assert bool(compiled(escaped(text)).match(other)) is (text == other)


@given(TEXTS, TEXTS, TEXTS)
def test_stars_match_any_text_between(first: str, middle: str, last: str) -> None:
    """A star stands for any text, also beside characters that look like patterns."""
    assert compiled(f"{escaped(first)}*{escaped(last)}").match(first + middle + last)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("a[*]b", "a*b", True), ("a[*]b", "axb", False), ("[*]*", "*x", True), ("[", "[", True), ("a[", "a[", True)],
)
def test_classes_hold_stars(pattern: str, text: str, matches: bool) -> None:
    """A star in a class is a star."""
    assert bool(compiled(pattern).match(text)) is matches


def test_rules_hold_in_folders_with_stars(tmp_path: Path) -> None:
    """A denial holds whatever the project's folder is called."""
    project = tmp_path / "a*b"
    (project / "secret").mkdir(parents=True)
    rules = RuleSet([Rule("deny", action="filesystem.read", path="secret/**")], project)
    known = facts("filesystem.read", {"tool_input": {"file_path": "secret/key"}}, project)
    assert rules.decide(known).verdict == "deny"


@given(st.text(alphabet="[]!-^az9*?/\\&~|", max_size=20))
def test_a_pattern_is_invalid_by_its_classes_alone(pattern: str) -> None:
    """Looking at the classes finds out what compiling would, with the same words."""

    def said(check: Callable[[str], object]) -> str:
        try:
            check(pattern)
        except re.error as error:
            return error.msg
        return ""

    assert said(check_classes) == said(compiled)
