"""Writing a log when all is well."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_kit.guard.redaction.redactor import remember_secrets
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]


def test_a_record_is_a_line(tmp_path: Path, record: Make) -> None:
    """What is written can be found with grep while the log is open."""
    with SessionLog(tmp_path / "a" / "b") as log:
        log.write(record("session:start", metadata={"a": 1}))
        text = (tmp_path / "a" / "b" / "events.jsonl").read_text(encoding="utf-8")
        assert re.search('"event": "session:start"', text)
        assert text.endswith("\n")
        assert log.path == tmp_path / "a" / "b" / "events.jsonl"
        assert log.seq == 1


def test_numbers_have_no_gaps_over_many_runs(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """Each run continues where the last one ended."""
    for _ in range(5):
        with SessionLog(tmp_path) as log:
            for _ in range(3):
                log.write(record())
    assert [line["seq"] for line in lines_of(tmp_path)] == list(range(1, 16))


def test_files_are_private(tmp_path: Path, record: Make) -> None:
    """A session is readable by its owner only."""
    with SessionLog(tmp_path / "s") as log:
        log.write(record(large="x" * 5000))
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    for path in (tmp_path / "s").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_one_write_per_line(tmp_path: Path, record: Make) -> None:
    """A line reaches the file in one piece, its end included, whatever its length."""
    calls: list[bytes] = []

    def write(descriptor: int, content: bytes) -> int:
        calls.append(content)
        return os.write(descriptor, content)

    with SessionLog(tmp_path) as log:
        log._os_write = write
        log.write(record())
        log.write(record(**{f"key-{index}": "v" * 4000 for index in range(100)}))
    assert [content.count(b"\n") for content in calls] == [1, 1]
    assert all(content.endswith(b"\n") for content in calls)
    assert len(calls[1]) > 400_000


def test_a_blob_is_there_before_its_line(tmp_path: Path, record: Make) -> None:
    """A reader that sees a line finds everything the line refers to."""
    seen: list[bool] = []

    def write(descriptor: int, content: bytes) -> int:
        name = json.loads(content)["data"]["large"]["$blob"].removeprefix("sha256:")
        seen.append((tmp_path / "blobs" / name[:2] / name).stat().st_size == 5002)
        return os.write(descriptor, content)

    with SessionLog(tmp_path) as log:
        log._os_write = write
        log.write(record(large="x" * 5000))
    assert seen == [True]


def test_the_chain_of_hashes(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """With `verify` each line names the one before it, over runs and rotations; the first names nothing."""
    for _ in range(2):
        with SessionLog(tmp_path, verify=True, max_bytes=1500) as log:
            for index in range(5):
                log.write(record(index=index, text="x" * 100))
    raw = [line.raw for line in read_log(tmp_path)]
    assert len(raw) == 10
    before = b""
    for line in raw:
        assert json.loads(line)["prev"] == f"sha256:{hashlib.sha256(before).hexdigest()}"
        before = line
    assert (tmp_path / "events.1.jsonl").exists()
    assert verify_log(tmp_path).chained == 10


def test_without_verify_there_is_no_chain(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """The chain is for those who ask for it."""
    with SessionLog(tmp_path) as log:
        log.write(record())
    assert "prev" not in lines_of(tmp_path)[0]


def test_rotation(tmp_path: Path, record: Make) -> None:
    """Above the limit the file is set aside under the next number, and readers see one log."""
    with SessionLog(tmp_path, max_bytes=2000) as log:
        for index in range(60):
            log.write(record(index=index, text="x" * 100))
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert names[:2] == ["events.1.jsonl", "events.2.jsonl"]
    assert [line.seq for line in read_log(tmp_path)] == list(range(1, 61))
    for name in names[:-1]:
        assert 2000 <= (tmp_path / name).stat().st_size < 2000 + 600


def test_a_normal_session_is_one_file(tmp_path: Path, record: Make) -> None:
    """The default limit is 256 MB."""
    with SessionLog(tmp_path) as log:
        assert log._max_bytes == 256 * 1024 * 1024
        for index in range(100):
            log.write(record(index=index))
    assert not (tmp_path / "events.1.jsonl").exists()


def test_each_file_can_be_read_alone(
    tmp_path: Path, record: Make, messages: Callable[..., list[dict[str, Any]]]
) -> None:
    """Lists never refer to another file, so that the oldest files can be deleted."""
    history = messages(60)
    with SessionLog(tmp_path, max_bytes=3000) as log:
        for index in range(40):
            history = [*history, {"role": "user", "content": f"{index}"}]
            log.write(record("llm:request", messages=history))
    assert len(list(tmp_path.glob("events.*.jsonl"))) > 2
    for path in sorted(tmp_path.glob("events.*.jsonl"))[:-1]:
        path.unlink()
    lines = list(read_log(tmp_path))
    assert lines[-1].resolved()["messages"] == history
    assert all(line.resolved()["messages"] == history[: 60 + (line.seq or 0)] for line in lines)


def test_the_redactor_comes_before_everything(tmp_path: Path, record: Make) -> None:
    """Neither line nor blob nor preview has what the redactor took out."""

    def redactor(line: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(line).replace("hunter2", "[REDACTED]")
        return {**json.loads(text), "redaction": {"rules": ["secrets"]}}

    with SessionLog(tmp_path, redactor=redactor) as log:
        log.write(record(secret="hunter2", large="hunter2 " * 1000))
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert everything.count(b"[REDACTED]") > 1000


def test_a_log_without_a_redactor_of_its_own(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """Every line passes the redactor of the process, also when the caller forgot to give one."""
    remember_secrets(["correct-horse-battery"])
    with SessionLog(tmp_path) as log:
        log.write(record(password="hunter2", text="it is correct-horse-battery", large="correct-horse-battery " * 500))
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert b"correct-horse" not in everything
    [line] = lines_of(tmp_path)
    assert line["redaction"]


def test_a_failing_redactor_fails_closed(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """The line says that something happened, not what."""

    def redactor(line: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("no idea")

    with SessionLog(tmp_path, redactor=redactor) as log:
        log.write({**record(secret="hunter2"), "error": {"message": "hunter2"}})
    [line] = lines_of(tmp_path)
    assert line["data"] == {}
    assert "error" not in line
    assert line["redaction"] == {"applied": False, "error": "scrub_failed"}
    assert (line["event"], line["seq"]) == ("tool:pre", 1)


def test_a_redactor_may_drop_a_record(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """A record that is not to be written uses up no number."""
    with SessionLog(tmp_path, redactor=lambda line: None if line["event"] == "b" else line) as log:
        for event in "abc":
            log.write(record(event))
    assert [(line["event"], line["seq"]) for line in lines_of(tmp_path)] == [("a", 1), ("c", 2)]


def test_a_missing_time_is_filled_in(tmp_path: Path, lines_of: Callable[..., Any]) -> None:
    """A record without a time gets the current one."""
    with SessionLog(tmp_path) as log:
        log.write({"event": "e"})
    assert lines_of(tmp_path)[0]["ts"].endswith("+00:00")


def test_closing_forces_the_log_to_disk(tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and its folder are forced to disk once, when the log is closed."""
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    with SessionLog(tmp_path) as log:
        for _ in range(3):
            log.write(record())
        assert forced == []
    assert len(forced) == 2


