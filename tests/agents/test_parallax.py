"""parallax: three agents at one question, each with its own evidence, and what their findings add up to."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

FILES = {
    "bus.py": """class Bus:
    def __init__(self):
        self.handlers, self.announced, self.offered = {}, [], {}

    def announce(self, names):
        self.announced += names

    def offer(self, name, value):
        self.offered[name] = value

    def emit(self, event):
        for handler in self.handlers.get(event, []):
            handler(event)
""",
    "tools.py": """EVENTS = ["tool:pre", "tool:post", "tool:error"]


def mount(bus):
    bus.announce(EVENTS)
""",
    "delegate.py": """NAMES = ("spawned", "resumed", "completed", "cancelled", "error")
EVENTS = [f"delegate:{name}" for name in NAMES]


def mount(bus):
    bus.offer("events", EVENTS)
""",
    "observer.py": """def ready(bus, seen):
    for name in bus.announced:
        bus.handlers.setdefault(name, []).append(seen.append)
""",
    "app.py": """import delegate
import observer
import tools
from bus import Bus

bus, seen = Bus(), []
for module in (tools, delegate):
    module.mount(bus)
observer.ready(bus, seen)
for event in tools.EVENTS + delegate.EVENTS:
    bus.emit(event)
print(f"emitted {len(tools.EVENTS + delegate.EVENTS)}, seen {len(seen)}: {', '.join(seen)}")
""",
    "docs/events.md": "# Events\n\nA module tells its events with `bus.announce`. Delegation has five of them.\n",
}
QUESTION = "Does the observer see every event of a delegation?"
SCENARIO = """
turns:
  - expect:
      system_contains: You lead an investigation.
      tools: [delegate, grep, read_file]
    tool_calls:
      - {id: code, name: delegate, arguments: {agent: code-tracer, ASKED}}
      - {id: behavior, name: delegate, arguments: {agent: behavior-observer, ASKED}}
      - {id: borders, name: delegate, arguments: {agent: integration-mapper, ASKED}}
    usage: {cost_usd: "0.10"}
  - expect: {last_role: tool, contains: ["delegate.py:6", "emitted 8, seen 3", "docs/events.md:3"]}
    text: Two views say no, one thinks that offers are read too. I look at the observer myself.
    tool_calls:
      - {name: grep, arguments: {pattern: "offered|announced", path: observer.py, output_mode: content}}
    usage: {cost_usd: "0.10"}
  - expect: {last_role: tool, contains: "bus.announced"}
    text: |-
      No: all 5 delegation events are missed. Agreed: delegate.py:6 offers them, observer.py:2 reads what is announced,
      and a run shows 3 of 8. Settled: nobody reads offers. Fix: announce them in delegate.py.
    usage: {cost_usd: "0.10"}
agents:
  code-tracer:
    - expect: {system_contains: through the source code, tools: [grep, read_file]}
      tool_calls:
        - {name: grep, arguments: {pattern: "announce\\\\(|offer\\\\(", output_mode: content}}
        - {name: grep, arguments: {pattern: "announce", path: delegate.py, output_mode: content}}
      usage: {cost_usd: "0.01"}
    - expect: {last_role: tool, contains: ["bus.offer(", '"total_matches": 0']}
      text: "Findings: delegate.py:6 `bus.offer`. Absent: `announce` in delegate.py. Answer: no, quite sure."
      usage: {cost_usd: "0.01"}
  behavior-observer:
    - expect: {system_contains: by what can be observed, tools: [bash]}
      tool_calls: [{name: bash, arguments: {command: "PYTHON app.py"}}]
      usage: {cost_usd: "0.02"}
    - expect: {last_role: tool, contains: "emitted 8, seen 3: tool:pre, tool:post, tool:error"}
      text: "Observed: `app.py` says emitted 8, seen 3. Expected and not seen: five delegate events. Answer: no."
      usage: {cost_usd: "0.02"}
  integration-mapper:
    - expect: {system_contains: at the borders between parts, tools: [read_file, grep]}
      tool_calls:
        - {name: read_file, arguments: {file_path: docs/events.md}}
        - {name: read_file, arguments: {file_path: delegate.py}}
      usage: {cost_usd: "0.03"}
    - expect: {last_role: tool, contains: ["Delegation has five of them", "bus.offer"]}
      text: "Map: docs/events.md:3 promises announce. Answer: perhaps; I think that the observer reads offers too."
      usage: {cost_usd: "0.03"}
"""
VIEWS = {"code": "code-tracer", "behavior": "behavior-observer", "borders": "integration-mapper"}
BUNDLE: dict[str, Any] = {"includes": [{"bundle": "amplifier:parallax"}], "tools": [], "session": {}}


def investigation(workshop: Any, scenario: str) -> str:
    """Put the program that is investigated into the project; return the script of the investigation."""
    for path, text in FILES.items():
        workshop.write(path, text)
    workshop.allow({"action": "process.exec"})
    return scenario.replace("ASKED", f"instruction: '{QUESTION}', context_depth: none").replace(
        "PYTHON", sys.executable
    )


async def test_three_views_and_a_verdict(workshop: Any) -> None:
    """Three children work side by side, each knowing only the question; a conflict is settled by looking."""
    ran = await workshop.run(investigation(workshop, SCENARIO), "Do we see all delegations?", **BUNDLE)
    assert ran.answer.startswith("No: all 5 delegation events are missed.")
    order = [record["event"] for record in ran.events() if record["event"].startswith("delegate:")]
    assert order == ["delegate:agent_spawned"] * 3 + ["delegate:agent_completed"] * 3
    ends = {data["tool_call_id"]: data for data in ran.of("delegate:agent_completed")}
    assert {call: data["agent"].partition(":")[2] for call, data in ends.items()} == VIEWS
    assert len({data["parallel_group_id"] for data in ends.values()}) == 1
    assert {call: Decimal(data["cost_usd"]) for call, data in ends.items()} == {
        "code": Decimal("0.02"),
        "behavior": Decimal("0.04"),
        "borders": Decimal("0.06"),
    }
    for call, agent in VIEWS.items():
        child = ends[call]["sub_session_id"]
        assert all(success for _, success in ran.tools_used(child)), agent
        [asked] = ran.of("prompt:submit", child)
        assert asked["prompt"] == QUESTION
        assert ran.metadata(child)["parent_id"] == ran.session_id


async def test_a_view_that_fails_is_named(workshop: Any) -> None:
    """When one of the three has no answer the others have theirs, and the leader reads which one is missing and why."""
    head, agents = SCENARIO.split("agents:\n")
    scenario = (
        head.split("  - expect: {last_role: tool")[0]
        + """\
  - expect: {last_role: tool, contains: ["delegate.py:6", "docs/events.md:3", "amplifier:behavior-observer' failed"]}
    text: Two views, not three.
agents:
"""
        + agents.split("  behavior-observer:")[0]
        + """\
  behavior-observer:
    - error: {type: AuthenticationError, message: the key is not valid}
"""
        + "  integration-mapper:"
        + agents.split("  integration-mapper:")[1]
    )
    ran = await workshop.run(investigation(workshop, scenario), "Do we see all delegations?", **BUNDLE)
    assert ran.answer == "Two views, not three."
    [failed] = [record for record in ran.events() if record["event"] == "delegate:error"]
    assert failed["data"]["tool_call_id"] == "behavior"
    assert "the key is not valid" in str(failed["error"])
    assert len(ran.of("delegate:agent_completed")) == 2
