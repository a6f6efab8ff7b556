"""Writing a log when something is wrong: the session continues, nothing is corrupt, and it is reported once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Make = Callable[..., dict[str, Any]]


class Disk:
    """A disk that takes `room` more bytes, and says so as disks do."""

    def __init__(self, room: int, code: int = errno.ENOSPC) -> None:
        self.room = room
        self.code = code

    def __call__(self, descriptor: int, content: bytes) -> int:
        if self.room == 0:
            raise OSError(self.code, os.strerror(self.code))
        written = os.write(descriptor, content[: self.room])
        self.room -= written
        return written


@pytest.fixture(autouse=True)
def look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the file before every line, so that no test depends on time."""
    monkeypatch.setattr("amplifier_kit.log.writer.CHECK_EVERY", -1.0)


def test_a_full_disk_loses_lines_and_counts_them(
    tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lost lines use up their numbers, the next line says how many, and standard error hears of it once."""
    with SessionLog(tmp_path) as log:
        log.write(record("a"))
        log._os_write = Disk(0)
        for _ in range(3):
            log.write(record("lost"))
        log._os_write = os.write
        log.write(record("b"))
        log.write(record("c"))
    lines = [(line.event, line.seq, line.record.get("dropped")) for line in read_log(tmp_path)]
    assert lines == [("a", 1, None), ("b", 5, 3), ("c", 6, None)]
    report = verify_log(tmp_path)
    assert report.ok
    assert report.dropped == 3
    said = capfd.readouterr().err
    assert said == (
        f"amplifier: session log {tmp_path / 'events.jsonl'}: cannot write: No space left on device. The session "
        "continues; lines are lost until this is fixed, and the next line written says how many.\n"
    )


def test_every_way_to_run_out_of_space(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """Wherever in a line the disk becomes full, nothing of it stays, or all of it, and the next line stands alone."""
    with SessionLog(tmp_path / "size") as log:
        log.write(record("one", text="é"))
    length = (tmp_path / "size" / "events.jsonl").stat().st_size
    for room in range(length + 1):
        folder = tmp_path / str(room)
        with SessionLog(folder, verify=True) as log:
            log.write(record("zero"))
            log._os_write = Disk(room)
            log.write({**record("one", text="é"), "prev": None})
            log._os_write = os.write
            log.write(record("two"))
        torn: list[Any] = []
        lines = [line.seq for line in read_log(folder, torn.append)]
        assert lines in ([1, 3], [1, 2, 3])
        assert torn == []
        assert verify_log(folder).ok


def test_a_half_line_that_cannot_be_taken_back(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """When even that fails, the half line is ended before the next one and skipped by readers."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with SessionLog(tmp_path) as log:
        log._os_write = Disk(50)
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", refuse)
            log.write(record("torn"))
        log._os_write = os.write
        log.write(record("whole"))
    torn: list[Any] = []
    assert [(line.event, line.seq) for line in read_log(tmp_path, torn.append)] == [("whole", 2)]
    assert [(line.number, line.length) for line in torn] == [(1, 51)]
    assert verify_log(tmp_path).ok


def test_a_loss_at_the_end_is_told_at_close(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """Lines lost just before the end are counted in a last line."""
    log = SessionLog(tmp_path)
    log.write(record("a"))
    log._os_write = Disk(0)
    log.write(record("lost"))
    log.write(record("lost"))
    log._os_write = os.write
    log.close()
    last = lines_of(tmp_path)[-1]
    assert (last["event"], last["lvl"], last["seq"], last["dropped"]) == ("log:entry", "ERROR", 4, 2)
    assert last["data"] == {"message": "2 lines were lost"}
    assert last["session_id"] == record()["session_id"]


def test_a_disk_that_stays_full(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """When nothing can be written to the end, standard error says how much is missing."""
    log = SessionLog(tmp_path)
    log._os_write = Disk(0)
    for _ in range(100):
        log.write(record("lost"))
    log.close()
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[1].endswith("ends with 100 lines lost.")


def test_a_real_full_device(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """The kernel's own full device is treated like any other."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    with SessionLog(tmp_path) as log:
        log.write(record())
        log.write(record())
    assert "No space left on device" in capfd.readouterr().err


LIMITED = """
import resource, sys
from amplifier_kit.log.writer import SessionLog
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
log = SessionLog(sys.argv[1])
for index in range(50):
    log.write({"event": "e", "data": {"index": index, "text": "x" * 100}})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write({"event": "after", "data": {"large": "y" * 5000}})
log.close()
print("went on")
"""


def test_a_real_limit_of_the_file_size(tmp_path: Path) -> None:
    """With a limit set by the system, whole lines up to it are kept and the process is not ended by a signal."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "went on\n"
    assert done.stderr.count("\n") == 1
    lines = list(read_log(tmp_path))
    assert lines[-1].event == "after"
    assert lines[-1].seq == 51
    assert lines[-1].record["dropped"] == 51 - len(lines)
    assert verify_log(tmp_path).ok


TROUBLED = """
import sys
from amplifier_kit.log.writer import SessionLog
log = SessionLog("/dev/null/nowhere")
log.write({"event": "e"})
log.close()
print("went on")
"""


@pytest.mark.parametrize("target", ["full", "closed"])
def test_standard_error_may_be_in_trouble_too(target: str) -> None:
    """Neither a full nor a closed standard error stops the program or spoils its exit status."""
    if target == "full":
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-c", TROUBLED], stdout=subprocess.PIPE, stderr=full, check=False, timeout=60
            )
    else:
        command = f"exec \"{sys.executable}\" -c '{TROUBLED}' 2>&-"
        done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.stdout == b"went on\n"
    assert done.returncode == 0


def test_standard_error_that_is_no_file(tmp_path: Path, record: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """An app may have replaced standard error by another object."""
    log = SessionLog(tmp_path / "s")
    log._os_write = Disk(0)
    log.write(record())
    assert "cannot write" in capsys.readouterr().err
    log.close()


def test_a_blob_that_cannot_be_stored(
    tmp_path: Path, record: Make, lines_of: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """A line is lost with its blob: no line ever refers to what is not there."""
    with SessionLog(tmp_path) as log:
        (tmp_path / "blobs").write_text("in the way")
        log.write(record(large="x" * 5000))
        log.write(record("small"))
        (tmp_path / "blobs").unlink()
        log.write(record(large="x" * 5000))
    lines = list(read_log(tmp_path))
    assert [(line.event, line.seq, line.record.get("dropped")) for line in lines] == [
        ("small", 2, 1),
        ("tool:pre", 3, None),
    ]
    assert lines[1].resolved() == {"large": "x" * 5000}


def test_a_list_that_was_lost_is_never_a_base(
    tmp_path: Path, record: Make, messages: Callable[..., list[dict[str, Any]]], capfd: pytest.CaptureFixture[str]
) -> None:
    """After a lost line the next list does not refer to it."""
    history = messages(40)
    with SessionLog(tmp_path) as log:
        log._os_write = Disk(0)
        log.write(record(messages=history))
        log._os_write = os.write
        log.write(record(messages=history[:30]))
        log.write(record(messages=history))
    assert [line.resolved()["messages"] for line in read_log(tmp_path)] == [history[:30], history]
    assert verify_log(tmp_path).ok


def test_a_folder_that_goes_away(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A session whose folder is removed continues without a log, does not recreate it, and reports it once."""
    folder = tmp_path / "s"
    with SessionLog(folder) as log:
        log.write(record("a"))
        shutil.rmtree(folder)
        for _ in range(3):
            log.write(record(large="x" * 5000))
        assert not folder.exists()
    said = capfd.readouterr().err.splitlines()
    assert "No such file or directory" in said[0]
    assert said[1].endswith("ends with 3 lines lost.")
    assert len(said) == 2
    assert not folder.exists()


def test_a_folder_that_comes_back(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A share that was unavailable for a while is written again, and the loss is recorded there."""
    folder = tmp_path / "s"
    with SessionLog(folder) as log:
        log.write(record("a"))
        shutil.rmtree(folder)
        log.write(record("lost"))
        folder.mkdir()
        log.write(record("b", large="x" * 5000))
    [line] = read_log(folder)
    assert (line.event, line.seq, line.record["dropped"]) == ("b", 3, 1)
    assert line.resolved() == {"large": "x" * 5000}


def test_a_file_that_is_removed(tmp_path: Path, record: Make, lines_of: Callable[..., Any]) -> None:
    """A log that is deleted while it is written starts again, with continuous numbers."""
    with SessionLog(tmp_path) as log:
        log.write(record("a"))
        (tmp_path / "events.jsonl").unlink()
        log.write(record("b"))
    assert [(line["event"], line["seq"]) for line in lines_of(tmp_path)] == [("b", 2)]


def test_a_file_that_is_emptied(tmp_path: Path, record: Make, messages: Callable[..., list[dict[str, Any]]]) -> None:
    """After the file was emptied, no list refers to its old content."""
    history = messages(40)
    with SessionLog(tmp_path) as log:
        log.write(record(messages=history))
        (tmp_path / "events.jsonl").write_bytes(b"")
        log.write(record(messages=[*history, {"role": "user", "content": "more"}]))
    [line] = read_log(tmp_path)
    assert line.seq == 2
    assert line.resolved()["messages"][:-1] == history


def test_somebody_else_appends(tmp_path: Path, record: Make) -> None:
    """A line that a program without our lock adds, even half of one, is neither glued to nor counted."""
    with SessionLog(tmp_path) as log:
        log.write(record("a"))
        with (tmp_path / "events.jsonl").open("ab") as file:
            file.write(b'{"event": "foreign"}\n{"half')
        log.write(record("b"))
    lines = [(line.event, line.seq) for line in read_log(tmp_path, lambda torn: None)]
    assert lines == [("a", 1), ("foreign", None), ("b", 2)]


def test_an_interrupted_write_is_noticed(tmp_path: Path, record: Make) -> None:
    """Ctrl-C between writing a line and counting it neither repeats its number nor loses one."""

    def interrupted(descriptor: int, content: bytes) -> int:
        os.write(descriptor, content)
        raise KeyboardInterrupt

    with SessionLog(tmp_path) as log:
        log.write(record("a"))
        log._os_write = interrupted
        with pytest.raises(KeyboardInterrupt):
            log.write(record("b"))
        log._os_write = os.write
        log.write(record("c"))
    assert [(line.event, line.seq) for line in read_log(tmp_path)] == [("a", 1), ("b", 2), ("c", 3)]


def test_a_folder_that_cannot_be_made(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A log that cannot be opened is no reason not to start; it is tried again with every line."""
    (tmp_path / "file").write_text("in the way")
    with SessionLog(tmp_path / "file" / "s") as log:
        log.write(record("lost"))
        (tmp_path / "file").unlink()
        log.write(record("kept"))
    [line] = read_log(tmp_path / "file" / "s")
    assert (line.event, line.seq, line.record["dropped"]) == ("kept", 2, 1)
    assert capfd.readouterr().err.count("\n") == 1


UNPRIVILEGED = """
import os, sys
import orjson  # no longer to be found by those who may read nothing
from amplifier_kit.log.writer import SessionLog
os.chdir(sys.argv[1])
if os.geteuid() == 0:  # root is refused nothing: become another user
    os.setgid(65534)
    os.setuid(65534)
log = SessionLog(".")
log.write({"event": "a"})
os.chmod(".", 0o500)
log.write({"event": "b"})
log.write({"event": "lost", "data": {"large": "x" * 5000}})
os.chmod(".", 0o700)
log.write({"event": "c", "data": {"large": "x" * 5000}})
log.close()
print("went on")
"""


def test_permission_that_is_lost(tmp_path: Path) -> None:
    """Lines that need no new file are written; others are lost, counted, and reported once."""
    folder = tmp_path / "s"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    command = [sys.executable, "-c", UNPRIVILEGED, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "went on\n", done.stderr
    assert done.stderr.count("\n") == 1
    assert "Permission denied" in done.stderr
    lines = [(line.event, line.seq, line.record.get("dropped")) for line in read_log(folder)]
    assert lines == [("a", 1, None), ("b", 2, None), ("c", 4, 1)]
    assert verify_log(folder).ok


def test_a_rotation_that_fails(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be set aside is written on, and nothing is lost."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with SessionLog(tmp_path, max_bytes=1000) as log, monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        for _ in range(50):
            log.write(record())
    assert [line.seq for line in read_log(tmp_path)] == list(range(1, 51))
    assert capfd.readouterr().err.count("cannot rotate it: Permission denied") == 1


def test_the_next_file_cannot_be_made(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A crash or a failure between setting a file aside and beginning the next one keeps the numbers going."""
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any) -> int:
        if str(path).endswith("events.jsonl"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, *rest)

    with SessionLog(tmp_path, max_bytes=1000, verify=True) as log:
        while not (tmp_path / "events.jsonl").stat().st_size >= 1000:
            log.write(record())
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            log.write(record("lost"))
        count = log.seq
        log.write(record("b"))
    lines = list(read_log(tmp_path))
    assert (lines[-1].seq, lines[-1].record["dropped"]) == (count + 1, 1)
    assert verify_log(tmp_path).ok


def test_trouble_of_another_kind_is_told_too(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """Each kind of error is reported once, not only the first one."""
    with SessionLog(tmp_path) as log:
        for code in (errno.ENOSPC, errno.EIO, errno.ENOSPC, errno.EIO):
            log._os_write = Disk(0, code)
            log.write(record())
        log._os_write = os.write
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    assert os.strerror(errno.ENOSPC) in said[0]
    assert os.strerror(errno.EIO) in said[1]


def test_a_failing_sync_is_told(
    tmp_path: Path, record: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that cannot keep its promise is named, and the line is not counted as lost."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with SessionLog(tmp_path) as log:
        log.write(record())
        log.write(record())
    assert [line.seq for line in read_log(tmp_path)] == [1, 2]
    assert capfd.readouterr().err.count("cannot finish it: Input/output error") == 1


def test_a_writer_that_takes_over(tmp_path: Path, record: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """When the folder was removed and another process started a new log, this one does not write to it."""
    folder = tmp_path / "s"
    first = SessionLog(folder)
    first.write(record("a"))
    shutil.rmtree(folder)
    with SessionLog(folder) as second:
        second.write(record("second"))
        first.write(record("lost"))
        second.write(record("second"))
    first.write(record("b"))
    first.close()
    lines = [(line.event, line.seq, line.record.get("dropped")) for line in read_log(folder)]
    assert lines == [("second", 1, None), ("second", 2, None), ("b", 3, 1)]
    assert "is being written by this process" in capfd.readouterr().err


def test_json_of_a_lone_surrogate(tmp_path: Path, record: Make) -> None:
    """A record that was not cleaned is written all the same."""
    with SessionLog(tmp_path) as log:
        log.write({"event": "e", "data": {1: "\ud800", "nan": float("nan"), "big": 2**80}})
    [line] = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["data"] == {"1": "\ufffd", "nan": "nan", "big": 2**80}
