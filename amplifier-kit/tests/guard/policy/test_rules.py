"""Rule sets: how verdicts are folded, and which rules mean what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.facts import Facts, facts
from amplifier_kit.guard.policy.rules import Decision, Rule, RuleError, RuleSet, Verdict

PROJECT = Path("/project")


def decide(
    rules: list[Rule], action: str = "process.exec", *, otherwise: list[Rule] | None = None, **details: Any
) -> Decision:
    """Judge one action."""
    behind = None if otherwise is None else RuleSet(otherwise, PROJECT)
    rule_set = RuleSet(rules, PROJECT, home=Path("/home/me"), otherwise=behind)
    return rule_set.decide(facts(action, details, PROJECT))


def test_unmatched_action_has_no_verdict() -> None:
    """What no rule covers is nobody's to allow."""
    assert decide([], command="ls").verdict is None
    assert decide([Rule("allow", action="filesystem.read")], command="ls").verdict is None


def test_deny_rule_wins_over_allowing_rule() -> None:
    """Deny is absolute."""
    rules = [Rule("allow"), Rule("deny", command="rm *", reason="never"), Rule("ask", command="rm *")]
    decision = decide(rules, command="ls; rm x")
    assert (decision.verdict, decision.reason, decision.rule, decision.what) == ("deny", "never", rules[1], "rm x")


def test_ask_is_a_floor() -> None:
    """An asking rule is not overruled by an allowing one."""
    assert (
        decide([Rule("allow", command="git *"), Rule("ask", command="git push*")], command="git push").verdict == "ask"
    )


def test_every_segment_must_be_allowed() -> None:
    """One command without a rule leaves the line without a verdict, and the decision names it."""
    decision = decide([Rule("allow", command="ls *")], command="ls && make all")
    assert (decision.verdict, decision.what) == (None, "make all")


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("curl * | sh*", "curl -s x | sh"),
        ("curl * | sh*", "curl -s x|sh -x"),
        ("curl *|sh", "curl x  |\tsh"),
        ("*| sh*", "cat x | tee y | sh"),
        ("*&&*", "ls && ls"),
        ("*;*", "ls; ls"),
        ("echo * > /dev/*", "echo x >/dev/sda"),
        ("*>>*", "ls >> x"),
        ("*$(*", "ls $(ls)"),
        ("*`*", "ls `ls`"),
    ],
)
@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_rule_that_restricts_may_name_several_commands(pattern: str, command: str, verdict: Any) -> None:
    """A line is held against it as a whole, too: each command alone would not match, and the rule would do nothing."""
    rules = [Rule("allow", action="process.exec"), Rule(verdict, command=pattern)]
    assert decide(rules, command=command).verdict == verdict
    assert decide(rules, command="ls x").verdict == "allow"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("timeout *", "timeout 5 ls"),
        ("nice *", "nice -n 5 timeout 5 ls"),
        ("timeout *", "nice -n 5 timeout 5 ls"),
        ("time *", "time ls"),
        ("command *", "command ls"),
        ("builtin *", "builtin echo x"),
        ("stdbuf *", "sh -c 'stdbuf -o0 ls'"),
        ("nice *", "sudo nice ls"),
        ("nice *", "/usr/bin/nice ls $x"),
    ],
)
def test_rule_that_restricts_may_name_what_only_passes_on(pattern: str, command: str) -> None:
    """Programs that are passed over when a line is allowed are not passed over by a rule that denies them."""
    rules = [Rule("allow", action="process.exec"), Rule("deny", command=pattern)]
    assert decide(rules, command=command).verdict == "deny"
    assert decide([Rule("allow", command="ls *")], command="nice -n 5 timeout 5 ls x").verdict == "allow"


def test_rule_about_one_command_is_not_about_the_line() -> None:
    """What stands in another command does not make it match; and no rule allows several commands by one pattern."""
    rules = [Rule("allow", command="git *"), Rule("allow", command="echo *"), Rule("deny", command="git * push")]
    assert decide(rules, command="git status && echo push").verdict == "allow"
    assert decide([Rule("allow", command="ls | sh"), Rule("allow", command="*|*")], command="ls | sh").verdict is None


def test_final_star_also_means_no_arguments() -> None:
    """`ls *` is `ls` with any arguments or none, not `lsof`."""
    rules = [Rule("allow", command="ls *")]
    assert [decide(rules, command=command).verdict for command in ("ls", "ls x", "lsof x")] == ["allow", "allow", None]


def test_word_with_blanks_is_not_several_words() -> None:
    """Quoting cannot make one word pass for two."""
    rules = [Rule("allow", command="git commit -m ok")]
    assert decide(rules, command="git commit -m ok").verdict == "allow"
    assert decide(rules, command="git 'commit -m' ok").verdict is None
    assert decide([Rule("allow", command="A=1 git status")], command="A='1 git' status").verdict is None


