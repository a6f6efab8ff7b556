"""Of long output the beginning and the end are shown, all of it is in a file, and nothing is without bound."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_module_tool_bash.output import OutputFolder, SavedOutput

TOKEN = "ghp_" + "Q7w8E9r0T1" * 4


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[OutputFolder]:
    """Return a folder for output."""
    made = OutputFolder(tmp_path / "out")
    yield made
    made.close()


def test_short_output_is_whole(folder: OutputFolder, tmp_path: Path) -> None:
    """What fits is shown as it is, and no file is made."""
    output = SavedOutput(10, folder)
    output.feed("gr\u00fc\u00dfe\n".encode())
    output.close()
    assert output.shown() == ("gr\u00fc\u00dfe\n", False, 8, None, "")
    assert not (tmp_path / "out").exists()


def test_long_output_is_cut_by_lines(folder: OutputFolder) -> None:
    """Whole lines of the beginning and the end are shown, and the marker says how much is missing and where it is."""
    output = SavedOutput(100, folder, name="stdout")
    text = "".join(f"line {number}\n" for number in range(100))
    output.feed(text.encode())
    output.close()
    shown = output.shown()
    assert shown.is_cut
    assert shown.total == len(text)
    assert shown.path is not None
    lines = shown.text.splitlines()
    middle = next(number for number, line in enumerate(lines) if line.startswith("[..."))
    assert lines[:middle] == [f"line {number}" for number in range(middle)]
    assert lines[middle + 1 :] == [f"line {number}" for number in range(100 - len(lines) + middle + 1, 100)]
    gone = len(text) - sum(len(line) + 1 for line in lines) + len(lines[middle]) + 1
    assert lines[middle] == f"[... {gone} bytes left out here; the whole output is in {shown.path} ...]"
    assert shown.path.read_text(encoding="utf-8") == text
    assert stat.S_IMODE(shown.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(shown.path.parent.stat().st_mode) == 0o700


def test_a_line_that_is_too_long_is_cut_by_characters(folder: OutputFolder) -> None:
    """Without line ends characters are cut, never a part of one."""
    output = SavedOutput(101, folder)
    output.feed(("\u20ac" * 1000).encode())
    head, marker, tail = output.shown().text.split("\n")
    assert set(head) == set(tail) == {"\u20ac"}
    assert len(head) == len(tail) == 13
    assert marker.startswith("[... 2,922 bytes left out here; the whole output is in ")
    output.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=st.lists(st.binary(max_size=60)), limit=st.integers(1, 150))
def test_any_output(tmp_path: Path, chunks: list[bytes], limit: int) -> None:
    """Whatever comes in whatever pieces: all of it is shown or in the file, and memory and text are bounded."""
    folder = OutputFolder(tmp_path / os.urandom(8).hex())
    output = SavedOutput(limit, folder)
    for chunk in chunks:
        output.feed(chunk)
        assert len(output._start) + len(output._end) <= 2 * limit + 60
    output.close()
    shown = output.shown()
    whole = b"".join(chunks)
    assert shown.total == len(whole)
    assert shown.is_cut == (len(whole) > limit)
    if shown.path is not None:
        assert shown.path.read_bytes() == whole
    else:
        assert not shown.is_cut
    assert len(shown.text.encode()) <= 3 * limit + 400


def test_a_flood_ends_at_the_limit_of_the_file(folder: OutputFolder) -> None:
    """The file has the beginning, up to its limit, and the marker says so."""
    output = SavedOutput(20, folder, file_limit=100)
    for number in range(100):
        output.feed(f"{number:09}\n".encode())
    output.close()
    shown = output.shown()
    assert shown.path is not None
    assert shown.path.stat().st_size == 100
    assert "the first 100 bytes of all are in" in shown.text
    assert shown.text.endswith("9\n")


def test_binary_output_is_named(folder: OutputFolder) -> None:
    """What is no text is not shown, and is in a file as it was."""
    data = bytes(range(256)) * 4
    output = SavedOutput(10_000, folder)
    output.feed(data)
    shown = output.shown()
    assert shown.path is not None
    assert shown.text == f"[binary output, 1,024 bytes; the whole output is in {shown.path}]"
    assert shown.path.read_bytes() == data


def test_binary_output_that_is_long(folder: OutputFolder) -> None:
    """Long binary output is not cut into pieces that nobody can read."""
    output = SavedOutput(100, folder)
    output.feed(os.urandom(5000))
    output.close()
    assert output.shown().text.startswith("[binary output, 5,000 bytes; the whole output is in ")


def test_a_full_disk(folder: OutputFolder, tmp_path: Path) -> None:
    """When the file cannot be written, it is removed, what is shown says so, and taking in goes on."""
    output = SavedOutput(100, folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        for _ in range(100):
            output.feed(b"a line\n" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    output.close()
    shown = output.shown()
    assert (shown.total, shown.path, shown.problem) == (70_000, None, "File too large")
    assert "; they could not be kept: File too large ...]" in shown.text
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Where a file stands in place of the folder, the output is shown without its middle, with the reason."""
    (tmp_path / "out").write_text("in the way", encoding="utf-8")
    output = SavedOutput(20, OutputFolder(tmp_path / "out"))
    output.feed(b"0123456789" * 10)
    assert output.shown().problem == "File exists"
    assert output.shown().path is None
    with pytest.raises(OSError, match="File exists"):
        SavedOutput(20, OutputFolder(tmp_path / "out"), is_always_kept=True)


