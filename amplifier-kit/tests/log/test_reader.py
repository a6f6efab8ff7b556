"""Reading a log."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.log.reader import LogReader, TornLine, read_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]
Messages = Callable[..., list[dict[str, Any]]]

PUBLISHED = {
    "ts": "2026-01-01T00:00:00.123Z",
    "lvl": "INFO",
    "schema": {"name": "amplifier.log", "ver": "1.0.0"},
    "event": "tool:error",
    "session_id": "s",
    "error": {"type": "E", "msg": "boom"},
    "data": {
        "timestamp": "2026-01-01T00:00:00.100200300+00:00",
        "parent_id": "p",
        "turn_id": "t",
        "tool_name": "bash",
        "quoted": {"$blob": "sha256:of another log"},
    },
}


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    """A session that logged nothing is no error."""
    assert list(read_log(tmp_path / "nowhere")) == []


def test_a_line_says_what_it_means(tmp_path: Path, record: Make) -> None:
    """Ids, facts, payload and error of our own lines."""
    with SessionLog(tmp_path) as log:
        log.write({**record(tool="x"), "status": "error", "turn_id": "t", "error": "boom", "lvl": "ERROR"})
    [line] = read_log(tmp_path)
    assert (line.event, line.seq, line.level) == ("tool:pre", 1, "ERROR")
    assert line.ts == "2026-01-01T12:00:00.000000+00:00"
    assert line.session_id == record()["session_id"]
    assert (line.get("turn_id"), line.get("status"), line.get("tool")) == ("t", "error", None)
    assert line.data == {"tool": "x"}
    assert line.error == line.resolved_error() == {"message": "boom"}
    assert (line.path, line.number, line.offset) == (tmp_path / "events.jsonl", 1, 0)
    assert json.loads(line.raw) == line.record
    assert repr(line) == "<LogLine 1 tool:pre at events.jsonl:1>"


def test_published_lines_are_understood(tmp_path: Path) -> None:
    """No number, the emit's time and ids in the payload, `msg` for `message`."""
    (tmp_path / "events.jsonl").write_text(json.dumps(PUBLISHED) + "\n" + json.dumps({"event": "e"}) + "\n")
    line, bare = read_log(tmp_path)
    assert line.seq is None
    assert line.ts == "2026-01-01T00:00:00.100200300+00:00"
    assert (line.session_id, line.get("parent_id"), line.get("turn_id")) == ("s", "p", "t")
    assert line.data == {"tool_name": "bash", "quoted": {"$blob": "sha256:of another log"}}
    assert line.error == {"type": "E", "message": "boom"}
    assert (bare.ts, bare.session_id, bare.data, bare.error, bare.level) == (None, None, {}, None, "INFO")


def test_a_published_log_can_be_continued(tmp_path: Path, record: Make) -> None:
    """Our lines follow theirs in one file."""
    (tmp_path / "events.jsonl").write_text(json.dumps(PUBLISHED) + "\n")
    with SessionLog(tmp_path) as log:
        log.write(record())
    assert [line.seq for line in read_log(tmp_path)] == [None, 1]


def test_blobs_are_looked_up_on_demand(tmp_path: Path, record: Make) -> None:
    """The payload is short until it is asked for, and a missing blob is an error only then."""
    with SessionLog(tmp_path) as log:
        log.write({**record(large="x" * 5000, small=1), "error": {"message": "y" * 5000}})
    [line] = read_log(tmp_path)
    assert line.data["large"]["preview"] == "x" * 200
    assert line.resolved() == {"large": "x" * 5000, "small": 1}
    assert line.resolved_error() == {"message": "y" * 5000}
    for path in (tmp_path / "blobs").rglob("?" * 64):
        path.unlink()
    [line] = read_log(tmp_path)
    assert line.data["small"] == 1
    with pytest.raises(LookupError, match="is not in"):
        line.resolved()