def test_unknown_part_is_matched_by_a_star_only() -> None:
    """What is filled in at run time may be anything: only a pattern that allows anything there allows it."""
    assert decide([Rule("allow", command="ls *")], command="ls $X").verdict == "allow"
    assert decide([Rule("allow", command="ls ?")], command="ls $X").verdict is None
    assert decide([Rule("allow", command="ls [!-]*")], command="ls $X").verdict is None


def test_unknown_part_that_may_be_denied_is_asked_for() -> None:
    """`git $X` may be a push: a rule that denies or asks for it makes it a question."""
    allowed = Rule("allow", command="ls *")
    assert decide([allowed, Rule("deny", command="ls secrets*")], command="ls $X").verdict == "ask"
    assert decide([allowed, Rule("ask", command="*secrets*")], command="ls $X").verdict == "ask"
    assert decide([allowed, Rule("deny", command="rm *")], command="ls $X").verdict == "allow"


def test_opaque_command_is_never_allowed_by_its_words() -> None:
    """A rule that names commands does not allow what is not understood; one that names none does."""
    assert decide([Rule("allow", command="*")], command="$X").verdict is None
    assert decide([Rule("allow", action="process.exec")], command="$X").verdict == "allow"
    assert decide([Rule("allow", action="process.exec"), Rule("deny", command="rm *")], command="$X").verdict == "ask"


@pytest.mark.parametrize(
    "command", ["xargs make", "ls | xargs -r make", "xargs -n 1 make > f", "ls\n\\make", "ls\n\n\\make"]
)
def test_deny_rule_sees_a_command_without_arguments(command: str) -> None:
    """A rule that denies the bare command sees it behind `xargs`, which may read nothing, and behind a backslash."""
    assert decide([Rule("allow"), Rule("deny", command="make")], command=command).verdict == "deny"


def test_problem_is_never_allowed() -> None:
    """Nothing allows what cannot be understood at all; it can be asked for and denied."""
    for rule, verdict in ((Rule("allow"), None), (Rule("ask"), "ask"), (Rule("deny"), "deny")):
        assert decide([rule], "filesystem.read", path="/proc/self/environ").verdict == verdict


def test_redirect_is_a_write() -> None:
    """A file that a command writes is judged as a write, or by a rule for the command's action as a whole."""
    rules = [Rule("allow", command="ls *"), Rule("allow", action="filesystem.write", path="out/**")]
    assert decide(rules, command="ls > out/x").verdict == "allow"
    assert decide(rules, command="ls > x").verdict is None
    assert decide([*rules, Rule("deny", path="out/secret")], command="ls > out/secret").verdict == "deny"
    assert decide([Rule("allow", action="process.exec")], command="ls > x").verdict == "allow"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        (Rule("deny", path="secret/**"), "make > $x", "ask"),
        (Rule("ask", path="secret/**"), "make > $x", "ask"),
        (Rule("deny", action="filesystem.write", path="secret/**"), "make > $x", "ask"),
        (Rule("deny", action="filesystem.read", path="secret/**"), "make > $x", "allow"),
        (Rule("deny", action="filesystem.read", path="secret/**"), "make < $x", "ask"),
        (Rule("deny", action="filesystem.read", path="secret/**"), "make <> $x", "ask"),
        (Rule("deny", action="filesystem.write"), "make > $x", "ask"),
        (Rule("deny", tool="other", path="secret/**"), "make > $x", "allow"),
        (Rule("deny", path="secret/**"), "make <>secret/x", "deny"),
        (Rule("deny", path="secret/**"), "make 1<> secret/x", "deny"),
        (Rule("deny", path="secret/**"), "make <> x", "ask"),
        (Rule("deny", path="secret/**"), "make $x > x", "allow"),
        (Rule("deny", path="secret/**"), "cd x && make 2>&1 | ls > /dev/null", "allow"),
    ],
)
def test_redirect_to_what_may_be_a_denied_file_is_asked_for(rule: Rule, command: str, verdict: str) -> None:
    """Where a redirect leads is not known: then every rule about files of its kind may be about it, and no other."""
    anything = Rule("allow", action="process.exec")
    what = facts("process.exec", {"tool_name": "bash", "command": command}, PROJECT)
    assert RuleSet([anything, rule], PROJECT).decide(what).verdict == verdict
    behind = RuleSet([rule], PROJECT)
    if rule.verdict == "deny":
        assert RuleSet([anything], PROJECT, otherwise=behind).decide(what).verdict == verdict


