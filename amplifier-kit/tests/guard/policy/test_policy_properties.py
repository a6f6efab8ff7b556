"""What holds for all rules and all actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.policy.facts import Facts, facts
from amplifier_kit.guard.policy.rule_parser import parse_rules
from amplifier_kit.guard.policy.rules import Rule, RuleSet, Verdict, suggest

PROJECT = Path("/project")
STRICTNESS = {"allow": 0, "ask": 1, None: 2, "deny": 3}

PROGRAMS = st.sampled_from(["ls", "git", "rm", "cat", "make", "sh", "env", "$X", "\\rm", "./run", "echo"])
ARGUMENTS = st.sampled_from(["", "x", "-la", "status", "push", "$X", "'a b'", "*.py", '"$(ls)"', "> f", "2>/dev/null"])
SIMPLE = st.builds(lambda program, rest: " ".join([program, *rest]), PROGRAMS, st.lists(ARGUMENTS, max_size=3))
PATTERNS = st.sampled_from(
    ["ls *", "git *", "git status*", "git push*", "rm *", "cat ?", "*", "echo *", "*x*", "make", "sh -c *", "env *"]
)
COMPOSITIONS = st.sampled_from(
    [
        "{}; {}", "{} && {}", "{} || {}", "{} | {}", "{} |& {}", "{} & {}", "{}\n{}", "({}; {})", "{{ {}; {}; }}",
        "if {}; then {}; fi", "while {}; do {}; done", "for f in a; do {}; {}; done", "! {}; {}", "ls $({}) && {}",
        "ls `{}`; {}", 'ls "$({})"; {}', "cat <({}) && {}", "case x in x) {};; y) {};; esac", "f=$({}); {}",
        "time {}; {}", "command {}; {}", "timeout 5 {}; {}", "ls # c\n{}\n{}", "cat <<E\nx $({})\nE\n{}",
        "cat <<'E'\nx\nE\n{}; {}", "{} ;{}", "env A=1 {}; {}", "xargs {}; {}", "sh -c 'ls'; {}; {}",
    ]
)  # fmt: skip


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """A rule of any kind."""
    verdicts: list[Verdict] = ["allow", "ask", "deny"]
    verdict = draw(st.sampled_from(verdicts))
    action = draw(st.sampled_from([None, "process.exec", "filesystem.*", "filesystem.write", "*", "network.fetch"]))
    tool = draw(st.sampled_from([None, None, "bash", "b*"]))
    kind = draw(st.sampled_from(["command", "command", "command", "path", "host", None]))
    value = {
        "command": PATTERNS,
        "path": st.sampled_from(["**", "src/**", "*.py", "/etc/*", "~/x", ".env", "f"]),
        "host": st.sampled_from(["*", "example.com", "*.example.com", "127.0.0.1"]),
    }
    named: dict[str, Any] = {} if kind is None else {kind: draw(value[kind])}
    return Rule(verdict, action=action, tool=tool, **named)


@st.composite
def actions(draw: st.DrawFn) -> Facts:
    """What any action would do."""
    kind = draw(st.sampled_from(["command", "path", "host"]))
    if kind == "command":
        command = draw(st.one_of(SIMPLE, st.builds(str.format, COMPOSITIONS, SIMPLE, SIMPLE)))
        return facts("process.exec", {"tool_name": "bash", "command": command}, PROJECT)
    if kind == "path":
        path = draw(st.sampled_from(["f", "src/a.py", "../x", "/etc/passwd", "a.py", ".env", "/proc/self/environ"]))
        action = draw(st.sampled_from(["filesystem.read", "filesystem.write"]))
        return facts(action, {"tool_name": "read_file", "path": path}, PROJECT)
    host = draw(st.sampled_from(["example.com", "a.example.com", "2130706433", "127.0.0.1", "ex\u0430mple.com"]))
    return facts("network.fetch", {"tool_name": "web_fetch", "host": host}, PROJECT)


def verdict_of(given_rules: list[Rule], what: Facts) -> str | None:
    """Return the verdict of some rules."""
    return RuleSet(given_rules, PROJECT).decide(what).verdict


@given(st.lists(rules(), max_size=8), actions(), st.randoms())
def test_order_of_rules_changes_no_verdict(given_rules: list[Rule], what: Facts, chance: object) -> None:
    """Shuffled rules judge as before."""
    shuffled = list(given_rules)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert verdict_of(shuffled, what) == verdict_of(given_rules, what)


@given(st.lists(rules(), max_size=8), rules(), actions())
def test_deny_is_absolute(given_rules: list[Rule], rule: Rule, what: Facts) -> None:
    """What a rule denies alone, it denies among any others."""
    if rule.verdict == "deny" and verdict_of([rule], what) == "deny":
        assert verdict_of([*given_rules, rule], what) == "deny"


@given(st.lists(rules(), max_size=8), rules(), actions())
def test_ask_is_a_floor(given_rules: list[Rule], rule: Rule, what: Facts) -> None:
    """What a rule asks for alone is never allowed among any others."""
    if rule.verdict == "ask" and verdict_of([rule], what) == "ask":
        assert verdict_of([*given_rules, rule], what) in ("ask", "deny")


@given(st.lists(rules(), max_size=8), rules(), actions())
def test_added_restriction_never_allows(given_rules: list[Rule], rule: Rule, what: Facts) -> None:
    """One more deny never loosens a verdict, and one more ask never allows."""
    before, after = verdict_of(given_rules, what), verdict_of([*given_rules, rule], what)
    if rule.verdict == "deny":
        assert STRICTNESS[after] >= STRICTNESS[before]
    if rule.verdict == "ask" and after == "allow":
        assert before == "allow"


@given(st.lists(rules(), max_size=8), st.lists(rules(), max_size=4), actions())
def test_rules_behind_never_loosen_what_is_denied(front: list[Rule], behind: list[Rule], what: Facts) -> None:
    """Rules that are asked otherwise change neither a deny nor an ask into something looser."""
    alone = verdict_of(front, what)
    otherwise = RuleSet(behind, PROJECT)
    together = RuleSet(front, PROJECT, otherwise=otherwise).decide(what).verdict
    if alone == "deny" or otherwise.decide(what).verdict == "deny":
        assert together == "deny"
    if alone == "ask":
        assert together in ("ask", "deny")


@given(st.lists(rules(), max_size=8), COMPOSITIONS, SIMPLE, SIMPLE)
def test_composition_is_never_looser_than_its_parts(
    given_rules: list[Rule], form: str, first: str, second: str
) -> None:
    """A command that is not allowed alone is not allowed in any composition, and a denied one denies it."""
    together = facts("process.exec", {"tool_name": "bash", "command": form.format(first, second)}, PROJECT)
    verdict = verdict_of(given_rules, together)
    for command in (first, second):
        alone = verdict_of(given_rules, facts("process.exec", {"tool_name": "bash", "command": command}, PROJECT))
        assert alone == "allow" or verdict != "allow", (command, alone)
        assert alone != "deny" or verdict == "deny", command


@given(st.lists(rules(), max_size=6), actions())
def test_suggested_rules_grant_what_they_show(given_rules: list[Rule], what: Facts) -> None:
    """With the suggested rules besides, the action is allowed, unless it is asked for by rule."""
    own = RuleSet(given_rules, PROJECT)
    suggested = suggest(what, own, PROJECT)
    after = verdict_of([*given_rules, *suggested], what)
    assert own.decide(what).verdict == after or after in ("allow", "ask")
    if suggested and own.decide(what).verdict is None:
        # A rule may ask for what a word of the command stands for, once something allows the rest.
        assert after == "allow" or any(rule.verdict == "ask" for rule in given_rules)


@given(st.lists(rules(), max_size=8), st.one_of(SIMPLE, st.builds(str.format, COMPOSITIONS, SIMPLE, SIMPLE)))
def test_rule_about_other_files_asks_for_no_command_whose_files_are_known(given_rules: list[Rule], line: str) -> None:
    """A denied path changes nothing for a line that opens only files that can be told."""
    what = facts("process.exec", {"tool_name": "bash", "command": line}, PROJECT)
    opened = [redirect for segment in what.commands or () for redirect in segment.redirects]
    if all(redirect.target is not None for redirect in opened):
        assert verdict_of([*given_rules, Rule("deny", path="elsewhere/**")], what) == verdict_of(given_rules, what)


TEXTS = st.text(max_size=12) | st.sampled_from(["allow", "deny", "ask", "process.exec", "*", "src/**", "example.com"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["action", "tool", "command", "path", "host", "verdict", "reason", "match", "not_match", "comand"]
)
ENTRIES = st.one_of(VALUES, st.dictionaries(KEYS, VALUES | TEXTS, max_size=5))


@given(st.one_of(VALUES, st.lists(ENTRIES, max_size=4)))
def test_reading_rules_never_raises(data: object) -> None:
    """Whatever a file contains, it is read, and what is wrong has a place."""
    found, problems = parse_rules(data, lambda index, key: f"f:{index}:{key}")
    assert all(isinstance(rule, Rule) for rule in found)
    assert all(problem.where.startswith("f:") and problem.message for problem in problems)


@given(st.lists(ENTRIES, max_size=4), st.dictionaries(KEYS, VALUES | TEXTS, max_size=5), actions())
def test_bad_entry_that_restricts_never_fails_open(data: list[object], entry: dict[str, object], what: Facts) -> None:
    """An entry that is no good rule, and would not have allowed, leaves nothing of its action allowed."""
    bad = {key: value for key, value in entry.items() if key != "action"} | {"verdict": "deny", "unknown": 1}
    found, problems = parse_rules([*data, bad], lambda index, key: f"f:{index}")
    assert problems
    assert verdict_of([*found, Rule("allow")], what) in ("ask", "deny") or what.problem


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    """No text makes the judgement raise, and none that is not understood is allowed by a rule that names commands."""
    rule_set = RuleSet([Rule("allow", command="*")], PROJECT)
    for details in ({"command": text}, {"path": text}, {"host": text}, {"tool_input": {"url": text, "path": [text]}}):
        found = facts("process.exec", details, PROJECT)
        decision = rule_set.decide(found)
        if found.problem or any(segment.is_opaque for segment in found.commands or ()):
            assert decision.verdict != "allow"
