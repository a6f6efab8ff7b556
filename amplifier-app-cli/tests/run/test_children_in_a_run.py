"""Sessions that a run starts: their records are nested in the stream, and their cost is in the result."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.session_stats import SessionStats
from amplifier_core.hooks import HookRegistry
from amplifier_foundation.usage.account import UsageAccount
from amplifier_kit.engine.usage import UsageRecord

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_WHOSE = ("session_id", "parent_session_id", "agent", "depth", "tool_call_id")
_AGENTS = """\
tools:
  - {module: tool-delegate, config: {settings: {exclude_tools: [], timeout: 60}}}
agents:
  explorer: {description: Looks around., instruction: You look around.}
  helper: {description: Helps., instruction: You help.}
"""
_FAMILY = """
turns:
  - tool_calls:
      - {id: c1, name: delegate, arguments: {agent: explorer, instruction: Look around.}}
      - {id: c2, name: delegate, arguments: {agent: helper, instruction: Help now.}}
      - {id: c3, name: delegate, arguments: {agent: nobody, instruction: Do something.}}
    usage: {input_tokens: 100, output_tokens: 10, cost_usd: "0.1"}
  - {text: All done., usage: {input_tokens: 100, output_tokens: 10, cost_usd: "0.1"}}
agents:
  explorer:
    - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Help me.}}]
      usage: {input_tokens: 10, output_tokens: 1, cost_usd: "0.02"}
    - {thinking: Hm., text: Looked., usage: {input_tokens: 10, output_tokens: 1, cost_usd: "0.02"}}
  helper:
    - {text: Helped., usage: {input_tokens: 1, output_tokens: 1, cost_usd: "0.003"}}
"""


@pytest.fixture
def family(scripted: Callable[..., str], environment: dict[str, str]) -> Callable[..., str]:
    """Return a function that writes a bundle whose session starts others, which it may, and gives its path."""

    def write(turns: str = _FAMILY) -> str:
        folder = Path(environment["HOME"]) / ".amplifier"
        folder.mkdir(mode=0o700, exist_ok=True)
        rules = "rules: [{action: session.spawn, verdict: allow}]\n"
        (folder / "policy.yaml").write_text(rules, encoding="utf-8")
        return scripted(turns, _AGENTS)

    return write


def _stream(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_records_are_nested(amplifier: Amplifier, family: Callable[..., str]) -> None:
    """Records of children have the forms of the session's own, and say whose they are, down to grandchildren."""
    records = _stream(amplifier("run", "go", "--bundle", family(), "--json"))
    kinds = [record["type"] for record in records]
    assert (kinds[0], kinds[-1], kinds.count("session"), kinds.count("result")) == ("session", "result", 1, 1)
    root = records[0]["session_id"]
    begun = {
        record["session_id"]: record
        for record in records
        if record.get("event") == "session:start" and "depth" in record
    }
    whose = sorted((one["agent"], one["depth"], one["tool_call_id"]) for one in begun.values())
    assert whose == [("explorer", 1, "c1"), ("helper", 1, "c2"), ("helper", 2, "c1")]
    explorer = next(one for one in begun.values() if one["agent"] == "explorer")
    deep = next(one for one in begun.values() if one["depth"] == 2)
    assert (explorer["parent_session_id"], deep["parent_session_id"]) == (root, explorer["session_id"])
    for record in records[:-1]:
        if record["session_id"] == root:
            assert not {"agent", "depth", "parent_session_id"} & record.keys()
        else:
            assert [record[key] for key in _WHOSE] == [begun[record["session_id"]][key] for key in _WHOSE]
            assert record.keys() - {"parent_session_id", "agent", "depth", "tool_call_id"} in (
                {"type", "timestamp", "session_id", "text"},
                {"type", "timestamp", "session_id", "event", "data"},
            )


def test_what_a_child_says_is_there(amplifier: Amplifier, family: Callable[..., str]) -> None:
    """Text, thinking, calls and answers of children are in the stream, between their start and their end."""
    records = _stream(amplifier("run", "go", "--bundle", family(), "--json"))
    own = [record for record in records if record.get("agent") == "explorer"]
    events = [record.get("event", record["type"]) for record in own]
    assert (events[0], events[-1]) == ("session:start", "session:end")
    for event in ("llm:response", "tool:pre", "delegate:agent_spawned", "delegate:agent_completed", "tool:post"):
        assert event in events
    assert "".join(record["text"] for record in own if record["type"] == "text") == "Looked."
    assert "".join(record["text"] for record in own if record["type"] == "thinking") == "Hm."
    told = [record for record in records if record.get("event") == "delegate:error"]
    assert [(record["data"]["agent"], record["data"]["tool_call_id"]) for record in told] == [("nobody", "c3")]


