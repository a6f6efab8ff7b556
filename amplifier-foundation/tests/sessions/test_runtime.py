"""One session, the way applications run it."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.log import SessionLogBusy, read_log
from amplifier_foundation.prepared import Prepared
from amplifier_foundation.sessions import ModulesMissingError, SessionRuntime

PLAN: dict[str, Any] = {
    "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
    "providers": [{"module": "provider-mock", "config": {"responses": ["The answer."]}}],
    "hooks": [{"module": "hooks-logging"}],
}


def _runtime(tmp_path: Path, plan: dict[str, Any] = PLAN, **more: Any) -> SessionRuntime:
    prepared = Prepared.from_plan(plan, tmp_path / "home", tmp_path, name="b")
    return SessionRuntime(prepared, environ={}, **more)


async def test_a_session_leaves_its_files(tmp_path: Path) -> None:
    """Log, transcript and metadata lie in one folder that is its owner's alone."""
    runtime = _runtime(tmp_path)
    async with runtime:
        assert await runtime.execute("hello") == "The answer."
    assert runtime.folder.stat().st_mode & 0o777 == 0o700
    roles = [json.loads(line)["role"] for line in (runtime.folder / "transcript.jsonl").read_text().splitlines()]
    assert roles == ["user", "assistant"]
    metadata = json.loads((runtime.folder / "metadata.json").read_text())
    assert (metadata["bundle"], metadata["turn_count"]) == ("bundle:b", 1)
    assert [line.event for line in read_log(runtime.folder)][-1] == "session:end"


async def test_a_history_that_cannot_be_kept_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A context that fails to tell its history is complained about once, and the answers are returned."""
    runtime = _runtime(tmp_path)
    async with runtime:

        def broken(position: int) -> list[Any]:
            raise KeyError("history")

        monkeypatch.setattr(runtime.session.coordinator.get("context"), "messages_since", broken)
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                assert await runtime.execute("hello") == "The answer."
    said = [record.getMessage() for record in caplog.records if "transcript.jsonl" in record.getMessage()]
    assert len(said) == 1
    assert "KeyError: 'history'" in said[0]


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_missing_loop_is_fatal(tmp_path: Path, is_allowed: bool) -> None:
    """Without its loop a session cannot run, whatever is allowed."""
    session = {**PLAN["session"], "orchestrator": {"module": "loop-absent"}}
    runtime = _runtime(tmp_path, {**PLAN, "session": session}, allow_missing_modules=is_allowed)
    with pytest.raises(ModulesMissingError, match="loop-absent") as raised:
        await runtime.__aenter__()
    assert raised.value.is_fatal


async def test_a_missing_tool_may_be_allowed(tmp_path: Path) -> None:
    """Every missing module is named, unless the caller allows it."""
    plan = {**PLAN, "tools": [{"module": "tool-absent"}, {"module": "tool-gone"}]}
    with pytest.raises(ModulesMissingError) as raised:
        await _runtime(tmp_path, plan).__aenter__()
    assert [failure.split(":")[0] for failure in raised.value.failures] == ["tool 'tool-absent'", "tool 'tool-gone'"]
    assert not raised.value.is_fatal
    async with _runtime(tmp_path, plan, allow_missing_modules=True) as runtime:
        assert await runtime.execute("hello") == "The answer."


async def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """A session that runs is not opened a second time; when it has ended it may be."""
    async with _runtime(tmp_path, session_id="one"):
        second = _runtime(tmp_path, session_id="one")
        with pytest.raises(SessionLogBusy):
            await second.__aenter__()
        assert not second.was_opened
    async with _runtime(tmp_path, session_id="one") as again:
        await again.execute("hello")
    numbers = [line.seq for line in read_log(again.folder)]
    assert numbers == list(range(1, len(numbers) + 1))
