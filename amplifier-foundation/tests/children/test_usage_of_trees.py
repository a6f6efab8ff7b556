"""What a tree of sessions used is the same number while it runs, in its metadata and in its logs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_foundation.sessions.fork import fork_session
from amplifier_foundation.sessions.metadata import load_metadata
from amplifier_foundation.usage.history import current_facts, logged_usage
from amplifier_kit.engine.usage import UsageRecord

_PAID = {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 4, "cost_usd": "0.5"}
_ANSWER = {"text": "Done.", "usage": _PAID}
_HANGS = {"text": "Never.", "delay_ms": 60_000}
_ENVIRON = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}


def _stored(tree: Any) -> UsageRecord:
    """Return what the metadata of all sessions hold together."""
    folders = [folder for folder in tree.place.iterdir() if folder.is_dir()]
    return sum((UsageRecord.of_facts(current_facts(one, load_metadata(one).data)) for one in folders), UsageRecord())


def _logged(tree: Any) -> UsageRecord:
    """Return what the logs of all sessions hold together."""
    return sum((logged_usage(folder) for folder in tree.place.iterdir() if folder.is_dir()), UsageRecord())


def _assert_same(tree: Any, live: UsageRecord) -> None:
    assert _logged(tree).facts() == _stored(tree).facts() == live.facts()
    assert _logged(tree) == live


async def test_live_and_recorded_sums_agree(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """Two children, a child and a session that are resumed: one sum, each answer counted once."""
    tree.script([_ANSWER, _ANSWER], {"explorer": [_ANSWER, _ANSWER], "builder": [_ANSWER]})
    async with tree.run(environ=_ENVIRON) as runtime:
        root, spawn = runtime.session_id, spawn_in(runtime)
        heard: dict[str, UsageRecord] = {}
        runtime.account.listeners.append(
            lambda session, used: heard.update({session: heard.get(session, UsageRecord()) + used})
        )
        await runtime.execute("Go.")
        first = await spawn("explorer", "Go.", tool_call_id="c1")
        other = await spawn("builder", "Go.", tool_call_id="c2")
        await runtime.session.coordinator.get_capability("session.resume")(first["session_id"], "Again.")
        before = runtime.account.total
    _assert_same(tree, before)
    expected = {"input_tokens": 40, "output_tokens": 8, "cache_read_tokens": 16, "cost_usd": "2.0"}
    assert before.facts() == expected
    assert heard == {one: logged_usage(tree.place / one) for one in (root, first["session_id"], other["session_id"])}
    assert runtime.account.own == heard[root]
    async with tree.run(root, environ=_ENVIRON) as resumed:
        await resumed.execute("More.")
        again = resumed.account.total
    _assert_same(tree, before + again)


async def test_a_fork_counts_its_own_answers_alone(tree: Any) -> None:
    """What a fork copies from its original is counted for the original, live and by the logs."""
    tree.script([_ANSWER, _ANSWER])
    async with tree.run() as runtime:
        await runtime.execute("One.")
    result = fork_session(runtime.folder)
    assert logged_usage(result.folder) == UsageRecord()
    async with tree.run(result.folder.name) as fork:
        await fork.execute("Two.")
    assert logged_usage(result.folder) == fork.account.total
    _assert_same(tree, runtime.account.total + fork.account.total)


async def test_a_call_that_was_cancelled_is_not_free(tree: Any, spawn_in: Callable[..., Any]) -> None:
    """A call that broke off counts as one without a price, live and by the logs."""
    tree.script([_ANSWER], {"explorer": [_HANGS]})
    asked = asyncio.Event()

    def on_child_event(facts: Any, event: str, data: Any) -> None:
        if event == "llm:request":
            asked.set()

    async with tree.run(environ=_ENVIRON, on_child_event=on_child_event) as runtime:
        await runtime.execute("Go.")
        child = asyncio.create_task(spawn_in(runtime)("explorer", "Go."))
        await asked.wait()
        child.cancel()
        with pytest.raises(asyncio.CancelledError):
            await child
        live = runtime.account.total
    _assert_same(tree, live)
    assert (live.calls, live.unpriced, live.broken, live.cost) == (2, 1, 1, None)
