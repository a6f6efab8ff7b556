"""A fork is a session of its own: its conversation and its events end at the same point, and need nobody else."""

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.sessions.cleanup import prune_rotated
from amplifier_foundation.sessions.fork import ForkError, fork_session, preview_fork
from amplifier_foundation.sessions.log import EventNotFoundError, place_messages, read_outline
from amplifier_foundation.sessions.transcript import load_history
from amplifier_foundation.sessions.turns import OrphanedCallsError, TurnRangeError, count_turns
from amplifier_kit.engine.pairing import check_pairing
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Run = Callable[..., Awaitable[Any]]

SCENARIO: list[dict[str, Any]] = [
    {
        "text": "I look.",
        "tool_calls": [
            {"id": "slow", "name": "look", "arguments": {"wait": 20, "size": 2000}},
            {"id": "fast", "name": "look", "arguments": {"page": 7, "size": 2000}},
        ],
    },
    {"text": "Seen. " * 1000},
    {"text": "Two."},
    {"text": "Three."},
]


async def _parent(tmp_path: Path, run: Run, **options: Any) -> Any:
    return await run(tmp_path / "sessions" / "parent", SCENARIO, "one " * 2000, "two", "three", **options)


def _metadata(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "metadata.json").read_bytes())
    return found


def _assert_sound(folder: Path, parent: Path) -> None:
    """Check that a fork stands for itself: log, blobs, ids, pairing, and both cut at the same point."""
    report = verify_log(folder)
    assert (report.problems, report.torn) == ([], [])
    lines, originals = list(read_log(folder)), list(read_log(parent))
    assert lines
    for line, original in zip(lines, originals, strict=False):
        assert (line.session_id, line.record["parent_session_id"]) == (folder.name, parent.name)
        assert (line.seq, line.event, line.ts) == (original.seq, original.event, original.ts)
        assert line.resolved() == original.resolved()
    messages = load_history(folder).messages
    assert check_pairing(messages) == []
    places = place_messages(messages, read_outline(folder)).places
    assert -1 not in places
    news = [line.event for line in lines[max(places) + 1 :]]
    assert not {"prompt:submit", "provider:response", "tool:post", "tool:error"}.intersection(news)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("turn", [1, 2, 3, None])
async def test_a_fork_at_a_turn_keeps_its_events(tmp_path: Path, ran_session: Run, turn: int, verify: bool) -> None:
    """Messages and events of the turn and all before it are there, chained and numbered as they were."""
    parent = await _parent(tmp_path, ran_session, verify=verify)
    fork = fork_session(parent.folder, at_turn=turn)
    _assert_sound(fork.folder, parent.folder)
    messages = load_history(fork.folder).messages
    assert count_turns(messages) == fork.turns == (turn or 3)
    assert messages == load_history(parent.folder).messages[: len(messages)]
    assert verify_log(fork.folder).chained == (fork.events if verify else 0)
    events = [line.event for line in read_log(fork.folder)]
    assert events.count("prompt:submit") == (turn or 3)
    assert events[-1] == ("session:end" if turn is None else "execution:end")
    assert fork.warnings == ()


async def test_a_fork_at_any_event_is_sound(tmp_path: Path, ran_session: Run) -> None:
    """At every single event there is a fork with exactly the events up to it and the messages of that moment."""
    parent = await _parent(tmp_path, ran_session)
    all_messages = load_history(parent.folder).messages
    for line in list(read_log(parent.folder)):
        fork = fork_session(parent.folder, at_event=line.seq, new_id=f"at-{line.seq}")
        assert fork.events == line.seq
        assert verify_log(fork.folder).ok
        messages = load_history(fork.folder).messages
        assert check_pairing(messages) == []
        made_up = [message for message in messages if (message.get("metadata") or {}).get("synthetic")]
        assert [message for message in messages if message not in made_up] == [
            message for message in all_messages if message in messages
        ]
        assert _metadata(fork.folder)["forked_from_event"] == line.seq
    fast = next(
        line for line in read_log(parent.folder) if line.data.get("tool_call_id") == "fast" and "result" in line.data
    )
    middle = load_history(tmp_path / "sessions" / f"at-{fast.seq}").messages
    assert [message.get("tool_call_id") for message in middle] == [None, None, "fast", "slow"]
    assert "page 7" in middle[2]["content"]
    assert middle[3]["metadata"] == {"synthetic": True}


async def test_blobs_outlive_the_parent(tmp_path: Path, ran_session: Run) -> None:
    """Large values of a fork resolve after the session it comes from was deleted, and take no room twice before."""
    parent = await _parent(tmp_path, ran_session)
    before = [line.resolved() for line in read_log(parent.folder)]
    fork = fork_session(parent.folder)
    linked = [path for path in (fork.folder / "blobs").rglob("*") if path.is_file()]
    assert linked
    assert all(path.stat().st_nlink == 2 for path in linked)
    shutil.rmtree(parent.folder)
    assert [line.resolved() for line in read_log(fork.folder)] == before
    assert verify_log(fork.folder).ok