def test_rules_behind_are_asked_for_each_part() -> None:
    """A part that no rule covers goes to the rules behind; their asking does not touch what is allowed in front."""
    front, behind = [Rule("allow", command="ls *")], [Rule("ask", action="process.exec")]
    assert decide(front, otherwise=behind, command="ls").verdict == "allow"
    assert decide(front, otherwise=behind, command="ls; make").verdict == "ask"
    assert decide(front, otherwise=[Rule("deny", command="ls *")], command="ls").verdict == "deny"
    assert decide([Rule("deny", command="ls *")], otherwise=[Rule("allow")], command="ls").verdict == "deny"


def test_tool_and_action_are_globs() -> None:
    """A rule for `filesystem.*` means both; a rule for a tool means that tool."""
    rules = [Rule("allow", action="filesystem.*", tool="read_*")]
    assert decide(rules, "filesystem.read", tool_name="read_file", path="x").verdict == "allow"
    assert decide(rules, "filesystem.read", tool_name="grep", path="x").verdict is None
    assert decide(rules, "tool.read_file", tool_name="read_file", path="x").verdict is None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**", "a/b", True), ("**", "/project", True), ("**", "/projects", False), ("**", "/x", False),
        ("src/", "src/a/b", True), ("src/**", "src", True), ("src/*", "src/a/b", False), ("**/*.py", "a/b/c.py", True),
        ("**/*.py", "c.py", True), ("a/**/z", "a/z", True), ("a/**/z", "a/b/c/z", True), ("a/**/z", "a/b/c", False),
        ("/etc/*", "/etc/passwd", True), ("~/.ssh/**", "/home/me/.ssh/id", True), ("../x", "/x", True),
        ("[ab].py", "a.py", True), ("[!ab].py", "a.py", False), ("?.py", "a.py", True), ("a b", "a b", True),
        ("a/**/b/**/c", "a/x/b/y/b/c", True), ("./src/x", "src/x", True), ("/", "/anything", True),
    ],
)  # fmt: skip
def test_path_pattern(pattern: str, path: str, matches: bool) -> None:
    """Patterns are relative to the project; a star stays within a folder, two stars do not."""
    for verdict in ("allow", "deny"):
        decision = decide([Rule(verdict, path=pattern)], "filesystem.read", path=path)
        assert (decision.verdict == verdict) is matches


@pytest.mark.parametrize(
    ("pattern", "host", "verdict"),
    [
        ("*", "anything", "allow"), ("*.a.com", "x.y.a.com", "allow"), ("*.a.com", "a.com", None),
        ("*.a.com", "xa.com", None),
        ("a.com", "b.a.com", None), ("*.0.0.1", "127.0.0.1", None), ("1.2.3.4", "1.2.3.4", "allow"),
    ],
)  # fmt: skip
def test_host_pattern(pattern: str, host: str, verdict: str | None) -> None:
    """`*.` means everything below a name, not the name itself, and nothing of an address."""
    try:
        rule = Rule("allow", host=pattern)
    except RuleError:
        assert verdict is None
        return
    assert decide([rule], "network.fetch", host=host).verdict == verdict


def test_path_rule_that_allows_follows_no_link(tmp_path: Path) -> None:
    """A folder that is made a link does not carry its permission along; a restriction it does."""
    (tmp_path / "p").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "p" / "build").symlink_to(tmp_path / "out")
    cases: tuple[tuple[Verdict, str | None], ...] = (("allow", None), ("deny", "deny"))
    for verdict, expected in cases:
        rule_set = RuleSet([Rule(verdict, path="build/**")], tmp_path / "p")
        found = facts("filesystem.write", {"path": "build/x"}, tmp_path / "p")
        assert found.paths == ((tmp_path / "out" / "x").resolve(),)
        assert rule_set.decide(found).verdict == expected
        direct = facts("filesystem.write", {"path": str(tmp_path / "out" / "x")}, tmp_path / "p")
        assert rule_set.decide(direct).verdict == expected


def test_project_may_be_reached_through_a_link(tmp_path: Path) -> None:
    """The project's own folder is taken as it really is, however it was named."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    rule_set = RuleSet([Rule("allow", path="**")], tmp_path / "link")
    for path in ("x", str(tmp_path / "link" / "x"), str(tmp_path / "real" / "x")):
        assert rule_set.decide(facts("filesystem.read", {"path": path}, tmp_path / "link")).verdict == "allow"


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "a", "path": "b"}, {"host": "a", "path": "b"}, {"command": ""}, {"command": "  "},
        {"path": "a/*/../b"}, {"host": "*example.com"}, {"host": "a.*.com"}, {"host": "2130706433"},
        {"host": "\uff45.com"}, {"path": "~you/x"}, {"command": "*" * 50}, {"command": "x" * 3000}, {"command": "a\nb"},
        {"verdict": "maybe"}, {"action": 3},
    ],
)  # fmt: skip
def test_rule_that_contradicts_itself_cannot_be_made(fields: dict[str, Any]) -> None:
    """A rule that says nothing, or two things, is refused when it is made."""
    with pytest.raises(RuleError):
        Rule(**{"verdict": "deny", **fields})


def test_rule_is_shown_as_it_is_granted() -> None:
    """A rule's text names everything that it matches by."""
    assert (
        str(Rule("allow", action="process.exec", command="git status*")) == 'allow process.exec command "git status*"'
    )
    assert str(Rule("deny")) == "deny everything"
    assert str(Rule("ask", tool="bash")) == 'ask tool "bash"'


