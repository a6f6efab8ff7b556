"""One session through the store: all of its folder, without a name of a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.events import PROMPT_SUBMIT, PROVIDER_RESPONSE, TOOL_POST
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions import SessionRuntime
from amplifier_foundation.sessions.log import event_seq
from amplifier_foundation.sessions.store import SessionNotFoundError, SessionStore, StoredSession
from amplifier_testing.loop.fakes import PlainTool

SCENARIO: list[dict[str, Any]] = [
    {
        "text": "I look.",
        "tool_calls": [{"id": f"c{n}", "name": "look", "arguments": {"command": f"cat {n}"}} for n in (1, 2)],
    },
    {"text": "Seen."},
    {"text": "Again."},
]


class Allowed:
    """Let every tool run."""

    async def request_approval(self, *_: Any) -> str:
        return "Allow once"


async def _ran(tmp_path: Path, context: str = "context-simple") -> StoredSession:
    script = tmp_path / "scenario.json"
    script.write_text(json.dumps({"turns": SCENARIO}))
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": context}},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "hooks": [{"module": "hooks-logging"}],
    }

    async def look(given: dict[str, Any]) -> str:
        return f"page {given['command']} " * 5000

    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b")
    async with SessionRuntime(prepared, approval_system=Allowed(), environ={}) as runtime:
        await runtime.session.coordinator.mount("tools", PlainTool("look", look, action="process.exec"))
        for prompt in ("look", "again"):
            await runtime.execute(prompt)
    return SessionStore(Home(tmp_path / "home")).open(runtime.session_id, tmp_path)


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_each_message_names_the_line_that_made_it(tmp_path: Path, context: str) -> None:
    """The number in a stored message is that of its prompt, of its response, or of the result of its call."""
    opened = await _ran(tmp_path, context)
    lines = {line.seq: line for line in opened.events()}
    messages = opened.history().messages
    makers = [lines[event_seq(message)] for message in messages]
    answer = [PROMPT_SUBMIT, PROVIDER_RESPONSE]
    assert [line.event for line in makers] == [*answer, TOOL_POST, TOOL_POST, PROVIDER_RESPONSE, *answer]
    assert [line.data["tool_call_id"] for line in makers[2:4]] == ["c1", "c2"]
    assert len({line.seq for line in makers}) == len(messages)
    assert [opened.fork(at_event=line.seq).events for line in makers[::4]] == [line.seq for line in makers[::4]]


async def test_everything_of_a_session_is_reached_through_the_store(tmp_path: Path) -> None:
    """Metadata, plan, messages, log, blobs, checkpoints and pending calls come from the opened session."""
    opened = await _ran(tmp_path)
    assert opened.summary().turn_count == opened.metadata().data["turn_count"] == 2
    assert opened.update_metadata({"name": "pages"})["name"] == opened.summary().name == "pages"
    plan, problem = opened.record()
    assert (plan is not None, problem) == (True, "")
    assert opened.load().messages == opened.history().messages
    assert opened.diagnose().status == "healthy"
    assert (opened.repair().actions, opened.rewind().actions) == ([], [])
    assert opened.verify_log().ok
    large = next(line for line in opened.events() if line.event == TOOL_POST).data["result"]["output"]
    assert opened.blobs.content(large["$blob"])
    assert (opened.checkpoints.list(), opened.pending_calls.list()) == ([], ())
    assert opened.current_metadata()["usage"]
    assert (opened.is_running, opened.bytes > 0) == (False, True)
    written = opened.export(tmp_path / "session.md")
    assert "I look." in written.path.read_text()
    follower = opened.follow()
    assert len(list(follower.poll())) == opened.verify_log().lines
    follower.close()


def test_a_deleted_session_has_no_summary(tmp_path: Path) -> None:
    """Whoever opened a session before it was deleted gets an error that says so."""
    with pytest.raises(SessionNotFoundError, match="session gone is no longer in"):
        StoredSession(tmp_path / "gone").summary()
