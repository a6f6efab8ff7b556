"""The tool `task` in a real session: the older way to ask the same agents."""

from __future__ import annotations

from typing import Any

SCENARIO = """
turns:
  - expect: {tools: [task]}
    tool_calls:
      - {id: one, name: task, arguments: {agent: explorer, instruction: "Is there a license?"}}
      - {id: two, name: task, arguments: {agent: explorr, instruction: x}}
  - expect: {last_role: tool, contains: ['"response": "LICENSE:1 says MIT."', "did you mean 'amplifier:explorer'"]}
    text: It is MIT.
agents:
  explorer:
    - expect: {system_contains: You explore a code base, contains: Is there a license}
      tool_calls: [{name: grep, arguments: {pattern: MIT, output_mode: content}}]
    - expect: {last_role: tool, contains: LICENSE}
      text: "LICENSE:1 says MIT."
"""


async def test_a_task_is_done_by_an_agent(workshop: Any) -> None:
    """The agent works with real tools in a session of its own, and the log has start and end with the call's ids."""
    workshop.write("LICENSE", "MIT License\n")
    ran = await workshop.run(SCENARIO, "Which license is this?", tools=[{"module": "tool-task"}])
    assert ran.answer == "It is MIT."
    [spawned] = ran.of("task:agent_spawned")
    ends = {data["tool_call_id"]: data for data in ran.of("task:agent_completed")}
    assert {call: data["success"] for call, data in ends.items()} == {"one": True, "two": False}
    child = ends["one"]["sub_session_id"]
    assert (spawned["tool_call_id"], spawned["sub_session_id"]) == ("one", child)
    assert spawned["parallel_group_id"] == ends["two"]["parallel_group_id"] != ""
    assert ran.tools_used(child) == [("grep", True)]
    assert ran.metadata(child)["agent_name"] == "amplifier:explorer"
