"""A stream that breaks off leaves nothing half said in a session, whoever the provider is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import LLMError
from amplifier_testing.llm import Reply, Said, WireServer

_CALLS = (("call_1", "read_file", {"file_path": "a.txt"}), ("call_2", "glob", {"pattern": "*.txt"}))
_FAULTS: dict[str, Callable[[WireServer, Reply], Reply]] = {
    "cut": lambda wire, whole: whole.cut(wire.first_text),
    "truncated": lambda wire, whole: whole.truncated(wire.first_text),
    "garbage": lambda wire, whole: whole.inserted(wire.first_text, wire.garbage()),
}


def _broken(strict: Any, fault: str) -> Reply:
    wire = strict.service.wire
    return _FAULTS[fault](wire, wire.reply(Said(("Half", " of", " it"))))


@pytest.mark.parametrize("fault", _FAULTS)
async def test_nothing_partial_is_kept(lab: Any, strict: Any, fault: str) -> None:
    """After a broken answer the transcript has only the question, the log says what happened, the next turn runs."""
    strict.replies(_broken(strict, fault), _broken(strict, fault))
    async with lab.session(strict) as runtime:
        with pytest.raises(LLMError):
            await runtime.execute("What is here?")
        assert [message["role"] for message in lab.transcript()] == ["user"]
        strict.says(Said(("All", " of it.")))
        assert await runtime.execute("Once more.") == "All of it."
    events = [record["event"] for record in lab.log()]
    # One retry: two attempts that had begun, and one error of the turn.
    assert events.count("llm:stream_aborted") == 2
    assert events.count("provider:retry") == events.count("provider:error") == 1
    assert lab.blocks() == [("text", "Half", "aborted")] * 2 + [("text", "All of it.", "whole")]
    assert lab.shapes() == [("user", "words"), ("user", "words"), ("assistant", "text")]
    assert "Half" not in str(lab.transcript())
    assert strict.refused == []


async def test_a_retry_leaves_one_answer(lab: Any, strict: Any) -> None:
    """An answer that came at the second attempt stands in the transcript once, without a trace of the first."""
    strict.replies(_broken(strict, "cut"))
    strict.says(Said(("All", " of it.")))
    async with lab.session(strict) as runtime:
        assert await runtime.execute("What is here?") == "All of it."
    assert lab.shapes() == [("user", "words"), ("assistant", "text")]
    assert "Half" not in str(lab.transcript())
    assert "provider:error" not in lab.story()
    assert lab.story().count("llm:stream_aborted") == 1


async def test_tools_that_ran_stay_with_their_results(lab: Any, strict: Any) -> None:
    """When the answer after two tools breaks off, calls and results stay whole, and the session can be resumed."""
    strict.says(Said(("I look.",), calls=_CALLS))
    strict.replies(_broken(strict, "cut"), _broken(strict, "cut"))
    async with lab.session(strict) as runtime:
        with pytest.raises(LLMError):
            await runtime.execute("What is here?")
    kept = [("tool", "words", "answers read_file"), ("tool", "words", "answers glob")]
    assert lab.shapes()[2:] == kept
    strict.says(Said(("Two files.",)))
    async with lab.session(strict, resumed=True) as runtime:
        assert await runtime.execute("Go on.") == "Two files."
    # The resume notes that there was no answer, and says that no model said so.
    assert lab.shapes()[2:] == [*kept, ("assistant", "words"), ("user", "words"), ("assistant", "text")]
    assert [bool(message["metadata"].get("synthetic")) for message in lab.transcript()[4:]] == [True, False, False]
    assert strict.refused == []
    assert strict.pairs == [0, 2, 2, 2]
