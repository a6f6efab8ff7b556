"""`amplifier logs --tree`: the logs of a session and of all that it started are one tree."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.children.log_tree import lines_of, read_tree
from amplifier_app_cli.commands.logs import logs
from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log.writer import SessionLog

Give = Callable[..., Result]
Write = Callable[..., Path]

ROOT = "11111111-0000-4000-8000-000000000001"
ONE = "0000000000000000-1111111111111111_explorer"
TWO = "0000000000000000-2222222222222222_reviewer"
DEEP = "1111111111111111-3333333333333333_helper"
#: A line of a log: how far it is moved in, whose it is, its event.
_LINE = re.compile(r"^( *\[\w+\] )? *\d+ [\d:.]+ (?:INFO|ERROR) +(\S+).*")


@pytest.fixture
def give(project: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Give:
    """Return a function that gives the command in this process."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    return lambda *arguments: CliRunner().invoke(logs, list(arguments), prog_name="amplifier logs")


@pytest.fixture
def home(environment: dict[str, str]) -> Home:
    """Return the home that the program uses."""
    return Home(Path(environment["HOME"]) / ".amplifier")


@pytest.fixture
def write(project: Path, home: Home) -> Write:
    """Return a function that writes the folder of a session: its notes, and its log by the log's own writer.

    An event is its second, its name, and its data.
    """

    def make(session_id: str, *events: tuple[float, str, dict[str, Any]], **facts: Any) -> Path:
        folder = home.sessions(project) / session_id
        folder.mkdir(parents=True)
        notes = {"session_id": session_id, "working_dir": str(project), "turn_count": 1, **facts}
        (folder / "metadata.json").write_text(json.dumps(notes), encoding="utf-8")
        log = SessionLog(folder)
        for at, event, data in events:
            lifted = {key: value for key, value in data.items() if key in ("status", "error")}
            rest = {key: value for key, value in data.items() if key not in lifted}
            ts = datetime.fromtimestamp(1_800_000_000 + at, UTC).isoformat(timespec="milliseconds")
            log.write({"ts": ts, "event": event, "session_id": session_id, **lifted, "data": rest})
        log.close()
        return folder

    return make


def _used(cost: str) -> dict[str, Any]:
    return {"usage": {"input_tokens": 10, "output_tokens": 1, "cost_usd": cost}}


def _spawned(child: str, call: str, agent: str) -> dict[str, Any]:
    return {"sub_session_id": child, "tool_call_id": call, "parallel_group_id": "g1", "agent": agent}


@pytest.fixture
def family(write: Write) -> None:
    """Write a session with two children at the same time, one of which has a child and is too slow."""
    asked = {"tool_name": "delegate", "tool_call_id": "c1", "tool_input": {"agent": "explorer", "instruction": "Look."}}
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "llm:response", _used("1")),
        (2, "tool:pre", asked),
        (2.1, "tool:pre", {**asked, "tool_call_id": "c2"}),
        (2.2, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer")),
        (2.3, "delegate:agent_spawned", _spawned(TWO, "c2", "reviewer")),
        (7, "delegate:agent_completed", {**_spawned(ONE, "c1", "explorer"), "success": True, "status": "success"}),
        (8, "delegate:error", {**_spawned(TWO, "c2", "reviewer"), "status": "timeout", "error": {"msg": "too late"}}),
        (9, "session:end", {"status": "completed"}),
    )
    write(
        ONE,
        (3, "session:start", {}),
        (3.5, "delegate:agent_spawned", _spawned(DEEP, "c1", "helper")),
        (5, "llm:response", _used("0.5")),
        (6.5, "session:end", {"status": "completed"}),
        parent_id=ROOT,
        agent_name="explorer",
    )
    write(
        TWO,
        (3.1, "session:start", {}),
        (4.5, "llm:response", {"usage": {"input_tokens": 1}}),
        (7.5, "session:end", {"status": "cancelled"}),
        parent_id=ROOT,
        agent_name="reviewer",
    )
    write(DEEP, (4, "session:start", {}), (4.2, "llm:response", _used("0.25")), parent_id=ONE, agent_name="helper")


def test_the_frame_alone(give: Give, family: None) -> None:
    """`--brief` prints the same lines of beginnings and ends as the whole tree, and no others."""
    whole = give("--tree").stdout.splitlines()
    result = give("--tree", "--brief")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [line for line in whole if line.lstrip().startswith(("▸", "■"))]
    assert len(result.stdout.splitlines()) == 8


@pytest.mark.parametrize("more", [(), ("--tree", "--json"), ("--tree", "-e", "x"), ("--tree", "--format", "json")])
def test_brief_is_of_a_tree(give: Give, family: None, more: tuple[str, ...]) -> None:
    """A frame has no events and no form for programs: asking for both is an error."""
    result = give("--brief", *more)
    assert result.exit_code == 2
    assert "--brief is for --tree" in result.output