def test_after_close(tmp_path: Path, record: Make) -> None:
    """Closing twice is fine, writing afterwards is a mistake that is named."""
    log = SessionLog(tmp_path)
    log.close()
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log.write(record())


def test_threads_write_whole_lines(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """Lines of several threads are neither mixed nor lost, and their numbers have no gaps."""
    with SessionLog(tmp_path) as log:

        def work(name: int) -> None:
            for index in range(200):
                log.write(record(thread=name, index=index, large="x" * (5000 if index % 50 == 0 else 5)))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = lines_of(tmp_path)
    assert [line["seq"] for line in lines] == list(range(1, 801))
    for name in range(4):
        assert [line["data"]["index"] for line in lines if line["data"]["thread"] == name] == list(range(200))


def test_logging_while_a_line_is_written(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """A finalizer that logs while a line is being written waits for that line, and does not deadlock."""
    with SessionLog(tmp_path) as log:
        first = True

        def write(descriptor: int, content: bytes) -> int:
            nonlocal first
            if first:
                first = False
                log.write(record("finalizer"))
            return os.write(descriptor, content)

        log._os_write = write
        log.write(record("outer"))
        log.write(record("last"))
    assert [(line["event"], line["seq"]) for line in lines_of(tmp_path)] == [
        ("outer", 1),
        ("finalizer", 2),
        ("last", 3),
    ]


FORK = """
import os, sys
from amplifier_kit.log.writer import SessionLog

log = SessionLog(sys.argv[1])
log.write({"event": "before"})
child = os.fork()
if child == 0:
    try:
        log.write({"event": "forked"})
    except RuntimeError as error:
        log.close()
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
log.write({"event": "after"})
log.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_is_not_the_writer(tmp_path: Path, lines_of: Callable[..., Any]) -> None:
    """A forked process gets an error, and neither its lines nor its end disturb the log."""
    command = [sys.executable, "-c", FORK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "belongs to another process, which forked this one" in done.stdout
    assert [line["event"] for line in lines_of(tmp_path)] == ["before", "after"]


def test_it_is_a_sink(tmp_path: Path, lines_of: Callable[..., Any]) -> None:
    """Registered with a coordinator it gets what modules log, processed."""
    coordinator = MockCoordinator()
    coordinator.add_log_processor(lambda line: {**line, "data": {"masked": True}})
    with SessionLog(tmp_path) as log:
        coordinator.add_log_sink(log.write)
        coordinator.log("WARNING", "careful", secret="x")
    [line] = lines_of(tmp_path)
    assert (line["lvl"], line["event"], line["data"]) == ("WARNING", "log:entry", {"masked": True})


def test_a_child_shares_its_roots_blobs(tmp_path: Path, record: Make) -> None:
    """A large value that root and child both log is stored once, and both logs find it."""
    with (
        SessionLog(tmp_path / "root") as root,
        SessionLog(tmp_path / "child", blobs=tmp_path / "root" / "blobs") as child,
    ):
        root.write(record(large="x" * 5000))
        child.write(record(large="x" * 5000))
    assert len([path for path in (tmp_path / "root" / "blobs").rglob("*") if path.is_file()]) == 1
    [line] = read_log(tmp_path / "child")
    assert line.resolved() == {"large": "x" * 5000}


def test_another_file_name(tmp_path: Path, record: Make) -> None:
    """Logs of several sessions may lie side by side in one folder."""
    for name in ("a.jsonl", "b.jsonl"):
        with SessionLog(tmp_path, name=name) as log:
            log.write(record(name=name))
    assert [line.data["name"] for line in read_log(tmp_path / "b.jsonl")] == ["b.jsonl"]


@given(st.binary(max_size=300))
def test_whatever_the_file_ends_with(tail: bytes) -> None:
    """After any rubbish at the end of a log, the next line stands alone and numbering continues."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        with SessionLog(folder) as log:
            log.write({"event": "one"})
        with (Path(folder) / "events.jsonl").open("ab") as file:
            file.write(tail)
        with SessionLog(folder) as log:
            log.write({"event": "two"})
        lines = list(read_log(folder, lambda torn: None))
        assert [(line.event, line.seq) for line in lines if line.seq is not None] == [("one", 1), ("two", 2)]


def test_a_long_session_grows_by_what_it_adds(
    tmp_path: Path, record: Make, messages: Callable[..., list[dict[str, Any]]]
) -> None:
    """Two thousand turns whose requests repeat what came before: the size is linear in the turns."""
    sizes: list[int] = []
    history: list[dict[str, Any]] = []
    tools = [{"name": f"tool-{index}", "description": "d" * 200} for index in range(30)]
    with SessionLog(tmp_path) as log:
        for turn in range(2000):
            history += messages(2, start=2 * turn)
            reminder = {"role": "user", "content": f"<system-reminder>turn {turn}</system-reminder>"}
            # A view that was compacted once in a while, and slides from then on.
            view = [*history[:1], *history[max(1, len(history) - 150) :], reminder]
            log.write(record("llm:request", messages=view, tools=tools, system="s" * 6000))
            log.write(record("llm:response", text="answer", usage={"input": turn}))
            if turn % 400 == 399:
                sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
    growth = [after - before for before, after in pairwise(sizes)]
    assert max(growth) < 1.2 * min(growth)
    assert sizes[-1] < 2000 * 2000
    assert verify_log(tmp_path).ok
    last = [line for line in read_log(tmp_path) if line.event == "llm:request"][-1]
    assert last.resolved()["messages"][:-1] == [history[0], *history[-150:]]


def test_a_history_that_only_grows_costs_its_growth(
    tmp_path: Path, record: Make, messages: Callable[..., list[dict[str, Any]]]
) -> None:
    """Hundreds of requests, each with the whole history: each costs what it added, over several runs too."""
    history = messages(100)
    size = 0
    growth: list[int] = []
    for run in range(10):
        with SessionLog(tmp_path) as log:
            for turn in range(30):
                history += messages(2, start=1000 * run + turn)
                log.write(record("llm:request", messages=history))
        before, size = size, sum(path.stat().st_size for path in tmp_path.glob("events.jsonl"))
        growth.append(size - before)
    assert max(growth[1:]) < 1.2 * min(growth[1:])
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1
    assert [line.seq for line in read_log(tmp_path)] == list(range(1, 301))
    assert verify_log(tmp_path).ok


@pytest.mark.system
def test_memory_does_not_grow_with_the_log(tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many lines, blobs and ids later, the writer holds what it held before."""
    # Caches that end at a number of entries, which this test would not reach.
    monkeypatch.setattr("amplifier_kit.guard.redaction.redactor._MAX_CLEAN_TEXTS", 100)

    def work(start: int) -> int:
        for index in range(start, start + 1024):
            log.write({**record(index=index, large=f"{index}" * 1500), "span_id": f"{index:016x}"})
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with SessionLog(tmp_path) as log:
        work(0)
        tracemalloc.start()
        try:
            held = [work(1024 * number) for number in range(1, 4)]
        finally:
            tracemalloc.stop()
    # The interpreter's own table of names is doubled once in a while; what leaks grows every time.
    assert min(later - earlier for earlier, later in itertools.pairwise(held)) < 100_000


def test_what_is_lacking_is_the_last_that_is_written(tmp_path: Path, record: Make) -> None:
    """A thread that closes the log with what it lacks lets no line of another one in between, nor after."""
    log = SessionLog(tmp_path)
    log.write(record("session:start"))
    others: list[BaseException] = []

    def write() -> None:
        try:
            log.write(record("tool:pre"))
        except ValueError as error:
            others.append(error)

    other = threading.Thread(target=write)

    def lacking() -> list[dict[str, Any]]:
        other.start()
        other.join(0.1)
        return [record("execution:end"), record("session:end")]

    log.close_with(lacking)
    other.join()
    log.close_with(lambda: [record("session:end")])
    assert [line.event for line in read_log(tmp_path)] == ["session:start", "execution:end", "session:end"]
    assert ["is closed" in str(error) for error in others] == [True]


def test_a_log_is_closed_also_when_nobody_can_tell_what_it_lacks(tmp_path: Path, record: Make) -> None:
    """The next writer is let in, whatever fails."""
    log = SessionLog(tmp_path)

    def lacking() -> list[dict[str, Any]]:
        raise OSError("cannot be read")

    with pytest.raises(OSError, match="cannot be read"):
        log.close_with(lacking)
    SessionLog(tmp_path).close()
