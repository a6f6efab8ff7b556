"""Checking a log against itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.log.record import digest
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]
Messages = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def folder(tmp_path: Path, record: Make, messages: Messages) -> Path:
    """Return a session with everything in it: blobs, lists, a chain of hashes."""
    history = messages(40)
    with SessionLog(tmp_path, verify=True) as log:
        for index in range(10):
            history += messages(2, start=40 + 2 * index)
            log.write(record("llm:request", index=index, messages=history, large=f"{index % 3}" * 5000))
    return tmp_path


def kinds(folder: Path) -> list[str]:
    return [problem.kind for problem in verify_log(folder).problems]


def edit(folder: Path, change: Callable[[list[bytes]], Any]) -> None:
    path = folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))


def test_a_sound_log(folder: Path) -> None:
    """Nothing is found in a log as it was written."""
    report = verify_log(folder)
    assert report.ok
    assert (report.lines, report.first_seq, report.last_seq) == (10, 1, 10)
    assert (report.chained, report.unnumbered, report.dropped, report.torn) == (10, 0, 0, [])
    assert report.head == digest((folder / "events.jsonl").read_bytes().splitlines()[-1])


def test_a_chain_goes_on(folder: Path, record: Make) -> None:
    """A log that has hashes keeps them, also when the next writer does not ask for them."""
    with SessionLog(folder) as log:
        log.write(record())
    report = verify_log(folder)
    assert (report.ok, report.lines, report.chained) == (True, 11, 11)


def test_a_line_without_a_hash_behind_others(folder: Path) -> None:
    """A line that was put behind a chain is found."""
    edit(
        folder, lambda lines: lines.append(lines[-1].partition(b', "prev"')[0].replace(b": 10,", b": 11,", 1) + b"}\n")
    )
    assert "chain" in kinds(folder)


def test_a_log_that_begins_its_chain_late(tmp_path: Path, record: Make) -> None:
    """Lines from before the setting was on have no hash, and that is no problem."""
    for verify in (False, True):
        with SessionLog(tmp_path, verify=verify) as log:
            log.write(record())
    report = verify_log(tmp_path)
    assert (report.ok, report.lines, report.chained) == (True, 2, 1)


def test_no_log(tmp_path: Path) -> None:
    """A log that does not exist has no faults."""
    report = verify_log(tmp_path)
    assert report.ok
    assert (report.lines, report.head) == (0, None)


def test_a_missing_line(folder: Path) -> None:
    """A number that is missing is a line that was lost, and breaks the chain."""
    edit(folder, lambda lines: lines.pop(4))
    problems = verify_log(folder).problems
    assert [problem.kind for problem in problems][:2] == ["gap", "chain"]
    assert problems[0].text == "1 lines are missing between seq 4 and 6, 0 are accounted for"
    assert (problems[0].path, problems[0].number) == (folder / "events.jsonl", 5)


def test_missing_first_lines(folder: Path) -> None:
    """A log starts with number one unless its first files were deleted as a whole."""
    edit(folder, lambda lines: lines.pop(0))
    assert "gap" in kinds(folder)


def test_a_changed_line(folder: Path) -> None:
    """One changed digit is noticed by the line after it."""
    edit(folder, lambda lines: lines.__setitem__(3, lines[3].replace(b'"index":3', b'"index":4')))
    assert kinds(folder) == ["chain"]


def test_lines_that_changed_places(folder: Path) -> None:
    """Numbers only ever go up."""

    def swap(lines: list[bytes]) -> None:
        lines[3], lines[4] = lines[4], lines[3]

    edit(folder, swap)
    assert "order" in kinds(folder)


def test_a_line_written_twice(folder: Path) -> None:
    """A repeated number is no number."""
    edit(folder, lambda lines: lines.append(lines[-1]))
    assert kinds(folder) == ["order", "chain"]


def test_missing_and_damaged_blobs(folder: Path) -> None:
    """Each missing or changed blob is named."""
    blobs = sorted(
        (path for path in (folder / "blobs").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    blobs[0].unlink()
    blobs[1].write_bytes(b'"other"')
    problems = [problem for problem in verify_log(folder).problems if problem.kind == "blob"]
    assert any(blobs[0].name in problem.text for problem in problems)
    assert any(f"{blobs[1]} is damaged" in problem.text for problem in problems)


def test_a_blob_of_another_size(folder: Path) -> None:
    """The size that a line states has to be true."""
    edit(folder, lambda lines: lines.__setitem__(0, lines[0].replace(b'"bytes":5002', b'"bytes":5003')))
    assert "blob" in kinds(folder)


def test_a_list_with_other_items(folder: Path) -> None:
    """What a list appends, and what it is based on, has to give its name."""

    def change(lines: list[bytes]) -> None:
        line = json.loads(lines[-1])
        line["data"]["messages"]["append"][0]["content"] = "other"
        lines[-1] = json.dumps(line).encode() + b"\n"

    edit(folder, change)
    assert kinds(folder) == ["list"]


def test_a_list_without_its_base(folder: Path) -> None:
    """A base has to come before the list that refers to it."""
    edit(folder, lambda lines: lines.__delitem__(slice(0, 5)))
    problems = [problem for problem in verify_log(folder).problems if problem.kind == "list"]
    assert "is missing in" in problems[0].text


def test_torn_lines_are_no_fault(folder: Path, record: Make) -> None:
    """A crash leaves a torn line; the log is sound without it."""
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "tor')
    assert verify_log(folder).ok
    assert len(verify_log(folder).torn) == 1
    with SessionLog(folder, verify=True) as log:
        log.write(record())
    report = verify_log(folder)
    assert report.ok
    assert [torn.number for torn in report.torn] == [11]
    assert report.last_seq == 11


def test_lost_lines_that_are_owned_up_to(tmp_path: Path) -> None:
    """A gap is explained by a `dropped` of the same size, and only by that."""
    for dropped, ok in ((2, True), (1, False), (3, False)):
        lines = [{"event": "e", "seq": 1}, {"event": "e", "seq": 4, "dropped": dropped}]
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert verify_log(tmp_path).ok is ok


def test_a_log_whose_first_files_were_deleted(tmp_path: Path, record: Make) -> None:
    """What retention leaves is sound by itself."""
    with SessionLog(tmp_path, max_bytes=1500, verify=True) as log:
        for _ in range(30):
            log.write(record(text="x" * 100))
    (tmp_path / "events.1.jsonl").unlink()
    report = verify_log(tmp_path)
    assert report.ok
    assert (report.first_seq or 0) > 1
    assert report.last_seq == 30


def test_published_lines_have_nothing_to_check(tmp_path: Path) -> None:
    """Lines without numbers are counted."""
    (tmp_path / "events.jsonl").write_text('{"event": "a"}\n{"event": "b"}\n')
    report = verify_log(tmp_path)
    assert report.ok
    assert report.unnumbered == 2


def test_problems_are_bounded(tmp_path: Path) -> None:
    """A log that is wrong throughout does not fill the memory."""
    with (tmp_path / "events.jsonl").open("w") as file:
        for seq in range(3, 6000, 2):
            file.write(f'{{"event": "e", "seq": {seq}}}\n')
    report = verify_log(tmp_path)
    assert report.problem_count == 2999
    assert len(report.problems) == 1000
    assert not report.ok
