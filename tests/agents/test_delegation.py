"""Delegation in real sessions: chains, circles, deadlines, the wish to stop, and one end for every child."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

ENDS = ("delegate:agent_completed", "delegate:agent_cancelled", "delegate:error")
CHAIN = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: AGENT, instruction: go deeper, context_depth: none}}]
  - expect: {last_role: tool, contains: level done}
    text: root done
agents:
  AGENT:
    - tool_calls: [{name: delegate, arguments: {agent: AGENT, instruction: go deeper, context_depth: none}}]
    - {expect: {last_role: tool}, text: level done}
"""


def delegate(**config: Any) -> dict[str, Any]:
    """Return what makes a bundle whose delegate tool has this config."""
    return {"tools": [{"module": "tool-delegate", "config": config}]}


def logs(ran: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the logs of all sessions of the project, by session."""
    files = sorted(Path(ran.folder).parent.glob("*/events.jsonl"))
    return {file.parent.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}


def assert_one_tree(ran: Any) -> None:
    """Check that every child is started and ended once in its parent's log, and that every session has its end."""
    known = logs(ran)
    started: dict[str, str] = {}
    for session_id, records in known.items():
        for record in records:
            if record["event"] in ("delegate:agent_spawned", "delegate:agent_resumed"):
                started[record["data"]["sub_session_id"]] = session_id
        opened = [r["data"]["sub_session_id"] for r in records if r["event"] == "delegate:agent_spawned"]
        closed = [r["data"]["sub_session_id"] for r in records if r["event"] in ENDS and r["data"]["sub_session_id"]]
        assert sorted(opened) == sorted(closed)
        assert sum(record["event"] == "session:end" for record in records) == 1, session_id
    assert set(started) == set(known) - {ran.session_id}


@pytest.mark.parametrize(
    ("agent", "config", "sessions", "reason"),
    [
        ("self", {"features": {"self_delegation": {"max_depth": 2}}}, 3, "Copies of a session may be nested 2 deep"),
        ("explorer", {"settings": {"max_recursion_depth": 3}}, 4, "Delegation is limited to a depth of 3"),
    ],
)
async def test_chains_end_at_their_cap(
    workshop: Any, agent: str, config: dict[str, Any], sessions: int, reason: str
) -> None:
    """Copies of itself and circles of agents end where the plan says, with a reason that the last of them reads."""
    config = {**config, "settings": {"exclude_tools": [], **config.get("settings", {})}}
    ran = await workshop.run(CHAIN.replace("AGENT", agent), "Go.", **delegate(**config))
    assert ran.answer == "root done"
    known = logs(ran)
    assert len(known) == sessions
    errors = [record for records in known.values() for record in records if record["event"] == "delegate:error"]
    assert len(errors) == 1
    assert reason in str(errors[0]["error"])
    assert_one_tree(ran)


async def test_children_cannot_delegate_unless_the_plan_says_so(workshop: Any) -> None:
    """By default a child does not have the tool, so there is no chain at all."""
    scenario = CHAIN.replace("AGENT", "explorer").replace("{expect: {last_role: tool}, ", "{")
    scenario = scenario.replace("contains: level done", "contains: level done, tools: [delegate]")
    ran = await workshop.run(scenario, "Go.")
    assert len(logs(ran)) == 2
    [error] = ran.of("tool:error", ran.child("explorer"))
    assert error["tool_name"] == "delegate"
    assert_one_tree(ran)


async def test_unknown_agents_and_input_leave_the_parent_at_work(workshop: Any) -> None:
    """What cannot be started is read by the model, which goes on."""
    scenario = """
turns:
  - tool_calls:
      - {id: a, name: delegate, arguments: {agent: explorr, instruction: x}}
      - {id: b, name: delegate, arguments: {agent: "nowhere:to-be-found", instruction: x}}
      - {id: c, name: delegate, arguments: {session_id: 0000000000000000-1111111111111111_x, instruction: x}}
      - {id: d, name: delegate, arguments: {agent: explorer}}
  - expect: {last_role: tool, contains: [did you mean 'amplifier:explorer', "nowhere:to-be-found", "'instruction' is"]}
    text: I go on.
"""
    ran = await workshop.run(scenario, "Go.")
    assert ran.answer == "I go on."
    ends = {
        record["data"]["tool_call_id"]: record["error"]["type"] for record in ran.events() if record["event"] == ENDS[2]
    }
    assert sorted(ends) == ["a", "b", "c"]
    assert ends["a"] == "unknown_agent"
    [unchecked] = [one for one in ran.events() if one["event"] == "tool:error" and one["data"]["tool_call_id"] == "d"]
    assert unchecked["error"]["type"] == "invalid_input"  # the loop refuses it before the tool sees it
    assert len(logs(ran)) == 1


async def test_a_child_that_hangs_is_stopped_and_can_go_on(workshop: Any) -> None:
    """At its deadline the child ends in order, in its own log too; by its id it does its work after all."""
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: explorer, instruction: think, context_depth: none}}]
  - expect: {last_role: tool, contains: [timed out after, session_id]}
    text: It took too long.
agents:
  explorer:
    - {delay_ms: 60000, text: never}
