"""Published tools have no action: they are judged by what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_foundation.policy.permissions import Permissions, known_action
from amplifier_kit.guard.policy.facts import KNOWN_TOOLS

Load = Callable[..., Permissions]

_PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch\n"
_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "read_file": ({"file_path": "a.py"}, "allow"),
    "grep": ({"pattern": "x"}, "allow"),
    "glob": ({"pattern": "**/*.py"}, "allow"),
    "write_file": ({"file_path": "a.py", "content": "x"}, "ask"),
    "edit_file": ({"file_path": "a.py", "old_string": "x", "new_string": "y"}, "ask"),
    "apply_patch": ({"patch": _PATCH}, "ask"),
    "bash": ({"command": "make"}, "ask"),
    "web_fetch": ({"url": "https://example.com/"}, "ask"),
    "web_search": ({"query": "x"}, "ask"),
    "task": ({"instruction": "x"}, "ask"),
    "delegate": ({"agent": "a", "instruction": "x"}, "ask"),
    "todo": ({"action": "list"}, "allow"),
    "load_skill": ({"skill_name": "x"}, "allow"),
}


def test_every_known_tool_is_tried() -> None:
    """The table of known tools and the tries below name the same tools."""
    assert set(KNOWN_TOOLS) == set(_INPUTS)


@pytest.mark.parametrize("name", _INPUTS)
@pytest.mark.parametrize("with_name", [True, False])
def test_published_tools_work_under_the_defaults(load: Load, name: str, with_name: bool) -> None:
    """A published tool without an action is judged as the same tool with one, inside of the project."""
    given, verdict = _INPUTS[name]
    permissions = load()
    details = {"tool_input": given, **({"tool_name": name} if with_name else {})}
    assert permissions.judge(f"tool.{name}", details).verdict == verdict
    assert permissions.judge(KNOWN_TOOLS[name], {"tool_name": name, "tool_input": given}).verdict == verdict


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("read_file", {"file_path": "/etc/passwd"}),
        ("read_file", {}),
        ("grep", {"pattern": "x", "path": ".."}),
        ("glob", {"pattern": "../*"}),
        ("glob", {"pattern": "/etc/*"}),
        ("write_file", {"file_path": "../x", "content": ""}),
        ("apply_patch", {"patch": _PATCH.replace("a.py", "/etc/passwd")}),
    ],
)
def test_outside_is_outside_for_published_tools(load: Load, name: str, given: dict[str, Any]) -> None:
    """What leads out of the project is denied for them as for all."""
    assert load().judge(f"tool.{name}", {"tool_name": name, "tool_input": given}).verdict == "deny"


@pytest.mark.parametrize("name", ["search", "grep2", "Grep", "find", "read", ""])
def test_an_unknown_tool_without_a_path_reads_nothing(load: Load, name: str) -> None:
    """Only the two known search tools mean the working directory when they name no path."""
    permissions = load()
    assert permissions.judge(f"tool.{name}", {"tool_name": name, "tool_input": {"pattern": "x"}}).verdict == "ask"
    read = permissions.judge("filesystem.read", {"tool_name": name, "tool_input": {"pattern": "x"}})
    assert read.verdict == "deny"


def test_a_tool_does_not_become_another_by_a_detail() -> None:
    """The name in the details must be that of the action."""
    assert known_action("tool.grep", {"tool_name": "launch"}) == "tool.grep"
    assert known_action("tool.launch", {"tool_name": "grep"}) == "tool.launch"
    assert known_action("process.exec", {"tool_name": "grep"}) == "process.exec"


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("{action: tool.bash, verdict: deny}", "deny"),
        ("{action: 'tool.*', verdict: deny}", "deny"),
        ("{tool: bash, verdict: deny}", "deny"),
        ("{action: tool.bash, verdict: allow}", "allow"),
        ("{action: tool.bash, command: 'make *', verdict: allow}", "allow"),
        ("{action: tool.bash, command: 'rm *', verdict: allow}", "ask"),
        ("{action: process.exec, command: 'make *', verdict: deny}", "deny"),
    ],
)
def test_rules_about_the_name_count_as_well(load: Load, rule: str, verdict: str) -> None:
    """Who wrote a rule about `tool.bash` is heard, whether it restricts or allows."""
    permissions = load(user=f"rules: [{rule}]\n")
    assert permissions.judge("tool.bash", {"tool_name": "bash", "tool_input": {"command": "make"}}).verdict == verdict


def test_an_explicit_question_outlives_a_rule_about_the_name(load: Load) -> None:
    """Ask is a floor under both names: a rule that allows the tool does not lift somebody's question."""
    rules = "rules: [{action: tool.bash, verdict: allow}, {action: process.exec, command: 'make *', verdict: ask}]\n"
    permissions = load(user=rules)
    asked = permissions.judge("tool.bash", {"tool_name": "bash", "tool_input": {"command": "make"}})
    assert asked.verdict == "ask"
    allowed = permissions.judge("tool.bash", {"tool_name": "bash", "tool_input": {"command": "ls"}})
    assert allowed.verdict == "allow"


def test_an_untrusted_project_restricts_under_both_names(load: Load) -> None:
    """A project's denial counts by name and by what the tool does."""
    for action in ("tool.bash", "process.exec"):
        permissions = load(
            user="rules: [{verdict: allow}]\n", project=f"rules: [{{action: {action}, verdict: deny}}]\n"
        )
        details = {"tool_name": "bash", "tool_input": {"command": "make"}}
        assert permissions.judge("tool.bash", details).verdict == "deny"


def test_an_untrusted_question_outlives_a_rule_about_the_name(load: Load) -> None:
    """A project's question about what a tool does counts, though the user allows the tool by its name."""
    rules = {"user": "rules: [{action: tool.read_file, verdict: allow}]\n"}
    details = {"tool_name": "read_file", "tool_input": {"file_path": "/etc/hostname"}}
    assert load(**rules).judge("tool.read_file", details).verdict == "allow"
    permissions = load(**rules, project="rules: [{action: filesystem.read, verdict: ask}]\n")
    assert permissions.judge("tool.read_file", details).verdict == "ask"