def test_one_tree_in_the_order_of_time(give: Give, family: None) -> None:
    """Lines of all sessions are in the order of time, moved in by depth; sessions have their call, end and cost."""
    result = give("--tree")
    assert result.exit_code == 0, result.output
    shown = [_LINE.sub(r"\1\2", line) for line in result.stdout.splitlines()]
    assert shown == [
        f"▸ session {ROOT}",
        "session:start",
        "llm:response",
        "tool:pre",
        "tool:pre",
        "delegate:agent_spawned",
        "delegate:agent_spawned",
        f"  ▸ explorer {ONE} · call c1 of delegate: Look.",
        "  [explorer] session:start",
        f"  ▸ reviewer {TWO} · call c2 of delegate: Look.",
        "  [reviewer] session:start",
        "  [explorer] delegate:agent_spawned",
        f"    ▸ helper {DEEP} · call c1 of ?",
        "    [helper] session:start",
        "    [helper] llm:response",
        "    ■ helper crashed · $0.2500 · 200 ms",
        "  [reviewer] llm:response",
        "  [explorer] llm:response",
        "  [explorer] session:end",
        "  ■ explorer completed · $0.7500 with its children · 3.5 s",
        "delegate:agent_completed",
        "  [reviewer] session:end",
        "  ■ reviewer timed out: too late · price unknown · 4.4 s",
        "delegate:error",
        "session:end",
        "■ session completed · $1.75 and 1 without price with its children · 9.0 s",
    ]


def test_json_is_nested(give: Give, family: None) -> None:
    """For programs it is one object, children in their parents, complete, with calls, ends, costs and records."""
    root = json.loads(give("--tree", "--format", "json").stdout)
    one, two = root["children"]
    (deep,) = one["children"]
    assert (root["session_id"], root["depth"], root["end"], root["cost_usd"]) == (ROOT, 0, "completed", "1")
    assert (root["tree_cost_usd"], root["tree_usage"]["input_tokens"]) == (None, 31)
    assert [(node["agent"], node["end"], node["depth"]) for node in (one, two, deep)] == [
        ("explorer", "completed", 1),
        ("reviewer", "timed out", 1),
        ("helper", "crashed", 2),
    ]
    assert (one["cost_usd"], one["tree_cost_usd"], two["cost_usd"]) == ("0.5", "0.75", None)
    assert (one["tool_call_id"], one["parallel_group_id"], one["parent_session_id"]) == ("c1", "g1", ROOT)
    assert one["calls"][0]["tool"] == "delegate"
    assert one["calls"][0]["tool_input"] == {"agent": "explorer", "instruction": "Look."}
    assert two["reason"] == "too late"
    assert [record["event"] for record in deep["events"]] == ["session:start", "llm:response"]
    assert deep["events"][0]["seq"] == 1
    assert Path(deep["folder"]).is_dir()


def test_lines_for_programs(give: Give, family: None) -> None:
    """`--json` gives the records of all, in the order of time, one per line; `--event` chooses among them."""
    records = [json.loads(line) for line in give("--tree", "--json").stdout.splitlines()]
    assert [record["ts"] for record in records] == sorted(record["ts"] for record in records)
    assert {(record["session_id"], record["agent"], record["depth"]) for record in records} == {
        (ROOT, None, 0),
        (ONE, "explorer", 1),
        (TWO, "reviewer", 1),
        (DEEP, "helper", 2),
    }
    chosen = [json.loads(line) for line in give("--tree", "--json", "-e", "llm:response").stdout.splitlines()]
    assert [record["session_id"] for record in chosen] == [ROOT, DEEP, TWO, ONE]


def test_a_child_alone(give: Give, family: None) -> None:
    """The tree of a child begins with it."""
    lines = give("--tree", ONE).stdout.splitlines()
    assert lines[0].startswith(f"▸ explorer {ONE}")
    assert TWO not in "\n".join(lines)
    assert lines[-1].startswith("■ explorer completed · $0.7500 with its children")


def test_a_child_that_was_refused_is_there(give: Give, write: Write) -> None:
    """A call that got no child, and a child whose folder is gone, have their place, call and end."""
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "delegate:error", {"agent": "nobody", "tool_call_id": "c1", "error": {"msg": "no such agent"}}),
        (2, "delegate:agent_spawned", _spawned(ONE, "c2", "explorer")),
        (3, "session:end", {"status": "completed"}),
    )
    root = json.loads(give("--tree", "--format", "json").stdout)
    refused, gone = root["children"]
    assert (refused["agent"], refused["end"], refused["reason"]) == ("nobody", "failed", "no such agent")
    assert (refused["tool_call_id"], refused["session_id"], refused["folder"]) == ("c1", None, None)
    assert (gone["session_id"], gone["end"], gone["reason"]) == (ONE, "unknown", "its log is gone")
    assert "  ■ nobody failed: no such agent" in give("--tree").stdout


