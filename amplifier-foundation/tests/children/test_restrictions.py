"""The hooks that watch over a session: a child has them all, and none is looser there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.children.errors import AgentUnusableError
from amplifier_foundation.children.plan import child_plan
from amplifier_foundation.children.restrictions import GUARDS, restrict
from amplifier_kit.config import read_config
from amplifier_module_hooks_logging.config import LogConfig
from amplifier_module_hooks_mode.config import ModeConfig
from amplifier_module_hooks_redaction.config import RedactionConfig

_SHELL: dict[str, Any] = {
    "module": "hook-shell",
    "config": {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}},
}


def _hooks(parent: list[Any], agent: list[Any]) -> list[dict[str, Any]]:
    hooks: list[dict[str, Any]] = child_plan({"hooks": parent}, {"hooks": agent}).get("hooks", [])
    return hooks


@pytest.mark.parametrize("module", GUARDS)
@pytest.mark.parametrize("named", [{}, {"id": "guard"}])
def test_no_other_module_takes_the_place_of_a_guard(module: str, named: dict[str, str]) -> None:
    """An agent's hook under the id of a guard stands beside it, and code of the agent's choice does not guard."""
    guard = {"module": module, "source": "ours", "config": {}, **named}
    other = {"module": "hooks-other", "id": named.get("id", module)}
    assert _hooks([guard], [other]) == [guard, {**other, "id": f"{other['id']}-2"}]
    assert _hooks([guard], [{"module": module, **named, "source": "theirs"}]) == [guard]


def test_a_module_with_a_variable_for_a_name_is_refused() -> None:
    """Nobody could tell which guard it would be laid over."""
    for entry in ({"module": "${X:hooks-logging}"}, {"module": "hooks-x", "id": "${X:hooks-logging}"}):
        with pytest.raises(AgentUnusableError, match="variables"):
            _hooks([{"module": "hooks-logging"}], [entry])


@pytest.mark.parametrize("config", [{"hooks": {}}, {"hooks": {"PreToolUse": []}}, {"timeout": 0.01}, None])
def test_shell_hooks_of_a_parent_stay_as_they_are_beside_those_of_an_agent(config: Any) -> None:
    """What an agent says of hook-shell is mounted under an id of its own, and once."""
    hooks = _hooks([_SHELL], [{"module": "hook-shell", "config": config}])
    beside = [] if config is None else [{"module": "hook-shell", "id": "hook-shell-2", "config": config}]
    assert hooks == [_SHELL, *beside]
    assert _hooks(hooks, [{"module": "hook-shell", "config": config}]) == hooks
    assert len(_hooks(hooks, [{"module": "hook-shell", "config": {"timeout": 9}}])) == len(hooks) + 1


@pytest.mark.parametrize("wish", [{"exclude_hooks": ["hook-shell"]}, {"inherit_hooks": []}])
def test_nobody_takes_shell_hooks_away(wish: Any) -> None:
    """They deny for a child as for its parent."""
    assert child_plan({"hooks": [_SHELL]}, {}, hook_inheritance=wish)["hooks"] == [_SHELL]


def test_a_guard_that_is_listed_twice_counts_twice() -> None:
    """Both are mounted in the parent; the one that the child has is as strict as both."""
    listed = [{"module": "hooks-approval", "config": {"tools": {"look": asks}}} for asks in (True, False)]
    config = child_plan({"hooks": listed}, {})["hooks"][0]["config"]
    assert config["tools"]["look"] == {"require_approval": True}


def test_a_plan_of_before_gets_the_guards_of_now() -> None:
    """A child that goes on is guarded by what guards its parent when it does."""
    asks = {"module": "hooks-approval", "config": {"tools": {"look": {"require_approval": True}}}}
    plan: dict[str, Any] = {"hooks": [{"module": "hooks-approval", "config": {"tools": {"look": False}}}]}
    restrict(plan, {"hooks": [asks, _SHELL]})
    assert plan["hooks"] == [asks, _SHELL]


_EVENTS = st.lists(st.sampled_from(["llm:stream_*delta", "tool:*", "*", "x:y"]), unique=True, max_size=3)
_LOG = st.fixed_dictionaries(
    {},
    optional={
        "exclude_events": st.none() | _EVENTS,
        "additional_events": st.none() | _EVENTS,
        "auto_discover": st.none() | st.booleans(),
        "strip_raw": st.none() | st.booleans(),
        "session_log_template": st.sampled_from([None, "/here", "/there"]),
        "priority": st.sampled_from([None, 100, 5]),
    },
)


@given(parent=_LOG, overlay=_LOG, is_new=st.booleans())
def test_a_child_records_at_least_what_its_parent_records(parent: Any, overlay: Any, is_new: bool) -> None:
    """For any config and overlay, also of another instance: nothing more is left out, and it lies in the same place."""
    own = {"module": "hooks-logging", "config": overlay, **({"id": "new"} if is_new else {})}
    hooks = _hooks([{"module": "hooks-logging", "config": parent}], [own])
    above, below = (read_config(LogConfig, config, module="hooks-logging") for config in (parent, hooks[-1]["config"]))
    assert set(below.exclude_events) <= set(above.exclude_events)
    assert below.auto_discover or not above.auto_discover
    assert below.auto_discover or set(below.additional_events) >= set(above.additional_events)
    assert above.strip_raw or not below.strip_raw
    assert (below.session_log_template, below.priority) == (above.session_log_template, above.priority)


_RULES = st.lists(st.sampled_from(["secrets", "pii-basic", "nonsense"]), unique=True)
_NAMES = st.lists(st.sampled_from("abc"), unique=True) | st.sampled_from("abc") | st.just(5)
_REDACTION = st.fixed_dictionaries(
    {}, optional={"rules": st.none() | _RULES, "allowlist": st.none() | _NAMES, "live_values": st.none() | _NAMES}
)


@given(parent=_REDACTION, overlay=_REDACTION, is_new=st.booleans())
def test_a_child_masks_at_least_what_its_parent_masks(parent: Any, overlay: Any, is_new: bool) -> None:
    """For any config and overlay: no kind of secret, no field and no known secret less."""
    own = {"module": "hooks-redaction", "config": overlay, **({"id": "new"} if is_new else {})}
    hooks = _hooks([{"module": "hooks-redaction", "config": parent}], [own])
    above, below = RedactionConfig.from_config(parent), RedactionConfig.from_config(hooks[-1]["config"])
    assert set(below.rules) >= set(above.rules)
    assert set(below.allowlist) <= set(above.allowlist)
    assert set(below.live_values) >= set(above.live_values)


_TOOLS = st.none() | st.lists(st.sampled_from(["mode", "todo", "bash", "write_file"]), unique=True)
_MODES = st.fixed_dictionaries({}, optional={"infrastructure_tools": _TOOLS, "search_paths": st.just(["modes"])})


@given(parent=_MODES, overlay=_MODES, is_new=st.booleans())
def test_no_further_tool_runs_in_every_mode_of_a_child(parent: Any, overlay: Any, is_new: bool) -> None:
    """For any config and overlay: an agent cannot take a tool out of the modes that hold above it."""
    own = {"module": "hooks-mode", "config": overlay, **({"id": "new"} if is_new else {})}
    hooks = _hooks([{"module": "hooks-mode", "config": parent}], [own])
    above, below = (read_config(ModeConfig, config, module="hooks-mode") for config in (parent, hooks[-1]["config"]))
    assert set(below.infrastructure_tools) <= set(above.infrastructure_tools)
