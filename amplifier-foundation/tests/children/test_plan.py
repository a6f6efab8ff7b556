"""The plan of a child: what it has from its parent, and what from its agent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.children.errors import AgentUnusableError, SpawnError
from amplifier_foundation.children.plan import AgentRoster, child_plan, visible_agents
from amplifier_foundation.children.restrictions import GUARDS
from amplifier_foundation.merge import copied

PARENT: dict[str, Any] = {
    "session": {
        "orchestrator": {"module": "loop-basic", "config": {"max_iterations": 9, "list": [1, 2]}},
        "context": {"module": "context-simple"},
    },
    "providers": [{"module": "provider-mock", "config": {"default_model": "m"}}],
    "tools": [{"module": "tool-a"}, {"module": "tool-b", "config": {"x": 1}}, {"module": "tool-c", "id": "third"}],
    "hooks": [{"module": "hooks-logging"}, {"module": "hooks-todo"}, {"module": "hooks-approval"}],
    "agents": {"one": {"description": "1"}, "two": {"description": "2"}},
}

_IDS = ("tool-a", "tool-b", "tool-c", "tool-d")
_NAMES = st.lists(st.sampled_from(_IDS), unique=True)


def _modules(plan: dict[str, Any], section: str = "tools") -> list[str]:
    return [entry["module"] for entry in plan.get(section, [])]


def test_an_agent_without_anything_of_its_own_gets_all_of_its_parent() -> None:
    """`self` is a copy of its parent."""
    assert child_plan(PARENT, {}) == PARENT


def test_modules_of_an_agent_are_laid_over_those_of_its_parent_by_id() -> None:
    """Mappings are merged, lists replaced, and new modules stand behind the others."""
    agent = {
        "tools": [{"module": "tool-b", "config": {"y": 2}}, {"module": "tool-d"}],
        "session": {"orchestrator": {"config": {"list": [3]}}},
    }
    plan = child_plan(PARENT, agent)
    assert _modules(plan) == ["tool-a", "tool-b", "tool-c", "tool-d"]
    assert plan["tools"][1]["config"] == {"x": 1, "y": 2}
    assert plan["session"]["orchestrator"]["config"] == {"max_iterations": 9, "list": [3]}


def test_the_texts_of_an_agent_are_no_part_of_the_plan() -> None:
    """Who an agent is and what it is told does not reach the kernel."""
    agent = {"name": "x", "description": "d", "instruction": "i", "meta": {}, "model_role": "fast", "context": {}}
    assert child_plan(PARENT, agent) == PARENT


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"exclude_tools": ["tool-a", "third"]}, ["tool-b"]),
        ({"tools": [{"module": "tool-z"}]}, ["tool-z"]),
        ({"tools": []}, []),
    ],
)
def test_the_spawn_policy_of_a_plan_says_which_tools_it_passes_on(policy: Any, expected: list[str]) -> None:
    """`tools` stands in for all of them, `exclude_tools` takes some away."""
    assert _modules(child_plan({**PARENT, "spawn": policy}, {})) == expected


def test_tools_that_an_agent_declares_survive_every_filter() -> None:
    """Neither the parent's policy nor the caller takes away what the agent itself brings."""
    parent = {**PARENT, "spawn": {"exclude_tools": ["tool-b"]}}
    agent = {"tools": [{"module": "tool-b"}]}
    plan = child_plan(parent, agent, tool_inheritance={"exclude_tools": ["tool-a", "tool-b"]})
    assert sorted(_modules(plan)) == ["tool-b", "tool-c"]
    assert _modules(child_plan(parent, agent, tool_inheritance={"inherit_tools": []})) == ["tool-b"]


@given(excluded=_NAMES, inherited=st.none() | _NAMES, declared=_NAMES)
def test_what_is_passed_on_is_exactly_what_the_rules_say(
    excluded: list[str], inherited: list[str] | None, declared: list[str]
) -> None:
    """A tool is there when its agent declares it, or when its parent has it and nobody takes it away."""
    wish = {"exclude_tools": excluded, "inherit_tools": inherited}
    agent = {"tools": [{"module": name} for name in declared]}
    has = _modules(child_plan(PARENT, agent, tool_inheritance=wish))
    for name in _IDS:
        passed_on = name in _modules(PARENT) and name not in excluded and (inherited is None or name in inherited)
        assert (name in has) == (name in declared or passed_on)


def test_hooks_that_guard_or_record_a_session_stay() -> None:
    """A caller can take away a reminder, and no rules, no modes, no shell hooks, no log and no masking of secrets."""
    more = [{"module": name} for name in ("hooks-redaction", "hook-shell", "hooks-mode")]
    parent = {**PARENT, "hooks": [*PARENT["hooks"], *more]}
    everything = _modules(parent, "hooks")
    wishes: list[dict[str, list[str]]] = [{"exclude_hooks": everything}, {"inherit_hooks": []}]
    for wish in wishes:
        assert sorted(_modules(child_plan(parent, {}, hook_inheritance=wish), "hooks")) == sorted(GUARDS)