def test_every_way_to_tear_the_last_line(tmp_path: Path, record: Make) -> None:
    """Cut at any byte the last line is skipped and reported, or whole; what follows is never glued to it."""
    with SessionLog(tmp_path / "a") as log:
        log.write(record("one"))
        log.write(record("two", text="ü"))
    content = (tmp_path / "a" / "events.jsonl").read_bytes()
    start = content.index(b"\n") + 1
    for cut in range(start, len(content) + 1):
        folder = tmp_path / "cut" / str(cut)
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_bytes(content[:cut])
        torn: list[TornLine] = []
        events = [line.event for line in read_log(folder, torn.append)]
        whole = cut >= len(content) - 1
        assert events == (["one", "two"] if whole else ["one"])
        assert [line.offset for line in torn] == ([] if whole or cut == start else [start])
        with SessionLog(folder) as log:
            log.write(record("three"))
        again: list[TornLine] = []
        lines = list(read_log(folder, again.append))
        assert [line.event for line in lines] == [*events, "three"]
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
        assert [line.offset for line in again] == [line.offset for line in torn]


def test_torn_lines_are_logged(tmp_path: Path, record: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Without anybody to tell, a warning names file, line and size."""
    with SessionLog(tmp_path) as log:
        log.write(record())
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b"\n\nrubbish\n\0\0\0")
    with caplog.at_level(logging.WARNING):
        assert len(list(read_log(tmp_path))) == 1
    assert [entry.getMessage() for entry in caplog.records] == [
        f"Skipped {tmp_path / 'events.jsonl'}:4: 8 bytes without a record",
        f"Skipped {tmp_path / 'events.jsonl'}:5: 3 bytes without a record",
    ]


def test_following_a_log(tmp_path: Path, record: Make) -> None:
    """Every poll gives what has come since, from before the log exists to after it was rotated."""
    reader = LogReader(tmp_path)
    assert list(reader.poll()) == []
    with SessionLog(tmp_path, max_bytes=2000) as log:
        seen: list[int | None] = []
        for index in range(40):
            log.write(record(index=index, text="x" * 100))
            if index % 7 == 0:
                seen += [line.seq for line in reader.poll()]
        seen += [line.seq for line in reader.poll()]
    reader.close()
    assert seen == list(range(1, 41))
    assert len(list(tmp_path.glob("events.*.jsonl"))) > 3


def test_a_line_in_the_making_waits(tmp_path: Path) -> None:
    """Half a line is neither given nor reported until it is whole."""
    path = tmp_path / "events.jsonl"
    torn: list[TornLine] = []
    reader = LogReader(tmp_path, torn.append)
    whole = b'{"event": "one", "seq": 1}\n{"event": "two", "seq": 2}\n'
    events: list[str] = []
    for cut in range(len(whole)):
        with path.open("ab") as file:
            file.write(whole[cut : cut + 1])
        events += [line.event for line in reader.poll()]
    reader.close()
    assert events == ["one", "two"]
    assert torn == []


def test_a_half_line_that_is_taken_back(tmp_path: Path, record: Make) -> None:
    """A reader that saw the beginning of a line that did not fit reads the next one right."""
    reader = LogReader(tmp_path)
    with SessionLog(tmp_path) as log:
        log.write(record("one"))
        real = os.ftruncate

        def truncate(descriptor: int, size: int) -> None:
            assert [line.event for line in reader.poll()] == ["one"]  # the half line is on disk at this moment
            real(descriptor, size)

        log._os_write = lambda descriptor, content: os.write(descriptor, content[:40])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "ftruncate", truncate)
            log.write(record("lost"))
        log._os_write = os.write
        log.write(record("two"))
    assert [(line.event, line.seq) for line in reader.poll()] == [("two", 3)]
    reader.close()


def test_reading_while_a_thread_writes(tmp_path: Path, record: Make, messages: Messages) -> None:
    """Lines come whole and in order, and everything they refer to is there, over rotations."""
    done = threading.Event()

    def write() -> None:
        history = messages(30)
        with SessionLog(tmp_path, max_bytes=30_000) as log:
            for index in range(400):
                history = [*history, {"role": "user", "content": f"{index}"}]
                log.write(record(index=index, large="x" * 5000 + str(index % 10), messages=history))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    torn: list[TornLine] = []
    reader = LogReader(tmp_path, torn.append)
    seen: list[int] = []
    while True:
        last = done.is_set()
        for line in reader.poll():
            assert line.seq is not None
            full = line.resolved()
            assert len(full["messages"]) == 31 + full["index"]
            assert full["large"].startswith("xxxx")
            seen.append(line.seq)
        if last:
            break
    thread.join()
    reader.close()
    assert seen == list(range(1, 401))
    assert torn == []


def test_lines_can_be_resolved_after_a_rotation(tmp_path: Path, record: Make, messages: Messages) -> None:
    """A line that was read earlier finds its lists although its file has another name now."""
    history = messages(40)
    reader = LogReader(tmp_path)
    with SessionLog(tmp_path, max_bytes=2500) as log:
        for index in range(4):
            log.write(record(messages=[*history, *messages(index, start=40)]))
        held = list(reader.poll())
        while not (tmp_path / "events.1.jsonl").exists():
            log.write(record(text="x" * 500))
    assert len(held[-1].resolved()["messages"]) == 43
    reader.close()


def test_lists_are_resolved_in_any_order(tmp_path: Path, record: Make, messages: Messages) -> None:
    """The way back to the first list is found from anywhere."""
    history = messages(40)
    with SessionLog(tmp_path) as log:
        for index in range(50):
            log.write(record(messages=[*history, *messages(index, start=40)]))
    lines = list(read_log(tmp_path))
    for line in (lines[-1], lines[0], lines[25], lines[-1], lines[24]):
        assert line.resolved()["messages"] == [*history, *messages((line.seq or 0) - 1, start=40)]


def test_the_oldest_files_may_be_gone(tmp_path: Path, record: Make) -> None:
    """Reading starts with the first file there is."""
    with SessionLog(tmp_path, max_bytes=1500) as log:
        for index in range(30):
            log.write(record(index=index, text="x" * 100))
    (tmp_path / "events.1.jsonl").unlink()
    seqs = [line.seq for line in read_log(tmp_path)]
    assert seqs == list(range(seqs[0] or 0, 31))
    assert LogReader(tmp_path).starts_late


def test_a_list_of_a_damaged_log(tmp_path: Path) -> None:
    """Lists that lead nowhere, in a circle or to nothing are errors that say so."""
    name = [f"sha256:{digit * 64}" for digit in "0123"]
    lists = [
        {"$list": name[0], "base": name[3], "append": []},
        {"$list": name[1], "base": name[2], "append": []},
        {"$list": name[2], "base": name[1], "append": []},
        {"$list": name[0]},
        {"$list": name[0], "append": [], "base": name[0], "keep": ["x"]},
    ]
    content = "".join(json.dumps({"event": "e", "seq": 1, "data": {"messages": item}}) + "\n" for item in lists)
    (tmp_path / "events.jsonl").write_text(content)
    for line in read_log(tmp_path):
        with pytest.raises(LookupError):
            line.resolved()


def test_only_some_lines(tmp_path: Path) -> None:
    """With `only`, lines without these bytes are skipped, and the others keep their numbers and places."""
    with SessionLog(tmp_path) as log:
        for number in range(6):
            log.write({"event": "llm:response" if number % 3 == 2 else "tool:pre", "data": {"number": number}})
    every = [(line.number, line.offset, line.event) for line in read_log(tmp_path)]
    some = [(line.number, line.offset, line.event) for line in read_log(tmp_path, only=b"llm:response")]
    assert some == [line for line in every if line[2] == "llm:response"]
    assert len(some) == 2


def test_an_unfinished_line_is_torn_also_when_only_some_are_read(tmp_path: Path) -> None:
    """A line that a crash has cut off is reported, whether it has the bytes or not."""
    with SessionLog(tmp_path) as log:
        log.write({"event": "tool:pre", "data": {}})
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "tool:')
    torn: list[TornLine] = []
    assert list(read_log(tmp_path, on_torn=torn.append, only=b"llm:response")) == []
    assert [line.number for line in torn] == [2]