"""
    for seconds in (2, 30):  # twice only where the child had not begun by then
        ran = await workshop.run(scenario, "Go.", **delegate(settings={"timeout": seconds}))
        [record] = [record for record in ran.events() if record["event"] == "delegate:error"]
        child = record["data"]["sub_session_id"]
        log = ran.folder.parent / child / "events.jsonl"
        if log.exists() and "llm:request" in log.read_text(encoding="utf-8"):
            break
    assert ran.answer == "It took too long."
    assert (record["status"], record["error"]["type"]) == ("timeout", "timeout")
    assert_one_tree(ran)
    again = f"""
turns:
  - tool_calls: [{{name: delegate, arguments: {{session_id: {child}, instruction: quickly now}}}}]
  - expect: {{last_role: tool, contains: here it is}}
    text: Good.
agents:
  explorer:
    - {{expect: {{system_contains: You explore a code base, contains: quickly now}}, text: here it is}}
"""
    assert (await workshop.go_on(ran, again, "Once more.")).answer == "Good."


@pytest.mark.parametrize("immediate", [True, False])
async def test_the_wish_to_stop_reaches_a_child_and_its_tools(workshop: Any, immediate: bool) -> None:
    """The child's command does not outlive it, every session has its end, and the parent's log says cancelled."""
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: builder, instruction: wait, context_depth: none}}]
  - text: unreachable
agents:
  builder:
    - tool_calls: [{name: bash, arguments: {command: "echo $$ > pid; while test ! -e stop; do sleep 0.05; done"}}]
    - text: unreachable
"""
    workshop.allow({"action": "process.exec"}, {"action": "filesystem.write", "path": "**"})

    async def stop(runtime: Any) -> None:
        while not (workshop.project / "pid").exists():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.02)
        await runtime.session.coordinator.request_cancel(immediate=immediate)
        if not immediate:
            workshop.write("stop", "")  # a graceful stop lets what runs come to its end

    ran = await workshop.run(scenario, "Go.", meanwhile=stop)
    assert "unreachable" not in ran.answer
    ends = [(record["event"], record["status"]) for record in ran.events() if record["event"] in ENDS]
    assert ends == [("delegate:agent_cancelled", "cancelled")]
    assert_one_tree(ran)


async def test_a_role_chooses_the_model_of_a_child(workshop: Any) -> None:
    """A role that the settings know is offered, and the child has its model: by the call, else by its agent's file."""
    scenario = """
turns:
  - tool_calls:
      - {id: a, name: delegate, arguments: {agent: reviewer, instruction: x, context_depth: none, model_role: careful}}
      - {id: b, name: delegate, arguments: {agent: explorer, instruction: x, context_depth: none}}
  - {expect: {last_role: tool, contains: provider_routing}, text: done}
agents:
  reviewer: [{text: reviewed}]
  explorer: [{text: explored}]
"""
    (workshop.home.path / "settings.yaml").write_text(
        "routing:\n  overrides:\n"
        "    careful: {candidates: [{provider: mock, model: big}]}\n"
        "    fast: {candidates: [{provider: mock, model: small}]}\n",
        encoding="utf-8",
    )
    ran = await workshop.run(scenario, "Go.")
    assert ran.answer == "done"
    models = {agent: ran.of("llm:request", ran.child(agent))[0]["model"] for agent in ("reviewer", "explorer")}
    assert models == {"reviewer": "big", "explorer": "small"}
    roles = {data["tool_call_id"]: data["model_role"] for data in ran.of("delegate:agent_spawned")}
    assert roles == {"a": "careful", "b": None}


@pytest.mark.parametrize(("matrix", "model"), [("thrifty", "small"), ("lavish", "large")])
async def test_the_matrix_that_the_user_chose_is_used(workshop: Any, matrix: str, model: str) -> None:
    """The next agent with a role has the model of the chosen matrix."""
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: explorer, instruction: x, context_depth: none, model_role: fast}}]
  - {expect: {last_role: tool}, text: done}
agents:
  explorer: [{text: explored}]
"""
    folder = workshop.home.path / "routing"
    folder.mkdir(parents=True, exist_ok=True)
    for name, fast in (("thrifty", "small"), ("lavish", "large")):
        roles = f"roles: {{general: [{{provider: mock}}], fast: [{{provider: mock, model: {fast}}}]}}"
        (folder / f"{name}.yaml").write_text(roles, encoding="utf-8")
    (workshop.home.path / "settings.yaml").write_text(f"routing: {{matrix: {matrix}}}\n", encoding="utf-8")
    ran = await workshop.run(scenario, "Go.")
    assert ran.of("llm:request", ran.child("explorer"))[0]["model"] == model


async def test_an_agent_file_with_errors_is_a_result_that_the_model_can_read(workshop: Any) -> None:
    """The others are of use all the same: the call is answered with file, line and fault, and told."""
    file = workshop.home.path / "agents" / "broken.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nmeta: {name: broken, description: x}\ntoools: []\n---\nDo it.\n", encoding="utf-8")
    workshop.warnings = (f"{file}:3: unknown key 'toools': did you mean 'tools'?",)
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: broken, instruction: Go.}}]
  - {text: It cannot be used., expect: {last_role: tool, contains: ["broken.md:3", toools]}}
"""
    ran = await workshop.run(scenario, "Go.", agents={"broken": {}})
    assert ran.answer == "It cannot be used."
    [error] = ran.of("delegate:error")
    assert error["agent"] == "broken"
