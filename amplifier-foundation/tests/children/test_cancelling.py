"""A wish to stop reaches everybody below, and everything that was begun is closed."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children import child_session
from amplifier_kit.engine import tasks
from amplifier_testing.loop.fakes import PlainTool

_CALLS = [{"name": "call", "arguments": {"agent": "builder", "task": f"Part {n}."}, "id": f"c{n}"} for n in range(3)]
_WAIT = {"tool_calls": [{"name": "wait", "arguments": {}}]}


@pytest.fixture
def waiting(add_tools: Callable[..., str]) -> tuple[str, list[str]]:
    """Return a module with a tool that waits for ever, and what happened to each of its calls."""
    happened: list[str] = []

    def make(coordinator: Any) -> list[PlainTool]:
        async def wait(given: dict[str, Any]) -> str:
            happened.append("begun")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                happened.append("stopped")
                raise
            return "never"

        return [PlainTool("wait", wait)]

    return add_tools(make), happened


def _ends(tree: Any, *, is_cancelled: bool = True) -> None:
    """Check that every child, and the root, has closed what it began."""
    for folder in tree.place.iterdir():
        events = [event for event, _ in tree.events(folder.name)]
        status = dict(tree.events(folder.name))
        assert events.count("execution:start") == events.count("execution:end"), folder.name
        assert events.count("tool:pre") == events.count("tool:post") + events.count("tool:error"), folder.name
        assert events.count("orchestrator:complete") == events.count("prompt:submit"), folder.name
        assert events[-1] == "session:end", folder.name
        assert "incremental" not in tree.metadata(folder.name)
        if is_cancelled:
            assert status["session:end"]["status"] == "cancelled", folder.name


@pytest.mark.parametrize("model_waits", [True, False])
async def test_an_immediate_stop_reaches_the_tools_of_all_grandchildren(
    tree: Any, delegating: str, waiting: tuple[str, list[str]], model_waits: bool, eventually: Any
) -> None:
    """Three grandchildren at work in a tool or with the model are dropped at once, and every turn is closed."""
    module, happened = waiting
    tree.plan["tools"] = [{"module": delegating}, {"module": module}]
    outer = [{"name": "call", "arguments": {"agent": "explorer"}, "id": "outer"}]
    last = {"delay_ms": 3_600_000, "text": "never"} if model_waits else _WAIT
    tree.script([{"tool_calls": outer}], {"explorer": [{"tool_calls": _CALLS}], "builder": [last]})
    at_work: list[str] = []

    def hear(facts: Any, event: str, data: Any) -> None:
        if facts.agent == "builder" and event == ("llm:request" if model_waits else "tool:pre"):
            at_work.append(event)

    async with tree.run(on_child_event=hear) as runtime:
        turn = asyncio.ensure_future(runtime.execute("Go."))
        await eventually(lambda: len(at_work) == 3 and (model_waits or happened.count("begun") == 3))
        await runtime.session.coordinator.request_cancel(immediate=True)
        async with asyncio.timeout(60):
            await asyncio.wait([turn])
    assert happened.count("begun") == happened.count("stopped")
    assert len(list(tree.place.iterdir())) == 5
    _ends(tree)


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize(
    "event",
    [
        *("execution:start", "prompt:submit", "llm:response", "tool:pre", "tool:post", "prompt:complete"),
        *("orchestrator:complete", "execution:end", "session:end"),
    ],
)
async def test_a_child_that_is_stopped_in_a_hook_has_a_whole_log(
    tree: Any,
    spawn_in: Any,
    add_tools: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    eventually: Any,
    event: str,
    is_asked: bool,
) -> None:
    """What hangs before the log has heard of an end does not keep that end out of it, however the child is stopped."""
    monkeypatch.setattr(child_session, "_CLOSE_SECONDS", 10.0)
    if event in ("prompt:complete", "orchestrator:complete", "execution:end"):
        # The end of a turn is let finish when it is cancelled, and this one never does.
        monkeypatch.setattr(tasks, "_FINISH_SECONDS", 0.1)
    hanging, late = list[str](), list[str]()
    # Later than a child may be with its end, and sooner than a hook.
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + 15 * len(late))

    def make(coordinator: Any) -> list[PlainTool]:
        async def hang(event: str, data: Any) -> None:
            hanging.append(event)
            await asyncio.sleep(3600)

        if coordinator.parent_id is not None:
            coordinator.hooks.register(event, hang, priority=1, name="hanging")
        return [PlainTool("look")]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    look = {"tool_calls": [{"name": "look", "arguments": {}, "id": "l"}]}
    tree.script([], {"builder": [look, {"text": "done"}]})
    async with tree.run() as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("builder", "Go.", tool_call_id="c"))
        await eventually(lambda: hanging)
        if is_asked:
            await runtime.session.coordinator.request_cancel(immediate=True)
        task.cancel()
        if event == "session:end":  # it is being closed already: by the loop's clock its time for that is up now
            late.append(event)
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        child = spawn_in(runtime).child_id("builder", "c")
    events = [name for name, _ in tree.events(child)]
    turn = ("prompt:complete", "orchestrator:complete")
    for start, ends in (("tool:pre", ("tool:post", "tool:error")), ("execution:start", ("execution:end",))):
        # A start that the log has not heard of has an end all the same.
        assert events.count(start) <= sum(map(events.count, ends)) <= 1, events
    assert all(events.count("prompt:submit") <= events.count(end) <= 1 for end in turn), events
    assert (events.count("session:end"), events[-1]) == (1, "session:end")
    statuses = {name: data["status"] for name, data in tree.events(child)}
    # An end that was emitted is logged as it was emitted; only what never ended is cancelled.
    assert statuses["execution:end"] == ("completed" if event in ("execution:end", "session:end") else "cancelled")
    assert statuses["session:end"] == ("completed" if event == "session:end" else "cancelled")


async def test_a_graceful_stop_lets_running_tools_finish_and_begins_nothing_more(
    tree: Any, delegating: str, add_tools: Callable[..., str], eventually: Any
) -> None:
    """Children hear of it at once: after the tool at work they ask their model nothing."""
    going, begun = asyncio.Event(), list[Any]()

    def make(coordinator: Any) -> list[PlainTool]:
        async def wait(given: dict[str, Any]) -> str:
            begun.append(coordinator)
            await going.wait()
            return "waited"

        return [PlainTool("wait", wait)]

    tree.plan["tools"] = [{"module": delegating}, {"module": add_tools(make)}]
    tree.script([{"tool_calls": _CALLS}], {"builder": [_WAIT, {"text": "never"}]})
    async with tree.run() as runtime:
        turn = asyncio.ensure_future(runtime.execute("Go."))
        await eventually(lambda: len(begun) == 3)
        await runtime.session.coordinator.request_cancel()
        assert all(coordinator.cancellation.is_graceful for coordinator in begun)
        going.set()
        async with asyncio.timeout(60):
            await turn
    children = [path.name for path in tree.place.iterdir() if path.name.endswith("_builder")]
    for child in children:
        assert ("tool", "waited") in tree.said(child)
        assert [event for event, _ in tree.events(child)].count("llm:request") == 1
    assert len(children) == 3
    _ends(tree)


async def test_a_child_is_stopped_with_the_task_that_waits_for_it(
    tree: Any, spawn_in: Any, waiting: tuple[str, list[str]], eventually: Any
) -> None:
    """Whoever gives up on a child ends it, with its tool and its log."""
    module, happened = waiting
    tree.plan["tools"] = [{"module": module}]
    tree.script([], {"builder": [_WAIT]})
    async with tree.run() as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("builder", "Go.", tool_call_id="c"))
        await eventually(lambda: happened == ["begun"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert happened == ["begun", "stopped"]
        assert runtime.session.coordinator.cancellation._children == []
        child = spawn_in(runtime).child_id("builder", "c")
        event, last = tree.events(child)[-1]
        assert (event, last["status"]) == ("session:end", "cancelled")
        assert not runtime.children.sessions._running
        assert runtime.budget.running_children == 0
        assert not runtime.session.coordinator.cancellation.is_cancelled


@pytest.fixture
def starting(add_tools: Callable[..., str]) -> tuple[str, asyncio.Event, asyncio.Event]:
    """Return a module that keeps children from getting ready: its id, what says that one waits, what lets it go."""
    mounting, going = asyncio.Event(), asyncio.Event()

    async def on_ready(coordinator: Any) -> None:
        if coordinator.parent_id is not None and not going.is_set():
            mounting.set()
            await going.wait()

    return add_tools(lambda coordinator: [PlainTool("look")], on_ready), mounting, going


async def test_a_child_that_is_stopped_while_it_starts_is_in_the_tree(tree: Any, spawn_in: Any, starting: Any) -> None:
    """Its notes say whose it was and that it was cancelled; called again, it does its task."""
    module, mounting, going = starting
    tree.plan["tools"] = [{"module": module}]
    async with tree.run() as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", tool_call_id="c"))
        await mounting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        child = spawn_in(runtime).child_id("explorer", "c")
        assert (tree.metadata(child)["parent_id"], tree.metadata(child)["tool_call_id"]) == (runtime.session_id, "c")
        assert '"status": "cancelled"' in (tree.place / child / "results.json").read_text()
        going.set()
        assert (await spawn_in(runtime)("explorer", "Go.", tool_call_id="c"))["status"] == "success"


async def test_a_child_that_was_too_slow_to_start_goes_on_by_its_id(
    tree: Any, starting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its caller is told: it is resumed as the agent it is, and knows what it was asked for."""
    module, mounting, going = starting
    loop = asyncio.get_running_loop()
    # By the loop's clock its time is up when it waits for its module, and not before.
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + 1000 * mounting.is_set())
    tree.plan["tools"] = [{"module": module}, {"module": "tool-delegate", "config": {"settings": {"timeout": 100}}}]
    tree.script([], {"explorer": [{"text": "Found.", "expect": {"contains": "Find the tests."}}]})
    async with tree.run() as runtime:
        delegate = runtime.session.coordinator.get("tools")["delegate"]
        late = await delegate.execute({"agent": "explorer", "instruction": "Find the tests.", "context_depth": "none"})
        assert late.error["code"] == "timeout"
        going.set()
        again = await delegate.execute({"session_id": late.error["session_id"], "instruction": "Go on."})
    assert (again.output["response"], again.output["agent"]) == ("Found.", "explorer")
    said = tree.said(late.error["session_id"])
    assert said[0] == ("user", "Find the tests.")
    assert ("user", "Go on.") in said
    assert tree.metadata(late.error["session_id"])["turn_count"] == 1