def test_a_child_that_was_announced_and_refused_has_no_session(give: Give, write: Write) -> None:
    """A call whose agent cannot be had says that a child is started, and then why not: there is no id to look for."""
    refused = {**_spawned(ONE, "c1", "explorer"), "status": "error", "error": {"msg": "bad budget"}}
    worked = {**_spawned(TWO, "c2", "reviewer"), "status": "error", "error": {"msg": "broke"}, "cost_usd": "0.1"}
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer")),
        (2, "delegate:error", refused),
        (3, "delegate:agent_spawned", _spawned(TWO, "c2", "reviewer")),
        (4, "delegate:error", worked),
        (5, "session:end", {"status": "completed"}),
    )
    text = give("--tree", "--brief").stdout
    assert "  ▸ explorer was refused · call c1" in text
    assert "  ■ explorer failed: bad budget" in text
    assert f"  ▸ reviewer {TWO} · call c2" in text
    first, second = json.loads(give("--tree", "--format", "json").stdout)["children"]
    assert (first["session_id"], second["session_id"]) == (None, TWO)


def test_a_long_task_is_told_by_its_beginning(give: Give, write: Write) -> None:
    """Large values that the log stores apart still describe their call."""
    asked = {"agent": "explorer", "instruction": "Look at this: " + "x" * 300_000}
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "tool:pre", {"tool_name": "delegate", "tool_call_id": "c1", "tool_input": asked}),
        (2, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer")),
    )
    assert f"▸ explorer {ONE} · call c1 of delegate: Look at this: xxx" in give("--tree", "--brief").stdout


def test_a_child_that_only_its_parent_knows_is_there(give: Give, write: Write) -> None:
    """One that was cut off before it had notes or a line is below the session that names it, and has crashed."""
    told = (1, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer"))
    root = write(ROOT, (0, "session:start", {}), told, (2, "session:end", {"status": "completed"}))
    (root.parent / ONE).mkdir()
    (root.parent / ONE / "events.jsonl").touch()
    (child,) = json.loads(give("--tree", "--format", "json").stdout)["children"]
    assert (child["session_id"], child["end"], child["folder"]) == (ONE, "crashed", str(root.parent / ONE))


def test_a_session_that_runs(give: Give, write: Write, home: Home, project: Path) -> None:
    """A log without an end whose session runs is not a crash."""
    folder = write(ROOT, (0, "session:start", {}))
    writer = SessionLog(folder)
    try:
        assert json.loads(give("--tree", "--format", "json").stdout)["end"] == "running"
    finally:
        writer.close()
    assert json.loads(give("--tree", "--format", "json").stdout)["end"] == "crashed"


def test_a_repeated_call_and_a_resumed_child(give: Give, write: Write) -> None:
    """A child that is resumed by another call has both; the same call again after a crash is one."""
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer")),
        (3, "session:resume", {}),
        (4, "delegate:agent_spawned", _spawned(ONE, "c1", "explorer")),
        (6, "delegate:agent_completed", _spawned(ONE, "c1", "explorer")),
        (7, "delegate:agent_resumed", _spawned(ONE, "c2", "explorer")),
        (9, "delegate:error", {**_spawned(ONE, "c2", "explorer"), "error": {"msg": "no"}}),
        (10, "session:end", {"status": "completed"}),
    )
    life = [(2, "session:start", {}), (5, "session:resume", {}), (5.5, "session:end", {"status": "completed"})]
    again = [(8, "session:resume", {}), (8.5, "session:end", {"status": "failed"})]
    write(ONE, *life, *again, parent_id=ROOT, agent_name="explorer")
    (child,) = json.loads(give("--tree", "--format", "json").stdout)["children"]
    assert [call["tool_call_id"] for call in child["calls"]] == ["c1", "c2"]
    assert (child["end"], child["reason"]) == ("failed", "no")


def test_names_cannot_steer_the_terminal(give: Give, write: Write) -> None:
    """Agents, calls and reasons are shown without escape sequences and on their line."""
    bad = "a\x1b[2Jb\nc\x9b"
    told = {**_spawned(ONE, bad, bad), "error": {"msg": bad}}
    write(ROOT, (0, "session:start", {}), (1, "delegate:agent_spawned", told), (2, "delegate:error", told))
    write(ONE, (1.5, "session:start", {}), parent_id=ROOT, agent_name=bad)
    text = give("--tree").stdout
    assert "[ab c]" in text
    assert not any((ord(one) < 32 and one != "\n") or 127 <= ord(one) < 160 for one in text)