@pytest.mark.parametrize("wish", [{"exclude": ["x"]}, {"exclude_tools": "tool-a"}, {"inherit_hooks": []}])
def test_a_wish_that_makes_no_sense_is_refused(wish: Any) -> None:
    """A misspelt filter passes nothing on by mistake."""
    with pytest.raises(SpawnError):
        child_plan(PARENT, {}, tool_inheritance=wish)


@pytest.mark.parametrize(
    ("access", "expected"),
    [("none", []), ("all", ["one", "two"]), (None, ["one", "two"]), (["two", "three"], ["two"]), ([], [])],
)
def test_an_agent_sees_the_agents_it_may_call(access: Any, expected: list[str]) -> None:
    """`none`, a list, or all that its parent knows."""
    assert list(visible_agents(PARENT["agents"], access)) == expected
    assert list(child_plan(PARENT, {"agents": access}).get("agents", {})) == expected


@pytest.mark.parametrize(
    "agent",
    [
        {"tools": "tool-a"},
        {"tools": [{"config": {}}]},
        {"session": []},
        {"agents": "some"},
        {"hooks": [None]},
        {"providers": {}},
        {"provider_preferences": "anthropic"},
        {"provider_preferences": ["anthropic"]},
        {"provider_preferences": [{"model": "m"}]},
        {"provider_preferences": [{"provider": "anthropic", "model": 5}]},
        {"provider_preferences": [{"provider": "anthropic", "config": []}]},
    ],
)
def test_an_agent_of_the_wrong_shape_is_refused(agent: Any) -> None:
    """The error names the part that is wrong."""
    with pytest.raises(AgentUnusableError, match=next(iter(agent))):
        child_plan(PARENT, agent)


@pytest.mark.parametrize("written", ["loop-basic", {"module": "loop-basic", "config": {"a": 1}}])
def test_settings_of_the_loop_reach_it_however_the_plan_names_it(written: Any) -> None:
    """The published program wrote them where the kernel does not look."""
    parent = {**PARENT, "session": {**PARENT["session"], "orchestrator": written}, "orchestrator": {"config": {"a": 1}}}
    plan = child_plan(parent, {}, orchestrator_config={"max_iterations": 2})
    assert plan["session"]["orchestrator"] == {"module": "loop-basic", "config": {"a": 1, "max_iterations": 2}}


@pytest.mark.parametrize(
    ("above", "wished", "expected"),
    [
        ("required", "off", {"mode": "required"}),
        ("required", False, {"mode": "required"}),
        ("auto", "required", {"mode": "required"}),
        ({"mode": "auto", "network": False}, {"network": True}, {"mode": "auto"}),
        ({"mode": "auto", "writable": ["/a"]}, {"writable": ["/a", "/b"]}, {"mode": "auto", "writable": ["/a"]}),
        ({"mode": "auto", "network": True}, {"network": False}, {"mode": "auto"}),
    ],
)
def test_an_agent_can_tighten_the_sandbox_and_not_loosen_it(above: Any, wished: Any, expected: Any) -> None:
    """What the parent's sandbox forbids, no child gets."""
    parent = {**PARENT, "session": {**PARENT["session"], "sandbox": above}}
    assert child_plan(parent, {"session": {"sandbox": wished}})["session"]["sandbox"] == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(config=st.dictionaries(st.text(max_size=3), _JSON, max_size=3))
def test_children_share_nothing_with_their_parent_or_each_other(config: dict[str, Any]) -> None:
    """What one child changes in its plan, nobody else sees."""
    import copy

    parent = {**copy.deepcopy(PARENT), "tools": [{"module": "tool-a", "config": config}]}
    before = copy.deepcopy(parent)
    agent = {"tools": [{"module": "tool-d", "config": config}], "session": {"metadata": {"given": config}}}
    one, other = (child_plan(parent, agent, orchestrator_config=config, metadata=config) for _ in range(2))
    kept = copy.deepcopy(other)
    _spoil(one)
    assert (parent, other) == (before, kept)


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _spoil(item)
        value["spoilt"] = True
    elif isinstance(value, list):
        for item in value:
            _spoil(item)
        value.append("spoilt")


def test_an_agent_that_a_module_has_changed_in_place_is_returned_as_it_is_now() -> None:
    """A hook may write preferences into the live definition; otherwise the agent is as its bundle wrote it."""
    written = {"a": {"instruction": "${KEY}"}, "b": {"instruction": "${KEY}"}}
    live: dict[str, Any] = {"agents": {"a": {"instruction": "k3y"}, "b": {"instruction": "k3y"}}}
    roster = AgentRoster({"agents": written}, live, copied(live["agents"]))
    live["agents"]["a"]["provider_preferences"] = [{"provider": "two"}]
    assert roster.definition("a") == {"instruction": "k3y", "provider_preferences": [{"provider": "two"}]}
    assert roster.definition("b") == {"instruction": "${KEY}"}