def test_cost_of_the_tree(amplifier: Amplifier, family: Callable[..., str]) -> None:
    """A child's end has what it used with all below it, and the last record what the whole tree used."""
    records = _stream(amplifier("run", "go", "--bundle", family(), "--json"))
    ends = {
        (record["agent"], record["depth"]): record["data"] for record in records if record.get("event") == "session:end"
    }
    assert {whose: (data["status"], data["cost_usd"]) for whose, data in ends.items()} == {
        ("explorer", 1): ("completed", "0.043"),
        ("helper", 1): ("completed", "0.003"),
        ("helper", 2): ("completed", "0.003"),
    }
    assert ends["explorer", 1]["usage"] == {"input_tokens": 21, "output_tokens": 3}
    assert (records[-1]["cost_usd"], records[-1]["usage"]) == ("0.246", {"input_tokens": 222, "output_tokens": 24})
    told = json.loads(amplifier("run", "go", "--bundle", family(), "--output-format", "json-trace").stdout)
    assert (told["cost_usd"], told["metadata"]["total_agents_invoked"]) == ("0.246", 3)


def test_a_child_without_a_price() -> None:
    """When a child's answer has no price, the cost of the tree is not known; its tokens are."""
    tally, account = SessionStats(), UsageAccount()
    tally.connect(HookRegistry(), account)
    child = UsageAccount(account, "helper")
    child.add(UsageRecord.of_usage({"input_tokens": 1, "cost_usd": "0.5"}))
    assert (tally.cost, tally.answers) == ("0.5", 0)
    child.add(UsageRecord.of_usage({"input_tokens": 2}))
    assert (tally.cost, tally.usage) == (None, {"input_tokens": 3})


def test_the_answer_alone_is_text(amplifier: Amplifier, family: Callable[..., str]) -> None:
    """As text there is the session's own answer; what children say is not mixed into it."""
    assert amplifier("run", "go", "--bundle", family()).stdout == "All done.\n"


def test_the_log_is_one_tree(amplifier: Amplifier, family: Callable[..., str]) -> None:
    """`logs --tree` and `session list --tree` show every call that wanted a session, with its cost and end."""
    assert amplifier("run", "go", "--bundle", family()).returncode == 0
    root = json.loads(amplifier("logs", "--tree", "--format", "json").stdout)
    found = {(child["agent"], child["tool_call_id"], child["end"]): child for child in root["children"]}
    assert set(found) == {
        ("explorer", "c1", "completed"),
        ("helper", "c2", "completed"),
        ("nobody", "c3", "failed"),
    }
    assert (root["end"], root["cost_usd"], root["tree_cost_usd"]) == ("completed", "0.2", "0.246")
    (deep,) = found["explorer", "c1", "completed"]["children"]
    assert (deep["agent"], deep["end"], deep["cost_usd"]) == ("helper", "completed", "0.003")
    assert "no agent 'nobody'" in found["nobody", "c3", "failed"]["reason"]
    (listed,) = json.loads(amplifier("session", "list", "--tree", "--format", "json").stdout)["sessions"]
    below = {child["agent_name"]: child for child in listed["children"]}
    assert {name: (child["end"], child["cost_usd"]) for name, child in below.items()} == {
        "explorer": ("completed", "0.043"),
        "helper": ("completed", "0.003"),
    }
    assert below["explorer"]["children"][0]["end"] == "completed"
    text = amplifier("session", "list", "--tree").stdout
    assert "[explorer] completed" in text
    assert '[explorer] completed "Look around." ' in text
    assert "1 turn $0.0430\n" in text


#: Both helpers are done and told of, the call of nobody has failed, and the explorer asks its model once more.
_HALF_DONE = Counter({"session:end": 2, "delegate:agent_completed": 2, "delegate:error": 1, "llm:request": 5})