def test_output_that_is_always_kept(folder: OutputFolder) -> None:
    """The file is there from the start and has every byte."""
    output = SavedOutput(20, folder, is_always_kept=True)
    assert output.path is not None
    assert output.path.read_bytes() == b""
    output.feed(b"short\n")
    assert output.path.read_bytes() == b"short\n"
    output.feed(b"long " * 100)
    output.close()
    assert output.path.read_bytes() == b"short\n" + b"long " * 100


def test_no_secret_reaches_the_file(folder: OutputFolder) -> None:
    """A secret in output that goes to a file is masked there, however it was cut; what is shown is what was written."""
    output = SavedOutput(200, folder)
    for at, piece in enumerate((f"start {TOKEN[:9]}", f"{TOKEN[9:]} end\n", "more\n" * 100, f"last {TOKEN}\n")):
        output.feed(piece.encode())
        if at and output.path is not None:
            assert TOKEN[9:].encode() not in output.path.read_bytes()
    output.close()
    shown = output.shown()
    assert shown.path is not None
    assert shown.path.read_text(encoding="utf-8") == f"start [REDACTED] end\n{'more' + chr(10)}" + "more\n" * 99 + (
        "last [REDACTED]\n"
    )
    assert f"; the whole output, with secrets masked, is in {shown.path} ...]" in shown.text
    assert TOKEN in shown.text


def test_half_a_line_is_not_on_disk(folder: OutputFolder) -> None:
    """What could be the beginning of a secret is on no disk until its line is whole, should the process be killed."""
    output = SavedOutput(1000, folder, is_always_kept=True)
    assert output.path is not None
    output.feed(f"ready\ntoken {TOKEN[:-1]}".encode())
    assert output.path.read_bytes() == b"ready\n"
    output.close()
    assert TOKEN[:-5] not in output.path.read_text(encoding="utf-8")


def test_a_file_that_is_full_ends_with_a_whole_line(folder: OutputFolder) -> None:
    """Where the limit of the file cuts a line, its beginning is left out: it could be half a secret."""
    output = SavedOutput(20, folder, file_limit=100)
    output.feed(b"a line of text\n" * 6 + TOKEN.encode() + b"\n" + b"more\n" * 10)
    output.close()
    assert output.path is not None
    assert output.path.read_bytes() == b"a line of text\n" * 6
    assert "; the first 90 bytes of all are in" in output.shown().text
