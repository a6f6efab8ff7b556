"""Why it is so, and what would change it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from amplifier_foundation.policy.explain import explain
from amplifier_foundation.policy.permissions import Permissions

Load = Callable[..., Permissions]


def test_each_part_has_its_rule(load: Load, files: dict[str, Path]) -> None:
    """Every command of a line and every file it writes has its own verdict, with the rule and its place."""
    permissions = load(user="rules:\n  - {command: 'git push *', verdict: deny, reason: people push}\n")
    found = explain(permissions, "process.exec", {"command": "ls; git push > log"})
    assert [(part.verdict, part.what.rpartition("/")[2]) for part in found.parts] == [
        ("ask", "ls"),
        ("deny", "git push"),
        ("ask", "log"),
    ]
    assert found.judgement.rule is not None
    assert found.judgement.rule.where == f"{files['user']}:2"
    assert found.rules == ()
    assert found.advice == (
        f'{files["user"]}:2: remove `deny command "git push *"` or make it narrower: deny is absolute',
    )


def test_the_rule_that_would_allow_it(load: Load) -> None:
    """What only the defaults ask for, or no rule covers, can be allowed by the rules that are named."""
    asked = explain(load(), "tool.bash", {"tool_input": {"command": "make test"}})
    assert asked.action == "process.exec"
    assert asked.advice == ('this rule would allow it: `allow process.exec command "make test"`',)
    denied = explain(load(), "filesystem.write", {"path": ["/x/a", "b"]})
    assert denied.advice[0].startswith("these rules would allow it: ")


def test_a_floor_has_to_be_changed_itself(load: Load, files: dict[str, Path]) -> None:
    """A question that somebody wrote is lifted by no other rule; a bad entry has to be mended."""
    found = explain(load(user="rules: [{command: 'make *', verdict: ask}]\n"), "process.exec", {"command": "make"})
    assert "ask is a floor" in found.advice[0]
    found = explain(load(user="rules: [{comand: 'make *', verdict: ask}]\n"), "process.exec", {"command": "make"})
    assert found.advice[0].startswith(f"{files['user']}:1: repair this entry")


def test_what_is_not_understood_is_named(load: Load) -> None:
    """When no narrow rule helps, the reason is told."""
    found = explain(load(), "network.fetch", {"tool_input": {"url": "http://127.1/"}})
    assert any("unusual form of the address 127.0.0.1" in advice for advice in found.advice)
    found = explain(load(), "process.exec", {"command": "PATH=. ls"})
    assert any("PATH decides what runs" in advice for advice in found.advice)


def test_what_trust_would_change(load: Load, files: dict[str, Path]) -> None:
    """When a project's rule does not count for want of trust, that is said; else trust is not spoken of."""
    permissions = load(project="rules: [{command: 'make *', verdict: allow}]\n")
    found = explain(permissions, "process.exec", {"command": "make"})
    assert f"`amplifier trust`), {files['project']} would count in full: allow" in found.advice[-1]
    assert not any("trust" in advice for advice in explain(permissions, "process.exec", {"command": "ls"}).advice)


def test_what_is_allowed(load: Load) -> None:
    """Of something that is allowed it is said what would restrict it."""
    found = explain(load(), "filesystem.read", {"path": "a"})
    assert found.judgement.verdict == "allow"
    assert found.rules == ()
    assert "stronger" in found.advice[0]
