"""How much is written: one line for one thing that happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log

Plan = Callable[..., dict[str, Any]]

#: What a streaming loop and its provider say of one answer with thinking, text and a call.
ANSWER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("llm:request", {}),
    *(
        (f"llm:stream_block_{part}", {"block_index": index})
        for index in range(3)
        for part in ("start", "delta", "delta", "end")
    ),
    ("llm:response", {"status": "ok"}),
    *((f"content_block:{part}", {"block_index": index}) for index in range(3) for part in ("start", "end")),
    ("tool:pre", {"tool_call_id": "c", "tool_name": "look"}),
    ("approval:granted", {}),
    ("tool:post", {"tool_call_id": "c", "tool_name": "look"}),
)


async def test_blocks_do_not_outnumber_everything_else(home: Path, plan: Plan) -> None:
    """Of a block of an answer there is one line, and the numbers of the lines have no gaps."""
    async with AmplifierSession(plan(), session_id="chat") as session:
        session.coordinator.session_state["events"] = ANSWER
        await session.execute("hello")
        await session.execute("again")
    [path] = home.rglob("chat/events.jsonl")
    lines = list(read_log(path))
    blocks = [line for line in lines if "block" in line.event]
    assert [line.event for line in blocks] == ["content_block:end"] * 6
    assert len(blocks) < len(lines) / 2
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("verify", [True, False])
async def test_the_hash_chain_is_a_setting(home: Path, plan: Plan, verify: bool) -> None:
    """With `verify` every line has the hash of the one before it, and the check finds that it fits."""
    async with AmplifierSession(plan({"verify": verify}), session_id="chain") as session:
        await session.execute("hello")
    [path] = home.rglob("chain/events.jsonl")
    report = verify_log(path)
    assert report.ok
    assert report.lines > 0
    assert report.chained == (report.lines if verify else 0)
