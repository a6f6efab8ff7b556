"""Rules from what a person granted: few, narrow, and none that allows what was denied (permission fatigue)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_foundation.policy.history import PastAction, suggestions
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.policy_file import default_rules

Load = Callable[..., Permissions]


def _asked(
    project: Path,
    action: str,
    details: dict[str, Any],
    *,
    is_granted: bool | None = True,
    source: str = "approval_system",
    kind: str = "",
) -> PastAction:
    return PastAction(action, details, "asked", is_granted, "", source, project, "s", None, kind)


def _ran(project: Path, command: str, **more: Any) -> PastAction:
    return _asked(project, "tool.bash", {"tool_name": "bash", "tool_input": {"command": command}}, **more)


def _wrote(project: Path, path: str, **more: Any) -> PastAction:
    return _asked(project, "filesystem.write", {"tool_input": {"file_path": path}}, **more)


def test_the_most_useful_rule_is_the_first(load: Load, project: Path) -> None:
    """Each rule says how many questions it would have spared; what was asked once is not worth one."""
    actions = [_ran(project, "make")] * 2 + [_ran(project, "pytest -q")] * 5 + [_ran(project, "once")]
    found = suggestions(actions, load())
    assert [(str(each.rule), each.spared) for each in found.rules] == [
        ('allow process.exec command "pytest -q"', 5),
        ('allow process.exec command "make"', 2),
    ]
    assert (found.asked, found.spared) == (8, 7)
    assert found.rules[0].examples == ("pytest -q",)
    assert len(suggestions(actions, load(), least=1).rules) == 3


def test_what_nobody_answered_is_neither_granted_nor_denied(load: Load, project: Path) -> None:
    """A call that waited for want of a person and was allowed later makes a rule; a yes of silence makes none."""
    waited = [_ran(project, "make", is_granted=False, kind="nobody"), _ran(project, "make", kind="person")]
    assert [str(each.rule) for each in suggestions(waited * 2, load()).rules] == ['allow process.exec command "make"']
    silent = [_ran(project, "make", kind="timeout")] * 3
    assert suggestions(silent, load()).rules == ()
    refused = [_ran(project, "make", is_granted=False, kind="person"), _ran(project, "make", kind="person")]
    assert suggestions(refused * 2, load()).rules == ()


def test_a_question_is_spared_by_all_its_rules_together(load: Load, project: Path) -> None:
    """A line of two commands needs both rules; one of them alone counts only where it is enough."""
    actions = [_ran(project, "make && pytest -q")] * 3 + [_ran(project, "make")]
    found = suggestions(actions, load())
    assert {str(each.rule): each.spared for each in found.rules} == {
        'allow process.exec command "make"': 4,
        'allow process.exec command "pytest -q"': 3,
    }
    assert found.spared == 4


def test_never_what_was_denied(load: Load, project: Path) -> None:
    """What a person refused once is not proposed, however often it was granted, and that is said."""
    actions = (
        [_ran(project, "git push")] * 9 + [_ran(project, "git push", is_granted=False)] + [_ran(project, "make")] * 2
    )
    found = suggestions(actions, load())
    assert [str(each.rule) for each in found.rules] == ['allow process.exec command "make"']
    assert [(str(rule), denied) for rule, denied in found.refused] == [
        ('allow process.exec command "git push"', "git push")
    ]


def test_never_together_what_was_denied(load: Load, project: Path) -> None:
    """Two rules that are harmless alone are not proposed when they would allow a refused line together."""
    actions = [
        *[_ran(project, "make")] * 5,
        *[_ran(project, "git push")] * 3,
        _ran(project, "make; git push", is_granted=False),
    ]
    found = suggestions(actions, load())
    assert [str(each.rule) for each in found.rules] == ['allow process.exec command "make"']
    assert len(found.refused) == 1


def test_silence_is_no_refusal(load: Load, project: Path) -> None:
    """That nobody was there to answer once speaks against no rule."""
    actions = [_ran(project, "make")] * 3 + [_ran(project, "make", is_granted=False, source="kernel")]
    assert len(suggestions(actions, load()).rules) == 1


def test_rules_that_hold_already_are_not_proposed(load: Load, project: Path) -> None:
    """What is allowed by now needs no rule, and what somebody asks for by rule gets none."""
    rules = "rules: [{command: 'make *', verdict: allow}, {command: 'git *', verdict: ask}]\n"
    actions = [_ran(project, "make")] * 3 + [_ran(project, "git push")] * 3
    assert suggestions(actions, load(user=rules)).rules == ()


def test_files_of_one_folder_become_one_rule(load: Load, project: Path) -> None:
    """Three files of a folder make a rule for it; two do not, nor do hidden files or those of the project itself."""
    actions = [
        *(_wrote(project, f"src/{name}.py") for name in "abc"),
        *[_wrote(project, "docs/a.md")] * 2,
        *[_wrote(project, "docs/b.md")] * 2,
        *(_wrote(project, f"{name}.txt") for name in "abc"),
        *(_wrote(project, f".git/hooks/{name}") for name in "abc"),
        *(_wrote(project, f"lib/.{name}") for name in "abc"),
    ]
    found = suggestions(actions, load())
    assert [str(each.rule) for each in found.rules] == [
        'allow filesystem.write path "src/*"',
        'allow filesystem.write path "docs/a.md"',
        'allow filesystem.write path "docs/b.md"',
    ]


def test_a_folder_with_a_refused_file_gets_no_rule(load: Load, project: Path) -> None:
    """The rule for a folder would allow the file that was refused."""
    actions = [*(_wrote(project, f"src/{name}.py") for name in "abc"), _wrote(project, "src/d.py", is_granted=False)]
    found = suggestions(actions, load())
    assert found.rules == ()
    assert found.refused[0][1] == "src/d.py"


@pytest.mark.parametrize("command", ["curl -H [REDACTED] x", "eval $X", "rm *", 'bash -c "$Y"'])
def test_what_is_not_known_in_full_gets_no_rule(load: Load, project: Path, command: str) -> None:
    """Masked, opaque and open-ended commands stay questions."""
    assert suggestions([_ran(project, command)] * 5, load()).rules == ()


def test_no_questions_no_rules(load: Load, project: Path) -> None:
    """Without a past there is nothing to propose."""
    assert suggestions([], load()) == ((), 0, 0, ())


_COMMANDS = ["make", "make test", "ls", "ls -l", "git push", "rm x", "make; ls", "ls > out", "git push && rm x", "$X"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(_COMMANDS), st.booleans()), max_size=25))
def test_proposed_rules_allow_nothing_that_was_denied(tmp_path: Path, past: list[tuple[str, bool]]) -> None:
    """Whatever was granted and refused, with all proposed rules every refused action is still not allowed."""
    permissions = Permissions([default_rules()], tmp_path)
    actions = [_ran(tmp_path, command, is_granted=is_granted) for command, is_granted in past]
    found = suggestions(actions, permissions, least=1)
    after = permissions.allowing([each.rule for each in found.rules])
    for action in actions:
        if not action.is_granted:
            assert after.judge(action.action, action.details).verdict != "allow"
    allowed = sum(after.judge(each.action, each.details).verdict == "allow" for each in actions if each.is_granted)
    assert found.spared == allowed