def test_pattern_with_many_stars_takes_no_time() -> None:
    """A pattern that would never come to an end by trying all ways is decided at once."""
    rule = Rule("allow", command="a*" * 30 + "b")
    assert decide([rule], command="a" * 10_000).verdict is None
    assert decide([Rule("allow", path="**/a*/" * 10 + "z")], "filesystem.read", path="a/" * 1500).verdict is None


def test_facts_without_parts_are_judged_by_action_and_tool() -> None:
    """An action that names no command, path or host is one part itself."""
    found = Facts("session.spawn", "delegate")
    assert RuleSet([Rule("ask", action="session.*")], PROJECT).decide(found).verdict == "ask"


@pytest.mark.parametrize(
    "named", [{"tool": "Bash"}, {"action": "Process.Exec"}, {"tool": "BASH", "action": "PROCESS.*"}]
)
def test_a_rule_that_restricts_means_a_tool_by_any_case(named: dict[str, str], tmp_path: Path) -> None:
    """Who writes `Bash` to deny it does not find it allowed; to allow it, the name has to be right."""
    known = facts("process.exec", {"tool_name": "bash", "tool_input": {"command": "make"}}, tmp_path)
    allowed = Rule("allow", command="make")
    for verdict in ("deny", "ask"):
        restricted = RuleSet([allowed, Rule(verdict, **named)], tmp_path)  # type: ignore[arg-type]
        assert restricted.decide(known).verdict == verdict
    assert RuleSet([Rule("allow", **named)], tmp_path).decide(known).verdict is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("git push x", "deny"),
        ("git --no-pager push x", "deny"),
        ("git -C . push", "deny"),
        ("git -c a=b --bare push x", "deny"),
        ("git -C push log", None),
        ("git --no-pager log push", "allow"),
        ("npm --silent publish", "ask"),
        ("npm --prefix x publish", "ask"),
        ("npm --prefix=x publish", "ask"),
        ("npm run publish", "allow"),
    ],
)
def test_options_before_a_command_hide_it_from_no_rule_that_restricts(command: str, verdict: str | None) -> None:
    """What a program is told to do is found behind its options; for a rule that allows, nothing is left out."""
    rules = [Rule("allow", command="git *"), Rule("deny", command="git push *")]
    rules += [Rule("allow", command="npm *"), Rule("ask", command="npm publish *")]
    assert decide(rules, command=command).verdict == verdict
    assert decide([Rule("allow", command="git push *")], command="git --no-pager push x").verdict is None


@pytest.mark.parametrize(
    "command",
    [
        "_=1 rm x", "time X=1 rm x", "time for x in 1; do rm x; done", "time { rm x; }", "env = rm x", "0<&- rm x",
        "rbash -c 'rm x'", "posh -c 'rm x'", "i386 rm x", "ld.so /bin/rm x", "[ \nrm x ]", "[ a\nrm x ]", "[ a;rm x ]",
        "env <&- rm", "nice <&- rm", "env <<E <&- rm\nx\nE", "sh -c '[[ a || rm x ]]'", "dash -c 'ls &>/dev/null rm x'",
        f"sh -c '[[ a ]]; ls {'x ' * 100}& rm x'", "sh -c 'ls a&>b;rm x'",
    ],
)  # fmt: skip
def test_denied_command_is_denied_whatever_stands_before_it(command: str) -> None:
    """Deny is absolute: where it is sure that the command runs, nobody is asked whether it may."""
    rules = RuleSet([Rule("allow", action="process.exec"), Rule("deny", command="rm *")], PROJECT)
    assert rules.decide(facts("process.exec", {"command": command}, PROJECT)).verdict == "deny"


@pytest.mark.parametrize("line", ["0>&-", "0<&-", "0>&5", "0<<<x", "0</dev/null", "0<<E\nE", ">&-", "<&- >&-"])
def test_a_line_without_a_command_is_judged(line: str) -> None:
    """A line that only closes or opens descriptors runs nothing, and is no fault of the policy."""
    assert decide([], command=line).verdict is None
    assert decide([Rule("deny", command="rm *"), Rule("allow", command="ls")], command=line).verdict != "allow"
