"""How children in processes of their own end, and how they are gone on with."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children import ChildFailedError, remote

_BASH = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
_USED = {"input_tokens": 3, "output_tokens": 2, "cost_usd": "0.5"}


def _environ() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def _run(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}], **more}


@pytest.fixture
def commanding(tree: Any) -> Any:
    """Return a tree whose sessions may run commands."""
    (tree.home / "policy.yaml").write_text("rules: [{action: process.exec, verdict: allow}]", encoding="utf-8")
    tree.plan["tools"] = _BASH
    return tree


@pytest.mark.parametrize("way", ["immediate", "task"])
async def test_the_last_words_of_a_stopped_process_count(
    commanding: Any, spawn_in: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What it says after it was told to stop is heard, what it used is counted, and its result is on disk."""
    monkeypatch.setattr(remote, "_LAST_WORDS", 60.0)  # a busy machine may need more than is left to it
    commanding.script([], {"explorer": [_run("echo $$ > pid; sleep 600", usage=_USED), {"text": "never"}]})
    mark = commanding.project / "pid"
    heard: list[str] = []
    is_stopped: list[int] = []
    async with commanding.run(environ=_environ(), on_child_event=lambda facts, event, data: heard.append(event)) as one:
        task = asyncio.ensure_future(spawn_in(one)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: mark.is_file() and bool(mark.read_text().strip()))
        is_stopped.append(len(heard))
        if way == "task":
            task.cancel()
        else:
            await one.session.coordinator.request_cancel(immediate=True)
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        child = spawn_in(one).child_id("explorer", "c")
        assert {"cost_usd": "0.5"} in await one.session.coordinator.collect_contributions("session.cost")
        assert one.budget.used()["tokens"] == 5
    last = heard[is_stopped[0] :]
    assert (last.count("execution:end"), last.count("session:end")) == (1, 1)
    assert commanding.events(child)[-1][1]["status"] == "cancelled"
    assert '"status": "cancelled"' in (commanding.place / child / "results.json").read_text(encoding="utf-8")


#: Writes the number of the process above a command that is that of a child session, and waits.
_WAIT_BELOW = (
    "p=$$; until tr '\\0' ' ' < /proc/$p/cmdline | grep -q 'children[.]process'; do "
    "p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); done; echo $p > pid; sleep 600"
)


@pytest.mark.parametrize("budget", [{}, {"usd": 100}])
async def test_what_was_used_below_a_process_that_is_killed_is_counted(
    commanding: Any, spawn_in: Any, eventually: Any, budget: dict[str, Any]
) -> None:
    """A child that was started by one in a process of its own has spent what it has, however that process ends."""
    (commanding.home / "policy.yaml").write_text(
        "rules: [{action: process.exec, verdict: allow}, {action: session.spawn, verdict: allow}]", encoding="utf-8"
    )
    commanding.plan["tools"] = [*_BASH, {"module": "tool-delegate"}]
    below = {"name": "delegate", "arguments": {"agent": "builder", "instruction": "Go.", "context_depth": "none"}}
    commanding.script(
        [],
        {"explorer": [{"tool_calls": [below], "usage": _USED}], "builder": [_run(_WAIT_BELOW, usage=_USED)]},
    )
    mark = commanding.project / "pid"
    async with commanding.run(environ=_environ(), budget=budget) as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True))
        await eventually(lambda: mark.is_file() and bool(mark.read_text().strip()))
        os.kill(int(mark.read_text()), signal.SIGKILL)
        async with asyncio.timeout(60):
            with pytest.raises(ChildFailedError, match="ended without an answer"):
                await task
        assert {"cost_usd": "1.0"} in await runtime.session.coordinator.collect_contributions("session.cost")
        assert (runtime.budget.used()["usd"], runtime.budget.used()["tokens"]) == (1, 10)


@pytest.mark.parametrize("is_own_process", [True, False])
async def test_whoever_listens_and_raises_does_not_harm_the_child(
    tree: Any, spawn_in: Any, caplog: pytest.LogCaptureFixture, is_own_process: bool
) -> None:
    """The child does its task, wherever it runs, and what was raised is told."""

    def hear(facts: Any, event: str, data: Any) -> None:
        raise RuntimeError("the view is broken")

    with caplog.at_level(logging.WARNING):
        async with tree.run(environ=_environ(), on_child_event=hear) as runtime:
            result = await spawn_in(runtime)("explorer", "Go.", use_subprocess=is_own_process)
    assert (result["status"], result["output"]) == ("success", "The answer.")
    assert "the view is broken" in caplog.text


