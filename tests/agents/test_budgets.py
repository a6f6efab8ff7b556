"""Children draw on what their parent may use, and one that has nothing left is a result that the parent reads."""

from __future__ import annotations

from typing import Any

import pytest

SESSION = {"orchestrator": {"module": "loop-streaming"}, "context": {"module": "context-simple"}}


def with_budget(**limits: Any) -> dict[str, Any]:
    """Return what makes a bundle with these limits, in which children may delegate too."""
    tool = {"module": "tool-delegate", "config": {"settings": {"exclude_tools": []}}}
    return {"session": {**SESSION, "budget": limits}, "tools": [tool]}


@pytest.mark.parametrize("limits", [{"depth": 1}, {"fan_out": 1}])
async def test_a_tree_that_may_not_grow(workshop: Any, limits: dict[str, int]) -> None:
    """A child that its parent's budget does not allow is refused in words; the others and the parent go on."""
    scenario = """
turns:
  - tool_calls: [{id: first, name: delegate, arguments: {agent: explorer, instruction: ask, context_depth: none}}]
  - {expect: {last_role: tool, contains: I did it alone}, text: fine}
agents:
  explorer:
    - tool_calls: [{id: second, name: delegate, arguments: {agent: reviewer, instruction: x, context_depth: none}}]
    - {expect: {last_role: tool, contains: budget}, text: I did it alone}
  reviewer:
    - text: unreachable
"""
    ran = await workshop.run(scenario, "Go.", **with_budget(**limits))
    assert ran.answer == "fine"
    [refused] = [record for record in ran.events(ran.child("explorer")) if record["event"] == "delegate:error"]
    assert refused["error"]["type"] == "budget_exhausted"


async def test_a_child_that_spends_everything(workshop: Any) -> None:
    """What a child spends is gone for its parent: its end says so, and so does the end of the whole run."""
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: explorer, instruction: spend, context_depth: none}}]
  - text: unreachable
agents:
  explorer:
    - tool_calls: [{name: glob, arguments: {pattern: "*"}}]
      usage: {cost_usd: "2.00"}
    - text: unreachable
"""
    ran = await workshop.run(scenario, "Go.", **with_budget(usd=1))
    assert "unreachable" not in ran.answer
    ends = [record for record in ran.events() if record["event"] in ("delegate:error", "delegate:agent_completed")]
    assert len(ends) == 1
    assert float(ends[0]["data"]["cost_usd"]) == 2.0
    assert ends[0]["error"]["type"] == "budget_exhausted"
    assert ran.of("budget:exhausted", ends[0]["data"]["sub_session_id"])
