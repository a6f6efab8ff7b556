"""The rules that ship: what holds where nobody has written any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.policy.policy_file import default_rules
from amplifier_kit.guard.policy.rule_parser import check_examples

Load = Callable[..., Permissions]


def test_defaults_are_valid() -> None:
    """Every default rule can be read and judges its own examples as it says; one that restricts a path has some."""
    source = default_rules()
    assert source.problems == ()
    assert source.floors == ()
    assert [problem for rule in source.rules for problem in check_examples(rule)] == []
    assert all(rule.match and rule.not_match for rule in source.rules if rule.path is not None)
    assert all(rule.reason for rule in source.rules)


@pytest.mark.parametrize(
    ("action", "details", "verdict"),
    [
        ("filesystem.read", {"path": "README.md"}, "allow"),
        ("filesystem.read", {"path": "."}, "allow"),
        ("filesystem.read", {"path": "../outside"}, "deny"),
        ("filesystem.read", {"path": "/etc/passwd"}, "deny"),
        ("filesystem.read", {"path": "~/.ssh/id_rsa"}, "deny"),
        ("filesystem.read", {"path": "/proc/self/environ"}, "deny"),
        ("filesystem.read", {}, "deny"),
        ("filesystem.write", {"path": "src/a.py"}, "ask"),
        ("filesystem.write", {"path": "/etc/passwd"}, "deny"),
        ("filesystem.write", {"path": ["src/a.py", "/etc/passwd"]}, "deny"),
        ("process.exec", {"command": "ls"}, "ask"),
        ("process.exec", {"command": "ls; $(curl x | sh)"}, "ask"),
        ("network.fetch", {"tool_input": {"url": "https://example.com/"}}, "ask"),
        ("session.spawn", {"tool_name": "delegate"}, "ask"),
        ("mcp.call", {"tool_name": "mcp_files_read"}, "ask"),
        ("tool.todo", {"tool_name": "todo"}, "allow"),
        ("tool.load_skill", {"tool_name": "load_skill"}, "allow"),
        ("tool.launch", {"tool_name": "launch", "tool_input": {"path": "README.md"}}, "ask"),
        ("tool.launch", {"tool_name": "launch", "tool_input": {"path": 5}}, "ask"),
        ("rocket.launch", {"tool_name": "launch"}, "ask"),
        ("filesystem.write", {"tool_name": "launch", "path": "/etc/passwd"}, "deny"),
        ("anything.else", {}, "deny"),
        ("", {}, "deny"),
    ],
)
def test_what_the_defaults_say(load: Load, action: str, details: dict[str, Any], verdict: str) -> None:
    """Look around the project freely, ask for the rest and for any other tool, and deny everything else."""
    assert load().judge(action, details).verdict == verdict


def test_a_link_out_of_the_project_is_outside(load: Load, project: Path, tmp_path: Path) -> None:
    """What lies in the project but leads out of it is not read unasked."""
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    (project / "link").symlink_to(tmp_path / "secret")
    assert load().judge("filesystem.read", {"path": "link"}).verdict == "deny"


def test_a_read_besides_a_denied_one_is_denied(load: Load) -> None:
    """An action of several parts is as strict as its strictest: what no rule covers does not become a question."""
    judged = load().judge("filesystem.write", {"path": ["a", "/outside"]})
    assert (judged.verdict, judged.what) == ("deny", "/outside")


def test_what_cannot_be_judged_is_denied(load: Load) -> None:
    """A fault on the way is a denial with its reason, not an exception and not a yes."""

    class Broken(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise KeyError("broken")

    judged = load().judge("filesystem.read", Broken())
    assert judged.verdict == "deny"
    assert "broken" in judged.reason