async def test_only_blobs_that_are_needed_come_along(tmp_path: Path, ran_session: Run) -> None:
    """A fork before a large value has no copy of it."""
    parent = await _parent(tmp_path, ran_session)
    seq = next(line.seq for line in read_log(parent.folder) if line.event == "tool:pre")
    early = fork_session(parent.folder, at_event=seq)
    names = [
        {path.name for path in (folder / "blobs").rglob("*") if path.is_file()}
        for folder in (early.folder, parent.folder)
    ]
    assert names[0] < names[1]
    assert verify_log(early.folder).ok


async def test_forks_share_nothing_with_each_other(tmp_path: Path, ran_session: Run, real_session: Any) -> None:
    """Two forks of one parent, and a fork of a fork, go on independently; the parent does not change."""
    parent = await _parent(tmp_path, ran_session)
    before = {path: path.read_bytes() for path in parent.folder.rglob("*") if path.is_file()}
    first, second = (fork_session(parent.folder, at_turn=turn, new_id=f"f{turn}") for turn in (1, 2))
    history = load_history(first.folder).messages
    async with real_session(first.folder, [{"text": "More. " * 2000}], messages=history, is_resumed=True) as real:
        await real.say("and more")
    again = fork_session(first.folder, new_id="ff")
    for fork, origin in ((second, parent.folder), (again, first.folder)):
        _assert_sound(fork.folder, origin)
    assert again.turns == 2
    assert again.parent_id == "f1"
    shutil.rmtree(first.folder)
    assert verify_log(again.folder).ok
    assert [line.resolved() for line in read_log(again.folder)]
    assert {path: path.read_bytes() for path in before} == before


async def test_a_running_session_is_read_consistently(tmp_path: Path, real_session: Any) -> None:
    """A fork in the middle of a turn has the events of the messages it has, and no others."""
    folder = tmp_path / "sessions" / "parent"
    forks: list[Any] = []

    async def fork_now(event: str, data: dict[str, Any]) -> None:
        await real.save()
        forks.append(fork_session(folder, new_id=f"{len(forks)}-{event.replace(':', '-')}"))

    async with real_session(folder, SCENARIO) as real:
        for event in ("provider:request", "tool:pre", "tool:post", "prompt:complete"):
            real.session.coordinator.hooks.register(event, fork_now, priority=900)
        await real.say("one")
        await real.say("two")
    assert len(forks) == 9
    for fork in forks:
        _assert_sound(fork.folder, folder)
    answered = [fork for fork in forks if fork.folder.name.endswith("tool-post")]
    results = [[m["content"] for m in load_history(fork.folder).messages if m["role"] == "tool"] for fork in answered]
    # An event is in the log when its hooks are done: the result that a hook hears of is not there yet.
    assert [sum("page" in content for content in contents) for contents in results] == [0, 1]


async def test_a_transcript_behind_the_log_decides_the_cut(tmp_path: Path, ran_session: Run) -> None:
    """When the log has an answer that the conversation lacks, the events end before it."""
    parent = await _parent(tmp_path, ran_session)
    transcript = parent.folder / "transcript.jsonl"
    lines = transcript.read_bytes().splitlines(keepends=True)
    for missing, turn, turns in ((1, 3, 3), (1, None, 3), (2, None, 2)):
        transcript.write_bytes(b"".join(lines[:-missing]))
        fork = fork_session(parent.folder, at_turn=turn)
        _assert_sound(fork.folder, parent.folder)
        assert fork.turns == turns
        assert [line.event for line in read_log(fork.folder)].count("prompt:submit") == turns


FAULTY = """
import os, sys
from pathlib import Path
from amplifier_foundation.sessions import fork, log
real = log._Layout.line
def killed(self, line):
    if line.seq == 20:
        os.kill(os.getpid(), 9)
    return real(self, line)
log._Layout.line = killed
fork.fork_session(Path(sys.argv[1]), new_id="half")
"""


async def test_a_fork_killed_half_way_is_no_session(tmp_path: Path, ran_session: Run) -> None:
    """A process that dies while it forks leaves nothing that could be taken for a session, and the id is free."""
    parent = await _parent(tmp_path, ran_session)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", FAULTY, str(parent.folder))
    assert await process.wait() == -9
    visible = [path.name for path in parent.folder.parent.iterdir() if path.is_dir() and not path.name.startswith(".")]
    assert visible == ["parent"]
    assert len(list(parent.folder.parent.glob(".fork-*"))) == 1
    assert fork_session(parent.folder, new_id="half").folder.is_dir()


