"""The files of a log, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amplifier_kit.log.files import LogFiles, parse, read_tail


def a_line(seq: int | None, **more: object) -> bytes:
    return json.dumps({"event": "e", **({} if seq is None else {"seq": seq}), **more}).encode()


def test_names(tmp_path: Path) -> None:
    """The oldest file is number one, the one being written has no number, and other files are none of the log's."""
    files = LogFiles(tmp_path)
    for name in ("events.10.jsonl", "events.2.jsonl", "events.jsonl", "events.x.jsonl", "events.02.jsonl", "a.1.jsonl"):
        (tmp_path / name).touch()
    assert files.numbers() == [2, 10]
    assert [path.name for path in files.newest_first()] == ["events.jsonl", "events.10.jsonl", "events.2.jsonl"]
    assert (files.lock.name, files.lists.name, files.blobs.name) == ("events.lock", "events.lists", "blobs")


def test_a_folder_or_a_file(tmp_path: Path) -> None:
    """A log is found by its session's folder or by the file being written."""
    assert LogFiles.at(tmp_path).active == tmp_path / "events.jsonl"
    assert LogFiles.at(str(tmp_path / "abc.jsonl")).active == tmp_path / "abc.jsonl"
    (tmp_path / "odd.jsonl").mkdir()
    assert LogFiles.at(tmp_path / "odd.jsonl").active == tmp_path / "odd.jsonl" / "events.jsonl"


def test_no_log_has_no_tail(tmp_path: Path) -> None:
    """A log that does not exist starts at one."""
    assert read_tail(LogFiles(tmp_path)) == (0, b"", b"")
    assert LogFiles(tmp_path / "nowhere").numbers() == []


def test_every_way_to_tear_the_last_line(tmp_path: Path) -> None:
    """Cut at any byte, the last line is either whole or ended before the next one, and numbering continues."""
    first, second = a_line(1), a_line(2, text="ü" * 10, nested={"a": [1, 2]})
    files = LogFiles(tmp_path)
    for cut in range(len(second) + 2):
        files.active.write_bytes(first + b"\n" + (second + b"\n")[:cut])
        tail = read_tail(files)
        whole = cut >= len(second)
        assert tail.seq == (2 if whole else 1)
        assert tail.line == (second if whole else first)
        assert tail.lead == (b"" if cut in (0, len(second) + 1) else b"\n")


def test_several_torn_lines(tmp_path: Path) -> None:
    """Torn lines of several crashes in a row are all passed over."""
    files = LogFiles(tmp_path)
    files.active.write_bytes(a_line(7) + b'\n{"event": "e", "se\n\n{"eve\n\0\0\0\n{')
    assert read_tail(files) == (7, a_line(7), b"\n")


def test_lines_longer_than_a_block(tmp_path: Path) -> None:
    """The way back through the file joins what spans several blocks."""
    files = LogFiles(tmp_path)
    long = a_line(1, text="x" * 200_000)
    files.active.write_bytes(long + b"\n" + b"y" * 150_000)
    assert read_tail(files) == (1, long, b"\n")


def test_the_number_goes_on_over_rotated_files(tmp_path: Path) -> None:
    """With the file being written still empty, or not there, the newest rotated one counts."""
    files = LogFiles(tmp_path)
    files.rotated(1).write_bytes(a_line(3) + b"\n")
    files.rotated(2).write_bytes(a_line(5) + b"\n")
    assert read_tail(files) == (5, a_line(5), b"")
    files.active.write_bytes(b'{"to')
    assert read_tail(files) == (5, a_line(5), b"\n")


def test_a_published_log_goes_on_with_one(tmp_path: Path) -> None:
    """Lines without numbers are continued by number one, or by the number that stood before them."""
    files = LogFiles(tmp_path)
    published = a_line(None, ts="2026-01-01T00:00:00Z")
    files.active.write_bytes(published + b"\n" + published + b"\n")
    assert read_tail(files) == (0, published, b"")
    files.active.write_bytes(a_line(4) + b"\n" + published + b"\n")
    assert read_tail(files) == (4, published, b"")


@pytest.mark.parametrize("line", [b"", b"\n", b"[1]", b'"text"', b"1", b"{}", b'{"no": "event"}', b"{", b"\xff{}"])
def test_what_is_no_record(line: bytes) -> None:
    """Only an object with an event is a record."""
    assert parse(line) is None
