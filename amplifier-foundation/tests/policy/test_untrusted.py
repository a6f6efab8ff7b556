"""A project may only tighten until it is trusted: whatever its files say, nothing becomes milder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import STRICTNESS, Permissions
from amplifier_foundation.policy.policy_file import PolicySource, default_rules, source_of

_PROJECT = Path("/project")
_ACTIONS = [
    "filesystem.read",
    "filesystem.write",
    "process.exec",
    "network.fetch",
    "tool.bash",
    "tool.*",
    "*",
    "tool.x",
]
_KINDS = {
    "command": ["make *", "make test", "rm *", "*", "ls", "git *"],
    "path": ["**", "src/**", "src/a.py", "/etc/**", "*", "~/**", "../**"],
    "host": ["example.com", "*.example.com", "*"],
}
_DETAILS: list[tuple[str, dict[str, Any]]] = [
    ("process.exec", {"command": "make test"}),
    ("process.exec", {"command": "make test; rm x"}),
    ("process.exec", {"command": "$X y"}),
    ("process.exec", {"command": "ls > src/a.py"}),
    ("tool.bash", {"tool_name": "bash", "tool_input": {"command": "git push"}}),
    ("filesystem.read", {"path": "src/a.py"}),
    ("filesystem.read", {"path": ["src/a.py", "/etc/passwd"]}),
    ("filesystem.write", {"path": "src/b.py"}),
    ("filesystem.write", {"path": "/etc/passwd"}),
    ("tool.read_file", {"tool_name": "read_file", "tool_input": {"file_path": "a"}}),
    ("network.fetch", {"host": "www.example.com"}),
    ("network.fetch", {"tool_input": {"url": "http://127.1/"}}),
    ("session.spawn", {"tool_name": "task"}),
    ("tool.x", {"tool_name": "x"}),
]

_entries = st.builds(
    lambda verdict, action, tool, kind: {
        "verdict": verdict,
        **({"action": action} if action else {}),
        **({"tool": tool} if tool else {}),
        **dict([kind] if kind else []),
    },
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from([None, *_ACTIONS]),
    st.sampled_from([None, None, None, "bash", "x"]),
    st.one_of(st.none(), *(st.tuples(st.just(kind), st.sampled_from(patterns)) for kind, patterns in _KINDS.items())),
)
_broken = st.one_of(
    st.sampled_from([1, "deny", None, [], {}, {"verdict": "maybe"}, {"verdict": "deny", "path": 1}]),
    _entries.map(lambda entry: {**entry, "bogus": 1}),
    _entries.map(lambda entry: {**entry, "match": 1}),
)
_files = st.lists(st.one_of(_entries, _broken), max_size=6)


def _source(entries: list[Any], scope: Any, *, may_allow: bool) -> PolicySource:
    from amplifier_foundation.documents import parse_document

    text = yaml.safe_dump({"rules": entries})
    return source_of(parse_document(Path("/x/policy.yaml"), text.encode()), scope, may_allow=may_allow)


def _strictness(permissions: Permissions) -> list[int]:
    return [STRICTNESS[permissions.judge(action, details).verdict] for action, details in _DETAILS]


@given(mine=_files, theirs=_files, local=_files)
def test_untrusted_files_never_loosen(mine: list[Any], theirs: list[Any], local: list[Any]) -> None:
    """With the files of an untrusted project, every verdict is as strict as without them, or stricter."""
    ours = [_source(mine, "user", may_allow=True), default_rules()]
    without = Permissions(ours, _PROJECT)
    with_them = Permissions(
        [_source(theirs, "project", may_allow=False), _source(local, "local", may_allow=False), *ours], _PROJECT
    )
    assert all(after >= before for before, after in zip(_strictness(without), _strictness(with_them), strict=True))


@given(mine=_files, broken=st.lists(_broken, min_size=1, max_size=3))
def test_bad_entries_never_loosen(mine: list[Any], broken: list[Any]) -> None:
    """An entry that cannot be read makes no verdict milder, not even in the user's own file."""
    without = Permissions([_source(mine, "user", may_allow=True), default_rules()], _PROJECT)
    with_them = Permissions([_source([*mine, *broken], "user", may_allow=True), default_rules()], _PROJECT)
    assert all(after >= before for before, after in zip(_strictness(without), _strictness(with_them), strict=True))


@given(mine=_files, theirs=_files)
def test_denials_are_absolute(mine: list[Any], theirs: list[Any]) -> None:
    """What one set of rules denies by a rule, no other rules beside it make milder."""
    alone = Permissions([_source(theirs, "project", may_allow=True)], _PROJECT)
    both = Permissions(
        [_source(mine, "user", may_allow=True), _source(theirs, "project", may_allow=True), default_rules()], _PROJECT
    )
    for action, details in _DETAILS:
        judged = alone.judge(action, details)
        if judged.verdict == "deny" and judged.rule is not None:
            assert both.judge(action, details).verdict == "deny"


@given(mine=_files)
def test_the_verdict_is_that_of_the_strictest_part(mine: list[Any]) -> None:
    """No part of an action is stricter than the whole."""
    permissions = Permissions([_source(mine, "user", may_allow=True), default_rules()], _PROJECT)
    for action, details in _DETAILS:
        strictest = max(STRICTNESS[part.verdict] for part in permissions.parts(action, details))
        assert STRICTNESS[permissions.judge(action, details).verdict] == strictest


def test_rules_that_do_not_count_are_told(home: Home, project: Path, files: dict[str, Path]) -> None:
    """Who wonders why a project's rule has no effect is told the file and the reason."""
    files["project"].write_text("rules: [{verdict: allow}, {action: tool.x, verdict: deny}]\n", encoding="utf-8")
    (problem,) = Permissions.load(home, project, is_trusted=False).problems
    assert problem.where == str(files["project"])
    assert "1 rule that allows does not count" in problem.message
    assert Permissions.load(home, project, is_trusted=True).problems == ()


@pytest.mark.parametrize("scope", ["project", "local"])
def test_an_untrusted_denial_of_what_may_be_asks(home: Home, project: Path, files: dict[str, Path], scope: str) -> None:
    """A command that may turn out to be what an untrusted project denies is asked for, though the user allows all."""
    files["user"].write_text("rules: [{verdict: allow}]\n", encoding="utf-8")
    files[scope].write_text("rules: [{command: 'rm *', verdict: deny}]\n", encoding="utf-8")
    permissions = Permissions.load(home, project, is_trusted=False)
    assert permissions.judge("process.exec", {"command": "$X y"}).verdict == "ask"
    assert permissions.judge("process.exec", {"command": "rm y"}).verdict == "deny"
    assert permissions.judge("process.exec", {"command": "ls"}).verdict == "allow"
