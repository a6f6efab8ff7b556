"""What a session must not lose is on disk while it happens, and a file that fails costs no answer."""

import asyncio
import json
import logging
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.plan.composed import Composed
from amplifier_foundation.sessions.metadata import load_metadata, update_metadata
from amplifier_foundation.sessions.recorder import SessionRecorder
from amplifier_foundation.trust.check import ModuleUse
from amplifier_kit.guard.redaction.redactor import Redactor

HELLO = {"role": "user", "content": "hello"}
HI = {"role": "assistant", "content": "hi"}


class Context:
    """A context that gives what it is told to give."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)

    async def get_messages(self) -> list[dict[str, Any]]:
        return list(self.messages)


def _keeper(folder: Path, **facts: Any) -> SessionRecorder:
    folder.mkdir(exist_ok=True)
    update_metadata(folder, {"session_id": "s"})
    return SessionRecorder(folder, Redactor([]), {"session_id": "s", **facts})


def _kept(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "transcript.jsonl").read_text().splitlines()]


async def test_a_turn_that_could_not_be_kept_stays_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the transcript cannot be written the notes go on saying that the turn runs, so that the log is asked."""
    recorder = _keeper(tmp_path)
    (tmp_path / "transcript.jsonl").mkdir()
    recorder.open_turn("hello")
    with caplog.at_level(logging.ERROR):
        await recorder.close_turn(Context(HELLO, HI))
    assert load_metadata(tmp_path).data["incremental"] is True
    assert "transcript.jsonl" in caplog.text
    (tmp_path / "transcript.jsonl").rmdir()
    await recorder.close_turn(Context(HELLO, HI))
    assert "incremental" not in load_metadata(tmp_path).data
    assert _kept(tmp_path) == [HELLO, HI]


async def test_a_cancelled_close_leaves_the_turn_open(tmp_path: Path) -> None:
    """A turn whose conversation could not be asked for is not noted as closed."""

    class Slow(Context):
        async def get_messages(self) -> list[dict[str, Any]]:
            await asyncio.sleep(60)
            return []

    recorder = _keeper(tmp_path)
    recorder.open_turn("hello")
    closing = asyncio.create_task(recorder.close_turn(Slow()))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert load_metadata(tmp_path).data["incremental"] is True


async def test_an_older_answer_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    """Two saves at once of a context that answers late leave the newest history, without a rewrite."""
    slow, fast = asyncio.Event(), asyncio.Event()

    class Late(Context):
        async def get_messages(self) -> list[dict[str, Any]]:
            seen = list(self.messages)
            await (fast if len(seen) > 1 else slow).wait()
            return seen

    context = Late(HELLO)
    recorder = _keeper(tmp_path)
    first = asyncio.create_task(recorder.save_messages(context))
    await asyncio.sleep(0)
    context.messages.append(HI)
    second = asyncio.create_task(recorder.save_messages(context))
    await asyncio.sleep(0)
    fast.set()
    await asyncio.sleep(0)
    slow.set()
    await asyncio.gather(first, second)
    assert _kept(tmp_path) == [HELLO, HI]
    assert not (tmp_path / "transcript.jsonl.backup").exists()


async def test_a_count_that_is_a_method_is_no_count(tmp_path: Path) -> None:
    """A context of other people may call a method what ours calls a number; its history is kept all the same."""

    class Foreign(Context):
        def message_count(self) -> int:
            return len(self.messages)

        def messages_since(self, position: int) -> list[dict[str, Any]]:
            raise AssertionError("not asked")

    recorder = _keeper(tmp_path)
    await recorder.save_messages(Foreign(HELLO))
    assert _kept(tmp_path) == [HELLO]


def test_a_record_says_again_what_yaml_said(tmp_path: Path) -> None:
    """Dates, keys that are no text and numbers that are none come back from a record as they were."""
    plan = {
        "tools": [{"module": "t", "config": {"since": date(2024, 1, 31), 1: "one", "$odd": float("inf")}}],
        "hooks": [{"module": "h", "config": {"api_key": "sk-abcdefghijklmnop1234567890"}}],
        "providers": [{"module": "p", "config": {"servers": {"s": {"command": "c", "env": {"THING": "odd-9012"}}}}}],
    }
    source = "git+ssh://git@host.example/org/repo@main"
    use = ModuleUse("tools", "t", source, "user", "user", False, "x:1")
    composed = Composed("r", "n", "1", "u", plan, instruction="Write to ann@example.com.", modules=(use,))
    _keeper(tmp_path).save_record(composed)
    record = json.loads((tmp_path / "record.json").read_text())
    again = Composed.from_record(record, "x")
    assert again.plan["tools"] == plan["tools"]
    assert again.plan["hooks"][0]["config"]["api_key"] == "[REDACTED]"
    assert again.plan["providers"][0]["config"]["servers"]["s"]["env"] == {"THING": "[REDACTED]"}
    assert again.modules == (use,), "an address that looks like a person's is still an address"
    assert again.instruction == composed.instruction
    assert (tmp_path / "record.json").stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A record that cannot be written is complained about once, and the session goes on."""
    recorder = _keeper(tmp_path)
    (tmp_path / "record.json").mkdir()
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            recorder.save_record(Composed("r", "n", "1", "u", {}))
    assert caplog.text.count("record.json") == 1


def test_the_first_prompt_is_one_short_line(tmp_path: Path) -> None:
    """Lists of sessions show the beginning of the first prompt; later ones change nothing."""
    recorder = _keeper(tmp_path)
    recorder.open_turn("two\n  lines " + "x" * 500)
    recorder.open_turn("later")
    data = load_metadata(tmp_path).data
    assert data["first_prompt"] == ("two lines " + "x" * 500)[:120]
    assert data["turn_count"] == 2