def test_damaged_logs_are_told(give: Give, write: Write) -> None:
    """A torn line is reported and costs nothing else; a child without a log is shown."""
    folder = write(ROOT, (0, "session:start", {}), (2, "session:end", {"status": "completed"}))
    child = write(ONE, (1, "session:start", {}), parent_id=ROOT, agent_name="explorer")
    with open(folder / "events.jsonl", "ab") as file:
        file.write(b'{"ts": "torn')
    (child / "events.jsonl").unlink()
    result = give("--tree")
    assert result.exit_code == 0
    assert f"warning: {folder}: 1 line holds no record" in result.stderr
    assert "  ■ explorer crashed: it never began" in result.stdout


def test_circles_end(give: Give, write: Write) -> None:
    """Notes that make two sessions each other's child end all the same."""
    write(ONE, (0, "session:start", {}), parent_id=TWO, agent_name="explorer")
    write(TWO, (1, "session:start", {}), parent_id=ONE, agent_name="reviewer")
    result = give("--tree", ONE)
    assert result.exit_code == 0
    assert result.stdout.count("▸") == 2


def test_hundreds_of_children(home: Home, project: Path, write: Write) -> None:
    """Five hundred children one after the other need no more open files than one; every one begins and ends."""
    count = 500
    write(ROOT, (0, "session:start", {}), (count + 5, "session:end", {"status": "completed"}))
    for number in range(count):
        events = [(number + 1, "session:start", {}), (number + 1.5, "session:end", {"status": "completed"})]
        write(f"0000000000000000-{number:016x}_a", *events, parent_id=ROOT, agent_name="a")
    store = SessionStore(home)
    root = store.find(ROOT, project)
    top = read_tree(root, store.descendants(root))
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    most, kinds = 0, []
    for kind, node, _ in lines_of(top):
        kinds.append(kind)
        if descriptors.is_dir() and node.depth and kind == "line":
            most = max(most, len(list(descriptors.iterdir())) - before)
    assert (kinds.count("begins"), kinds.count("ends"), kinds.count("line")) == (count + 1, count + 1, 2 * count + 2)
    assert most <= 3


def test_without_a_session(amplifier: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Without sessions it says what to do; of a real run the tree is its log, as a real process."""
    result = amplifier("logs", "--tree")
    assert (result.returncode, result.stdout) == (2, "")
    assert "no session yet" in result.stderr
    assert amplifier("run", "hello").returncode == 0
    lines = amplifier("logs", "--tree").stdout.splitlines()
    assert lines[0].startswith("▸ session ")
    assert lines[-1].startswith("■ session completed")


@pytest.mark.parametrize(
    ("status", "turn", "shown"),
    [
        ("failed", "denied", "failed: the budget of 4 turns is used up"),
        ("completed", "denied", "incomplete: the budget of 4 turns is used up"),
        ("completed", "max_iterations", "incomplete: the limit of iterations was reached"),
        ("cancelled", "cancelled", "cancelled"),
    ],
)
def test_the_end_is_that_of_the_last_turn(give: Give, write: Write, status: str, turn: str, shown: str) -> None:
    """A loop that returns without having done its work has not completed it, and the tree says what kept it."""
    denied = {"error": {"type": "denied", "message": "the budget of 4 turns is used up"}, "status": "denied"}
    ended = {"status": "cancelled" if turn == "cancelled" else "incomplete", "reason": turn}
    write(
        ROOT,
        (0, "session:start", {}),
        (1, "execution:start", {}),
        *([(2, "provider:error", denied)] if turn == "denied" else []),
        (3, "orchestrator:complete", ended),
        (4, "session:end", {"status": status}),
    )
    last = give(ROOT, "--tree", "--brief").output.splitlines()[-1]
    assert last.startswith(f"■ session {shown} ·"), last


def test_an_error_that_passed_is_no_reason(give: Give, write: Write) -> None:
    """What went wrong before the model answered, or in an earlier turn, has not ended the session."""
    failed = {"error": {"type": "StreamError", "message": "cut"}}
    turn = [(2, "provider:error", failed), (3, "orchestrator:complete", {"status": "error"})]
    answered = [(5, "provider:error", failed), (6, "provider:response", {})]
    ended = [(7, "orchestrator:complete", {"status": "success"}), (8, "session:end", {"status": "completed"})]
    write(
        ROOT, (0, "session:start", {}), (1, "execution:start", {}), *turn, (4, "execution:start", {}), *answered, *ended
    )
    assert give(ROOT, "--tree", "--brief").output.splitlines()[-1].startswith("■ session completed ·")


def test_how_long_a_call_took(amplifier: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The lines for people have the time that a call took."""
    assert amplifier("run", "--bundle", "minimal", "Why is it slow?").returncode == 0
    printed = amplifier("logs", "--event", "provider:response").stdout
    assert re.search(r" provider:response \([\d.]+ m?s\) ", printed), printed