async def test_a_child_that_is_started_after_the_wish_to_stop_does_nothing(tree: Any, spawn_in: Any) -> None:
    """It hears of it before its first step."""
    async with tree.run() as runtime:
        await runtime.session.coordinator.request_cancel()
        result = await spawn_in(runtime)("explorer", "Go.")
    assert result["status"] == "cancelled"
    assert "llm:request" not in [event for event, _ in tree.events(result["session_id"])]


async def test_a_stop_of_one_child_leaves_the_others_alone(tree: Any, spawn_in: Any, eventually: Any) -> None:
    """Parallel children share no wish to stop, in neither direction."""
    tree.script(
        [], {"explorer": [{"delay_ms": 3_600_000, "text": "never"}], "builder": [{"delay_ms": 50, "text": "B"}]}
    )
    heard: list[str] = []
    async with tree.run(on_child_event=lambda facts, event, data: heard.append(f"{facts.agent} {event}")) as runtime:
        spawn = spawn_in(runtime)
        stopped = asyncio.ensure_future(spawn("explorer", "Go."))
        other = asyncio.ensure_future(spawn("builder", "Go."))
        await eventually(lambda: {"explorer llm:request", "builder llm:request"} <= set(heard))
        stopped.cancel()
        assert (await other)["output"] == "B"
        await asyncio.wait([stopped])
        assert stopped.cancelled()


