"""What a search must leave out is what a call for it alone would be asked about or denied."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.policy.facts import Facts
from amplifier_kit.guard.policy.paths import hidden_paths
from amplifier_kit.guard.policy.rules import Rule, RuleSet

HOME = Path("/home/ada")
TOOLS = ("grep", "glob", "read_file")
NAMES = (
    "secrets",
    "secrets.",
    "Secrets",
    "secr\u00e9ts",
    "secre\u0301ts",
    "src",
    "key",
    ".env",
    "a*b",
    "[x]",
    "\udcff",
    "\uff0f",
    "x y",
)
PARTS = (
    "secrets",
    "SECRETS",
    "secr\u00e9ts",
    "s*",
    "*",
    "**",
    ".env",
    "*.py",
    "?ey",
    "[!k]ey",
    "a[*]b",
    "x y",
    "alias",
)

patterns = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "./", "~/", "/", "/etc/"]),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=4),
    st.sampled_from(["", "", "/", "/**"]),
)
optional_tool = st.sampled_from([None, None, "grep", "g*", "bash"])
actions = st.sampled_from([None, None, "filesystem.read", "filesystem.*", "*", "tool.grep", "filesystem.write"])


def _verdicts(*names: str) -> st.SearchStrategy[list[Rule]]:
    verdict = st.sampled_from(names)
    places = st.builds(Rule, verdict=verdict, action=actions, tool=optional_tool, path=patterns)
    others = st.builds(Rule, verdict=verdict, command=st.just("cat *")) | st.builds(
        Rule, verdict=verdict, host=st.just("*")
    )
    return st.lists(places | places | places | others, max_size=6)


below = st.lists(st.sampled_from(NAMES), max_size=5).map("/".join)


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    """Return a project with a folder that has a second name."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(os.path.realpath(folder))
        (made / "secrets").mkdir()
        (made / "alias").symlink_to("secrets")
        yield made


def is_restricted(rules: list[Rule], project: Path, tool: str, path: str) -> bool:
    """Tell what a set of these rules says of reading the place, by either name of what the tool does."""
    known = RuleSet(rules, project, home=HOME, otherwise=RuleSet([Rule("allow")], project))
    asked = (Facts(action, tool, paths=(Path(path),)) for action in ("filesystem.read", f"tool.{tool}"))
    return any(known.decide(each).verdict in ("ask", "deny") for each in asked)


@given(
    rules=_verdicts("allow", "ask", "deny"), root=st.sampled_from(["", "/etc", str(HOME)]), names=below, data=st.data()
)
def test_hidden_is_what_rules_restrict(
    project: Path, rules: list[Rule], root: str, names: str, data: st.DataObject
) -> None:
    """A place is hidden exactly when the rules would ask for reading it by that tool, or deny it."""
    tool = data.draw(st.sampled_from(TOOLS))
    path = f"{root or project}/{names}"
    is_hidden = hidden_paths(rules, project, tool, home=HOME)
    assert (is_hidden is not None and is_hidden(path)) is is_restricted(rules, project, tool, path)


@given(rules=_verdicts("allow"), tool=st.sampled_from(TOOLS))
def test_rules_that_allow_hide_nothing(project: Path, rules: list[Rule], tool: str) -> None:
    """With nothing but rules that allow, nobody needs to be asked at all."""
    assert hidden_paths(rules, project, tool, home=HOME) is None


@given(rules=_verdicts("ask", "deny"), names=st.lists(below, min_size=2, max_size=20))
def test_what_was_asked_before_changes_nothing(project: Path, rules: list[Rule], names: list[str]) -> None:
    """The answer for one place does not depend on the places before it."""
    is_hidden = hidden_paths(rules, project, "grep", home=HOME)
    if is_hidden is not None:
        for name in names:
            fresh = hidden_paths(rules, project, "grep", home=HOME)
            assert fresh is not None
            assert is_hidden(f"{project}/{name}") is fresh(f"{project}/{name}")


@given(rules=_verdicts("ask", "deny"), names=st.lists(below, max_size=5))
def test_many_places_are_ruled_out_at_once_only_if_none_is_hidden(
    project: Path, rules: list[Rule], names: list[str]
) -> None:
    """No place of a text that is ruled out as a whole is hidden, nor a folder above one."""
    is_hidden = hidden_paths(rules, project, "grep", home=HOME)
    if is_hidden is not None and not is_hidden.may_hide("\0".join([str(project), *names])):
        for name in names:
            path = Path(f"{project}/{name}")
            assert not any(is_hidden(str(each)) for each in (path, *path.parents))


@given(rules=_verdicts("ask", "deny"), place=below, names=below)
def test_within_a_place_only_its_questions_are_answered(
    project: Path, rules: list[Rule], place: str, names: str
) -> None:
    """Below a place that was allowed, all is hidden but what rules hide that asked for the place itself."""
    top = f"{project}/{place}"
    path = f"{top}/{names}"
    answered = [rule for rule in rules if rule.verdict == "ask" and is_restricted([rule], project, "grep", top)]
    left = [rule for rule in rules if rule not in answered]
    is_hidden = hidden_paths(rules, project, "grep", home=HOME)
    within = None if is_hidden is None else is_hidden.within(top)
    assert (within is not None and within(path)) is is_restricted(left, project, "grep", path)


@pytest.mark.parametrize(
    ("path", "hides"),
    [
        ("secrets", True),
        ("secrets/key", True),
        ("SECRETS/key", True),
        ("alias/key", True),
        ("secrets2/key", False),
        ("src/secrets/key", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("pattern", ["secrets/**", "alias/**", "secrets", "alias"])
def test_a_folder_and_what_is_below(project: Path, pattern: str, path: str, hides: bool) -> None:
    """A rule about a folder, or everything in it, hides both, under each name that the folder is known by."""
    is_hidden = hidden_paths([Rule("deny", path=pattern)], project, "grep")
    assert is_hidden is not None
    assert is_hidden(f"{project}/{path}") is (hides and (not path.startswith("alias") or pattern.startswith("alias")))


def test_a_rule_without_a_path_hides_nothing(project: Path) -> None:
    """What is about the tool or the action as a whole is decided with the call."""
    rules = [Rule("deny", tool="grep"), Rule("ask", action="filesystem.read"), Rule("ask")]
    assert hidden_paths(rules, project, "grep") is None


def test_very_deep_paths(project: Path) -> None:
    """Depth is no way out."""
    is_hidden = hidden_paths([Rule("deny", path="**/key")], project, "grep")
    assert is_hidden is not None
    assert is_hidden(f"{project}/{'d/' * 1900}key")
    assert not is_hidden(f"{project}/{'d/' * 1900}other")
