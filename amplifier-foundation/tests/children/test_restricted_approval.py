"""What an agent writes about hooks-approval makes a child ask for more, never for less."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_core.testing import create_test_coordinator
from amplifier_foundation.children.plan import child_plan
from amplifier_foundation.children.restrictions import tighten_approval
from amplifier_foundation.settings.variables import expand
from amplifier_module_hooks_approval.config import ApprovalConfig
from amplifier_module_hooks_approval.policy import ApprovalPolicy
from amplifier_module_hooks_approval.rules import read_rules

_STRICTNESS: Final = ("allow", None, "ask", "deny")
_ACTIONS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("tool.look", {"tool_name": "look"}),
    ("tool.1", {"tool_name": "1"}),
    ("tool.run_thing", {"tool_name": "run_thing"}),
    ("filesystem.write", {"tool_name": "save", "path": "docs/a", "tool_input": {"path": "docs/a"}}),
    *(
        ("process.exec", {"tool_name": "bash", "command": line, "tool_input": {"command": line}})
        for line in ("ls", "git push", "ls; git push")
    ),
]
_JUNK: Final = st.sampled_from(["x", 0, 1, [], {}, "${X:false}"])
_ENTRIES: Final = st.sampled_from(
    [
        *({"action": "tool.look", "verdict": verdict} for verdict in ("allow", "ask", "deny", "Allow", "${V:allow}")),
        *({"pattern": "ls*", "action": word} for word in ("auto_approve", "require_approval", "auto_deny")),
        {"action": "auto_approve", "tool": "run_thing"},
        {"action": "${V:auto_approve}", "tool": "run_thing"},
        {"path": "docs/**", "verdict": "deny"},
        {"path": "docs/**", "verdict": "allow"},
        {"verdict": "allow"},
        {"command": "git push *", "verdict": "ask"},
        {"command": "git *", "verdict": "allow"},
        "nonsense",
        None,
    ]
)
_NEEDS: Final = st.none() | st.booleans() | _JUNK
_CONFIGS: Final = st.fixed_dictionaries(
    {},
    optional={
        "rules": st.none() | _JUNK | st.lists(_ENTRIES, max_size=4),
        "tools": st.none()
        | _JUNK
        | st.dictionaries(
            st.sampled_from(["look", "bash", "run_thing", "save", "1", 1]),
            _NEEDS | st.fixed_dictionaries({"require_approval": _NEEDS}),
            max_size=4,
        ),
        "policy_driven_only": _NEEDS,
        "default_action": st.sampled_from([None, "allow", "deny", "approve", "block", "what", 3]),
        "default_timeout": st.sampled_from([None, 1, 5.0, 60, -1, True, "10"]),
        "working_dir": st.sampled_from([None, "/else", 7]),
        "audit": _JUNK,
    },
)
_ABOVE: Final = _CONFIGS | st.none() | st.just("nonsense")


def _entry(config: Any, **more: Any) -> dict[str, Any]:
    return {"module": "hooks-approval", **({} if config is None else {"config": config}), **more}


def _policy(config: Any) -> ApprovalPolicy:
    """Return what hooks-approval judges by, as it mounts itself."""
    settings, _ = ApprovalConfig.from_config(config)
    rules, _ = read_rules(settings.rules)
    return ApprovalPolicy(create_test_coordinator(), settings, rules, Path(settings.working_dir or "/project"))


def _assert_at_least_as_strict(parent: Any, child: Any) -> None:
    above, below = _policy(parent), _policy(child)
    for action, details in _ACTIONS:
        strict, wanted = below.judge(action, details).verdict, above.judge(action, details).verdict
        assert _STRICTNESS.index(strict) >= _STRICTNESS.index(wanted), (action, details)
        assert below.asks_each_time(action, details) or strict == "deny" or not above.asks_each_time(action, details)
    (one, _), (other, _) = ApprovalConfig.from_config(parent), ApprovalConfig.from_config(child)
    if other.default_action == "allow":
        assert one.default_action == "allow"
        assert (other.default_timeout or float("inf")) >= (one.default_timeout or float("inf"))


@given(parent=_ABOVE, overlay=_CONFIGS)
def test_a_child_asks_for_at_least_what_its_parent_asks_for(parent: Any, overlay: dict[str, Any]) -> None:
    """For any config of a parent and any overlay, no action, default or remembered yes is looser in the child."""
    plan = child_plan({"hooks": [_entry(parent)]}, {"hooks": [_entry(overlay)]})
    _assert_at_least_as_strict(parent, plan["hooks"][0].get("config"))
    assert child_plan({"hooks": plan["hooks"]}, {})["hooks"] == plan["hooks"]


@given(parents=st.lists(_ABOVE, min_size=1, max_size=2), own=_CONFIGS)
@example(parents=[{"tools": {1: False}}, None], own={})
def test_another_instance_is_no_looser_either(parents: list[Any], own: dict[str, Any]) -> None:
    """What the last instance says is what an app hears: one under a new id is held to all that the parent has."""
    above = [_entry(config, id=f"p{number}") for number, config in enumerate(parents)]
    hooks = child_plan({"hooks": above}, {"hooks": [_entry(own, id="new")]})["hooks"]
    assert hooks[:-1] == above
    for config in parents:
        _assert_at_least_as_strict(config, hooks[-1].get("config"))


@given(config=_CONFIGS)
def test_a_config_that_nobody_changes_stays_as_it_is(config: dict[str, Any]) -> None:
    """An overlay without a word changes nothing."""
    hooks = [_entry(config)]
    assert child_plan({"hooks": hooks}, {"hooks": [_entry(None)]})["hooks"] == hooks


_DENIES, _ALLOWS = ({"action": "tool.look", "verdict": verdict} for verdict in ("deny", "allow"))


@pytest.mark.parametrize("verdict", ["allow", "deny"])
@given(parent=_ABOVE, overlay=_CONFIGS)
def test_variables_make_no_difference(verdict: str, parent: Any, overlay: dict[str, Any]) -> None:
    """What a variable holds is known later than the plan of the child, and the child asks for as much then."""
    environ = {"V": verdict}
    hooks = child_plan({"hooks": [_entry(parent)]}, {"hooks": [_entry(overlay)]})["hooks"]
    _assert_at_least_as_strict(expand(parent, environ).value, expand(hooks[0].get("config"), environ).value)


@pytest.mark.parametrize(
    ("above", "wish", "expected"),
    [
        ({"rules": [_ALLOWS]}, {"rules": [_DENIES]}, {"rules": [_DENIES]}),
        ({"rules": [_DENIES]}, {"rules": [_ALLOWS]}, {"rules": [_DENIES]}),
        ({"rules": [_ALLOWS]}, {"rules": [_DENIES, _ALLOWS]}, {"rules": [_ALLOWS, _DENIES]}),
        ({"tools": {"a": True}}, {"tools": {"a": True, "b": True}}, {"tools": {"a": True, "b": True}}),
        ({"tools": {"a": False}}, {"tools": {"a": True}}, {"tools": {"a": True}}),
        ({"policy_driven_only": True}, {"policy_driven_only": False}, {"policy_driven_only": False}),
        (
            {"policy_driven_only": True},
            {"policy_driven_only": True, "tools": {"a": False}},
            {"policy_driven_only": True, "tools": {"a": False}},
        ),
        (
            {"default_action": "allow"},
            {"default_action": "deny", "default_timeout": 1},
            {"default_action": "deny", "default_timeout": 1},
        ),
    ],
)
def test_an_agent_gets_what_tightens(above: Any, wish: Any, expected: Any) -> None:
    """More denials and questions, and fewer permissions, count as they are written."""
    assert tighten_approval(above, wish) == expected