async def test_commands_of_children_die_with_an_immediate_stop(tree: Any, delegating: str, eventually: Any) -> None:
    """No process of a tool is left behind."""
    (tree.home / "policy.yaml").write_text(
        "rules:\n  - {action: tool.call, verdict: allow}\n  - {action: process.exec, verdict: allow}\n",
        encoding="utf-8",
    )
    marks = [tree.project / f"pid{n}" for n in range(2)]
    commands = [f"echo $$ > pid{n}; sleep 600 & sleep 600" for n in range(2)]
    tree.plan["tools"] = [{"module": delegating}, {"module": "tool-bash", "config": {"sandbox": "off"}}]
    calls = [{"name": "call", "arguments": {"agent": name}, "id": name} for name in ("explorer", "builder")]
    agents = {
        name: [{"tool_calls": [{"name": "bash", "arguments": {"command": command, "timeout": 500}}]}]
        for name, command in zip(("explorer", "builder"), commands, strict=True)
    }
    tree.script([{"tool_calls": calls}], agents)
    async with tree.run() as runtime:
        turn = asyncio.ensure_future(runtime.execute("Go."))
        await eventually(lambda: all(mark.is_file() and mark.read_text().strip() for mark in marks))
        pids = [int(mark.read_text()) for mark in marks]
        await runtime.session.coordinator.request_cancel(immediate=True)
        async with asyncio.timeout(60):
            await asyncio.wait([turn])
        await eventually(lambda: not any(_is_alive(pid) for pid in pids))
    assert [pid for pid in pids if _is_alive(pid)] == []
    _ends(tree)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # gone since, or there is no /proc: whoever asks again learns it
        return True