def test_a_tree_that_was_killed(
    amplifier: Amplifier,
    family: Callable[..., str],
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    logged: Callable[..., list[dict[str, Any]]],
) -> None:
    """After SIGKILL those that were at work have crashed, and a child that was done is done."""
    turns = _FAMILY.replace("thinking: Hm.,", "delay_ms: 600000,")
    run = start(
        *("run", "go", "--bundle", family(turns), "--json"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: Counter(record["event"] for record in logged()) >= _HALF_DONE, run)
    run.kill()
    assert run.wait(60) == -signal.SIGKILL
    root = json.loads(amplifier("logs", "--tree", "--format", "json").stdout)
    ends = {child["agent"]: child["end"] for child in root["children"]}
    assert (root["end"], ends) == ("crashed", {"explorer": "crashed", "helper": "completed", "nobody": "failed"})
    assert "[explorer] crashed" in amplifier("session", "list", "--tree").stdout


_INTERRUPTING = """\
import asyncio
from amplifier_core import ToolResult

class Look:
    name = "look"
    description = "Look for a long time, or interrupt the program"
    input_schema = {"type": "object", "properties": {}}
    action = "test.free"
    looking = 0
    async def execute(self, input):
        Look.looking += 1
        while Look.looking < 2:
            await asyncio.sleep(0.01)
        if input["interrupts"]:
            raise KeyboardInterrupt
        await asyncio.sleep(3600)

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Look())
"""


def test_a_child_that_interrupts_the_program(
    amplifier: Amplifier,
    family: Callable[..., str],
    add_module: Callable[[str, str], None],
    environment: dict[str, str],
) -> None:
    """A KeyboardInterrupt out of a module stops the run as Ctrl-C does, and the log of the tree is whole."""
    add_module("tool-look", _INTERRUPTING)
    turns = """
        turns:
          - tool_calls:
              - {id: c1, name: delegate, arguments: {agent: explorer, instruction: Look.}}
              - {id: c2, name: delegate, arguments: {agent: helper, instruction: Look.}}
          - text: unreachable
        agents:
          explorer: [{tool_calls: [{id: c9, name: look, arguments: {interrupts: true}}]}, {text: unreachable}]
          helper: [{tool_calls: [{id: c9, name: look, arguments: {interrupts: false}}]}, {text: unreachable}]
    """
    bundle = Path(family(turns))
    text = bundle.read_text(encoding="utf-8").replace("tools:\n", "tools:\n  - {module: tool-look}\n")
    bundle.write_text(text, encoding="utf-8")
    policy = Path(environment["HOME"]) / ".amplifier" / "policy.yaml"
    rules = "rules: [{action: session.spawn, verdict: allow}, {action: test.free, verdict: allow}]\n"
    policy.write_text(rules, encoding="utf-8")
    result = amplifier("run", "go", "--bundle", str(bundle))
    assert result.returncode == 130, result.stderr
    root = json.loads(amplifier("logs", "--tree", "--format", "json").stdout)
    assert {child["agent"]: child["end"] for child in root["children"]} == dict.fromkeys(
        ("explorer", "helper"), "cancelled"
    )
    logs = [log.read_text(encoding="utf-8") for log in Path(environment["HOME"]).rglob("events.jsonl")]
    lasts = [json.loads(log.splitlines()[-1])["event"] for log in logs]
    assert lasts == ["session:end"] * 3
    told = Counter(json.loads(line)["event"] for log in logs for line in log.splitlines())
    assert (told["delegate:agent_spawned"], told["delegate:agent_cancelled"], told["tool:pre"]) == (2, 2, 4)
    assert told["tool:error"] == 4


def test_a_child_asks_and_nobody_is_there(
    amplifier: Amplifier, family: Callable[..., str], project: Path, environment: dict[str, str]
) -> None:
    """What a child may not do is not done, the run says who wanted it, and no call waits for a yes to something else.

    The call that started the child would be the wrong one: a yes to it would be one to whatever the child does then.
    """
    turns = """
        turns:
          - tool_calls: [{id: c1, name: delegate, arguments: {agent: helper, instruction: Run it.}}]
          - text: All done.
        agents: {helper: [{tool_calls: [{id: c9, name: bash, arguments: {command: touch ran}}]}, {text: Ran.}]}
    """
    bundle = Path(family(turns))
    text = bundle.read_text(encoding="utf-8").replace("tools:\n", "tools:\n  - {module: tool-bash}\n")
    bundle.write_text(text, encoding="utf-8")
    result = amplifier("run", "go", "--bundle", str(bundle), "--json")
    last = json.loads(result.stdout.splitlines()[-1])
    assert last["status"] == "approval_needed"
    assert "asked by the agent helper (session 0000000000000000-" in last["error"]
    assert not (project / "ran").exists()
    assert "approvals" not in last
    assert json.loads(amplifier("approval", "list", "--format", "json").stdout) == []
