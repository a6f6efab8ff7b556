"""The messages of a session name the lines of its log that made them."""

import json
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.events import PROMPT_SUBMIT, PROVIDER_RESPONSE, TOOL_POST
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.fork import fork_session
from amplifier_foundation.sessions.log import event_seq
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.sessions.transcript import load_history
from amplifier_kit.log.reader import read_log
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


async def _ran(tmp_path: Path, context: str = "context-simple") -> Path:
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
    return runtime.folder


@pytest.mark.parametrize("context", ["context-simple", "context-persistent"])
async def test_each_message_names_the_line_that_made_it(tmp_path: Path, context: str) -> None:
    """The number in a stored message is that of its prompt, of its response, or of the result of its call."""
    folder = await _ran(tmp_path, context)
    lines = {line.seq: line for line in read_log(folder)}
    messages = load_history(folder).messages
    makers = [lines[event_seq(message)] for message in messages]
    answer = [PROMPT_SUBMIT, PROVIDER_RESPONSE]
    assert [line.event for line in makers] == [*answer, TOOL_POST, TOOL_POST, PROVIDER_RESPONSE, *answer]
    assert [line.data["tool_call_id"] for line in makers[2:4]] == ["c1", "c2"]
    assert len({line.seq for line in makers}) == len(messages)
    assert [fork_session(folder, at_event=line.seq).events for line in makers[::4]] == [
        line.seq for line in makers[::4]
    ]