async def test_a_fork_that_fails_leaves_nothing(
    tmp_path: Path, ran_session: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error on the way, as a full disk, is raised, and nothing of the fork is left."""
    parent = await _parent(tmp_path, ran_session)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = sorted(parent.folder.parent.iterdir())
    monkeypatch.setattr("amplifier_foundation.sessions.fork.copy_events", full)
    with pytest.raises(OSError, match="No space left"):
        fork_session(parent.folder)
    assert sorted(parent.folder.parent.iterdir()) == before


async def test_metadata_of_a_fork(tmp_path: Path, ran_session: Run) -> None:
    """A fork says where it comes from and keeps what the session is made of; the name and the cost are its own."""
    parent = await _parent(tmp_path, ran_session)
    facts = {**_metadata(parent.folder), "name": "old", "usage": {"cost_usd": "3"}, "mine": [1], "incremental": False}
    (parent.folder / "metadata.json").write_text(json.dumps(facts), encoding="utf-8")
    (parent.folder / "record.json").write_text("{}", encoding="utf-8")
    (parent.folder / "settings.yaml").write_text("a: 1\n", encoding="utf-8")
    fork = fork_session(parent.folder, at_turn=2, name=" Zwei ")
    made = _metadata(fork.folder)
    forked_at = made.pop("forked_at")
    assert made.pop("created") == forked_at
    assert made == {
        "session_id": fork.session_id,
        "parent_id": "parent",
        "turn_count": 2,
        "name": "Zwei",
        "bundle": "bundle:test",
        "model": "provider-mock/mock-model",
        "working_dir": "/project",
        "mine": [1],
        "forked_from_turn": 2,
    }
    files = {path.name for path in fork.folder.iterdir()}
    assert files == {"transcript.jsonl", "events.jsonl", "blobs", "metadata.json", "record.json", "settings.yaml"}
    assert fork.folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in fork.folder.rglob("*"))


async def test_what_cannot_be_forked_is_said(tmp_path: Path, ran_session: Run) -> None:
    """A turn or event that is not there, an id that is taken or no name for a folder, and both cuts at once."""
    folder = (await _parent(tmp_path, ran_session)).folder
    for turn in (0, 4, -1):
        with pytest.raises(TurnRangeError, match=f"turn {turn} does not exist"):
            fork_session(folder, at_turn=turn)
    with pytest.raises(EventNotFoundError, match="event 999 does not exist"):
        fork_session(folder, at_event=999)
    for bad in ("", "a/b", "..", ".hidden", "-x", "a\nb", "a\\b", "x" * 300, " a"):
        with pytest.raises(ForkError, match="invalid session id"):
            fork_session(folder, new_id=bad)
    with pytest.raises(ForkError, match="session parent exists already"):
        fork_session(folder, new_id="parent")
    with pytest.raises(ForkError, match="give one of them"):
        fork_session(folder, at_turn=1, at_event=1)
    with pytest.raises(ForkError, match="1 to 50 characters"):
        fork_session(folder, name="x" * 51)
    seq = next(line.seq for line in read_log(folder) if line.event == "tool:pre")
    with pytest.raises(OrphanedCallsError, match=r"'slow' .*'fast'"):
        fork_session(folder, at_event=seq, orphans="error")
    assert preview_fork(folder, at_event=seq).orphaned_tool_ids == ("slow", "fast")
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == ["parent"]
    preview, fork = preview_fork(folder, at_turn=2), fork_session(folder, at_turn=2, include_events=False)
    assert (preview.turns, preview.messages) == (fork.turns, fork.messages)
    assert preview.events > 0
    assert not (fork.folder / "events.jsonl").exists()


async def test_rotated_pruned_and_torn_logs_are_forked(tmp_path: Path) -> None:
    """A log in several files, whose first are deleted and whose last line is torn, becomes one that verifies."""
    folder = tmp_path / "parent"
    messages = [{"role": "user", "content": "word " * 50, "number": number} for number in range(40)]
    with SessionLog(folder, verify=True, max_bytes=4000) as log:
        for number in range(1, 40):
            log.write({"event": "llm:request", "session_id": "parent", "data": {"messages": messages[:number]}})
    prune_rotated(folder, 3)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"ts": "2026')
    expected = [(line.seq, line.resolved()) for line in read_log(folder, lambda torn: None)]
    assert expected[0][0] != 1
    fork = fork_session(folder)
    assert any("events.jsonl:" in warning and "has no record" in warning for warning in fork.warnings)
    report = verify_log(fork.folder)
    assert (report.problems, report.torn) == ([], [])
    assert [(line.seq, line.resolved()) for line in read_log(fork.folder)] == expected
    assert report.dropped == (expected[0][0] or 0) - 1


def test_blobs_inside_blobs_come_along(tmp_path: Path) -> None:
    """A large value that is made of large values resolves in the fork."""
    value = {f"key{number}": f"{number} " * 3000 for number in range(60)}
    with SessionLog(tmp_path / "parent") as log:
        log.write({"event": "log:entry", "data": {"value": value}})
    fork = fork_session(tmp_path / "parent")
    shutil.rmtree(tmp_path / "parent")
    assert [line.resolved() for line in read_log(fork.folder)] == [{"value": value}]


async def test_a_missing_blob_is_told(tmp_path: Path, ran_session: Run) -> None:
    """What the original has lost is lost in the fork too, and named."""
    parent = await _parent(tmp_path, ran_session)
    gone = next(path for path in (parent.folder / "blobs").rglob("*") if path.is_file())
    gone.unlink()
    fork = fork_session(parent.folder)
    assert any(gone.name in warning for warning in fork.warnings)