@pytest.mark.parametrize("way", ["immediate", "task"])
async def test_a_stop_ends_a_process_that_has_not_spoken_yet(
    tree: Any, spawn_in: Any, eventually: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A child whose process hangs before its first word is gone with it, and nothing waits for it."""
    mark, program = tmp_path / "pid", tmp_path / "hangs"
    program.write_text(f"#!/bin/sh\necho $$ > {mark}\nexec sleep 600\n", encoding="utf-8")
    program.chmod(0o755)
    async with tree.run(environ=_environ()) as runtime:
        start = _only_for_children(monkeypatch, str(program))
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))
        await eventually(lambda: mark.is_file() and bool(mark.read_text().strip()))
        if way == "task":
            task.cancel()
        else:
            await runtime.session.coordinator.request_cancel(immediate=True)
        async with asyncio.timeout(60):
            await asyncio.wait([task])
        assert task.cancelled()
        assert start == [str(program)]
        assert not Path(f"/proc/{int(mark.read_text())}").exists()
        assert not runtime.children._running
        assert runtime.budget._children == 0


def _only_for_children(monkeypatch: pytest.MonkeyPatch, program: str) -> list[str]:
    """Have the processes of children started as another program; return the programs that were."""
    made = remote.RemoteChild._order
    started: list[str] = []

    def order(self: Any, socket: Path) -> Any:
        started.append(program)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", program)
            return made(self, socket)

    monkeypatch.setattr(remote.RemoteChild, "_order", order)
    return started


#: Writes the command lines of all processes above a command.
_ABOVE = (
    "p=$$; while [ $p -gt 1 ]; do tr '\\0' ' ' < /proc/$p/cmdline; echo; "
    "p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); done > above.txt"
)


async def test_a_child_goes_on_in_a_process_of_its_own(commanding: Any, spawn_in: Any) -> None:
    """What a child was kept apart from stays apart when it is resumed, by this process or a later one."""
    commanding.script([], {"explorer": [_run(_ABOVE), {"text": "Done."}], "builder": [_run(_ABOVE), {"text": "Done."}]})
    above = commanding.project / "above.txt"

    def has_own_process() -> bool:
        text = above.read_text(encoding="utf-8")
        above.unlink()
        return "amplifier_foundation.children.process" in text

    async with commanding.run(environ=_environ()) as runtime:
        child = (await spawn_in(runtime)("explorer", "Go.", use_subprocess=True, tool_call_id="c"))["session_id"]
        assert has_own_process()
        other = (await spawn_in(runtime)("builder", "Go.", tool_call_id="d"))["session_id"]
        assert not has_own_process()
    async with commanding.run(saved=runtime.session_id, environ=_environ()) as later:
        resume = later.session.coordinator.get_capability("session.resume")
        for identity, expected in ((child, True), (other, False), (child, True)):
            assert (await resume(identity, "Again."))["status"] == "success"
            assert has_own_process() is expected
    assert commanding.metadata(child)["use_subprocess"] is True
    assert "use_subprocess" not in commanding.metadata(other)


@pytest.mark.parametrize("number", ["INT", "TERM"])
async def test_an_interrupt_in_the_process_of_a_child_is_its_failure(
    commanding: Any, spawn_in: Any, number: str
) -> None:
    """Whoever waits for it was not cancelled: there is a reason to read, the logs are whole, and the parent goes on."""
    interrupt = (
        "p=$$; until tr '\\0' ' ' < /proc/$p/cmdline | grep -q 'children[.]process'; do "
        f"p=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$p/status); done; kill -{number} $p; sleep 600"
    )
    commanding.script([{"text": "I go on."}], {"explorer": [_run(interrupt, usage=_USED), {"text": "never"}]})
    async with commanding.run(environ=_environ()) as one:
        with pytest.raises(ChildFailedError, match="was interrupted in its own process"):
            await spawn_in(one)("explorer", "Go.", use_subprocess=True, tool_call_id="c")
        child = spawn_in(one).child_id("explorer", "c")
        assert await one.execute("And now?") == "I go on."
    events = [event for event, _ in commanding.events(child)]
    assert (events[-1], events.count("execution:start")) == ("session:end", events.count("execution:end"))
