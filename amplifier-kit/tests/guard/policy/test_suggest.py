"""The rules that are worth remembering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.rules import Rule, RuleSet, suggest

PROJECT = Path("/project")


def suggested(action: str = "process.exec", rules: list[Rule] | None = None, **details: Any) -> list[str]:
    """Return what a person would be shown."""
    own = None if rules is None else RuleSet(rules, PROJECT)
    return [str(rule) for rule in suggest(facts(action, details, PROJECT), own, PROJECT)]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("make test", ["make test"]),
        ("rm -rf build", ["rm -rf build"]),
        ("git status --short", ["git status *"]),
        ("ls $X", ["ls *"]),
        ("git commit -m 'a b'", ["git commit -m 'a b'"]),
        ("echo 'a*b'", ["echo a[*]b"]),
        ("make a && make b", ["make a", "make b"]),
        ("make a; make a", ["make a"]),
        ("FOO=1 make", ["FOO=1 make"]),
        ("time _=1 FOO=1 make", ["_=1 FOO=1 make"]),
        ("git <&- push", ["git push"]),
        ("sudo make", ["sudo make", "make"]),
    ],
)
def test_command_is_remembered_as_narrowly_as_possible(command: str, shown: list[str]) -> None:
    """Exactly the command, one rule for each segment; only what merely looks is remembered with any arguments."""
    assert suggested(command=command) == [f'allow process.exec command "{text}"' for text in shown]


@pytest.mark.parametrize(
    "command",
    [
        "rm $X", "$X", "rm *", "make; $X", "eval make", "PATH=. make", "make '", "x" * 5000, "[ \ntouch -r a b ]",
        "time for x in 1; do make; done", "time { make; }", "env a.b=1 make", "'a.b=1' make", "do make", "=1 make",
        "sh -c '[[ a || make ]]'",
    ],
)  # fmt: skip
def test_nothing_is_remembered_of_what_is_not_known(command: str) -> None:
    """What depends on when it runs is asked for each time, also as a part of something else."""
    assert suggested(command=command) == []


def test_only_what_is_not_allowed_yet_is_suggested() -> None:
    """A compound command's "always" never widens what was allowed before."""
    assert suggested(rules=[Rule("allow", command="ls *")], command="ls && make") == [
        'allow process.exec command "make"'
    ]


def test_denied_action_has_no_suggestion() -> None:
    """No rule allows what another one denies."""
    assert suggested(rules=[Rule("deny", command="rm *")], command="make; rm x") == []


def test_paths_and_hosts_are_remembered_exactly() -> None:
    """One file, relative to the project where it is inside; one host; one file of a redirect."""
    assert suggested("filesystem.write", path="src/a[1].py") == ['allow filesystem.write path "src/a[[]1].py"']
    assert suggested("filesystem.read", path="/etc/hosts") == ['allow filesystem.read path "/etc/hosts"']
    assert suggested("network.fetch", host="Example.COM") == ['allow network.fetch host "example.com"']
    assert suggested(command="make > out") == [
        'allow process.exec command "make"',
        'allow filesystem.write path "out"',
    ]


def test_tool_without_parts_is_remembered_by_name() -> None:
    """The action and the tool, both."""
    assert suggested("tool.todo", tool_name="todo") == ['allow tool.todo tool "todo"']


def test_problem_has_no_suggestion() -> None:
    """What nothing allows cannot be remembered."""
    assert suggested("filesystem.read", path="/proc/self/environ") == []
