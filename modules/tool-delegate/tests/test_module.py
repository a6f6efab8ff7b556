"""The module in real sessions of the kernel: what it announces, and who hears it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.delegation.child_run import HEARTBEAT
from amplifier_module_tool_delegate import mount

FIVE = [
    "delegate:agent_spawned",
    "delegate:agent_resumed",
    "delegate:agent_completed",
    "delegate:agent_cancelled",
    "delegate:error",
]
OBSERVER = """
from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"


class Nothing:
    name = "nothing"
    description = "Does nothing."
    input_schema = {"type": "object"}

    async def execute(self, input):
        return ToolResult(output="nothing")


async def mount(coordinator, config=None):
    # The delegate tool is not there yet.
    assert "delegate" not in coordinator.get("tools")
    await coordinator.mount("tools", Nothing(), name="nothing")


async def on_session_ready(coordinator):
    seen = coordinator.session_state["seen"] = []
    for names in await coordinator.collect_contributions("observability.events"):
        for name in names:
            coordinator.hooks.register(name, lambda event, data: seen.append((event, data)), name="observer")
"""
SCENARIO = """
turns:
  - tool_calls:
      - {id: one, name: delegate, arguments: {agent: helper, instruction: fine}}
      - {id: two, name: delegate, arguments: {agent: helper, instruction: stopped}}
      - {id: three, name: delegate, arguments: {agent: helper, instruction: broken}}
      - {id: four, name: delegate, arguments: {session_id: 0000-1_helper, instruction: more}}
      - {id: five, name: delegate, arguments: {agent: nobody, instruction: x}}
  - expect: {last_role: tool, contains: [all well, "'helper' ended with status", no such luck, more, There is no agent]}
    text: I have read them all.
"""


@pytest.fixture
def observer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the id of a module that observes, installed for one test."""
    package = tmp_path / "amplifier_module_tool_observer_of_all"
    package.mkdir()
    (package / "__init__.py").write_text(OBSERVER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "tool-observer-of-all"
    sys.modules.pop(package.name, None)


async def spawn(agent_name: str, instruction: str, sub_session_id: str, **_: Any) -> dict[str, Any]:
    if instruction.endswith("broken"):
        raise RuntimeError("no such luck")
    status = "cancelled" if instruction.endswith("stopped") else "success"
    return {"output": "all well", "session_id": sub_session_id, "status": status}


async def resume(sub_session_id: str, instruction: str) -> dict[str, Any]:
    return {"output": instruction, "session_id": sub_session_id}


async def test_an_observer_mounted_before_the_delegate_tool_still_sees_all_five_events(
    tmp_path: Path, observer: str
) -> None:
    """No delegation is missing from what is observed, whatever the order of mounting; each event has its call's ids."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    plan = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(tmp_path / "scenario.yaml")}}],
        "tools": [{"module": observer}, {"module": "tool-delegate"}],
        "agents": {"helper": {"description": "Helps."}},
    }
    session = AmplifierSession(plan)
    session.coordinator.register_capability("session.spawn", spawn)
    session.coordinator.register_capability("session.resume", resume)
    session.coordinator.register_policy("test", lambda action, details: "allow" if action == "session.spawn" else None)
    async with session:
        assert await session.execute("delegate everything") == "I have read them all."
        seen = session.coordinator.session_state["seen"]
    mine = [(event, data) for event, data in seen if event.startswith("delegate:")]
    assert sorted({event for event, _ in mine}) == sorted(FIVE)
    ends: dict[str, list[str]] = {}
    for event, data in mine:
        ends.setdefault(data["tool_call_id"], []).append(event.removeprefix("delegate:"))
    assert ends == {
        "one": ["agent_spawned", "agent_completed"],
        "two": ["agent_spawned", "agent_cancelled"],
        "three": ["agent_spawned", "error"],
        "four": ["agent_resumed", "agent_completed"],
        "five": ["error"],
    }
    groups = {data["parallel_group_id"] for _, data in mine}
    assert len(groups) == 1
    assert None not in groups


async def test_events_are_contributed_and_no_capability() -> None:
    """The five and the sign of life are on the channel; there is no list of them among the capabilities."""
    coordinator = MockCoordinator()
    await mount(coordinator)
    assert await coordinator.collect_contributions("observability.events") == [[*FIVE, HEARTBEAT]]
    assert coordinator.get_capability("observability.events") is None


async def test_the_permission_is_that_of_starting_sessions() -> None:
    """Rules about starting sessions are rules about this tool; its deadline is its own."""
    coordinator = MockCoordinator()
    await mount(coordinator)
    tool = coordinator.get("tools")["delegate"]
    assert (tool.action, tool.deadline) == ("session.spawn", None)
