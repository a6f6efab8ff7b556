"""Files as they go into prompts."""

import hashlib
import os
from pathlib import Path

import pytest

from amplifier_foundation.prompt.text_files import (
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    TextFile,
    TextFiles,
    UnusableFileError,
    _state,
    readable_name,
)
from amplifier_kit.guard.files.place import reach


class Files:
    """Reads files by their paths."""

    def __init__(self) -> None:
        self._files = TextFiles()

    def read(self, path: Path) -> TextFile:
        with reach(str(path)) as place:
            return self._files.read(place)


@pytest.fixture
def files() -> Files:
    return Files()


def test_a_byte_order_mark_is_no_content(tmp_path: Path, files: Files) -> None:
    """The mark is dropped, line ends stay as they are, and the hash is that of the text."""
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    file = files.read(tmp_path / "a.md")
    assert (file.text, file.sha256) == ("one\r\ntwo\r\n", hashlib.sha256(b"one\r\ntwo\r\n").hexdigest())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\0b", "binary"),
        (b"one\ntwo \xe9", r"not UTF-8 \(line 2: .*save the file as UTF-8"),
        ("text".encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, files: Files, content: bytes, reason: str) -> None:
    """Binary files and other encodings are refused, and the reason says so."""
    (tmp_path / "a.md").write_bytes(content)
    with pytest.raises(UnusableFileError, match=reason):
        files.read(tmp_path / "a.md")


def test_a_pipe_is_refused(tmp_path: Path, files: Files) -> None:
    """What would never end is not read."""
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(UnusableFileError, match="is a pipe, not a regular file"):
        files.read(tmp_path / "pipe.md")


def test_a_missing_file_is_refused(tmp_path: Path, files: Files) -> None:
    """The reason says so."""
    with pytest.raises(UnusableFileError, match="no such file"):
        files.read(tmp_path / "none.md")


def test_a_long_file_is_cut_between_characters_and_says_so(tmp_path: Path, files: Files) -> None:
    """The cut is never in the middle of a character, and the end of the text tells of it."""
    content = ("a" + "€" * MAX_FILE_BYTES).encode("utf-8")
    (tmp_path / "a.md").write_bytes(content)
    text, _, note = files.read(tmp_path / "a.md").text.rpartition("\n")
    shown = len(text.encode("utf-8"))
    assert MAX_FILE_BYTES - 3 < shown <= MAX_FILE_BYTES
    assert text == "a" + "€" * ((shown - 1) // 3)
    assert note == f"[cut: the first {shown} of {len(content)} bytes]"


def test_a_file_of_exactly_the_limit_is_whole(tmp_path: Path, files: Files) -> None:
    """The last byte that fits is shown."""
    (tmp_path / "a.md").write_bytes(b"a" * MAX_FILE_BYTES)
    assert files.read(tmp_path / "a.md").text == "a" * MAX_FILE_BYTES


def test_a_folder_is_listed_by_name(tmp_path: Path, files: Files) -> None:
    """One line per entry, sorted, folders marked; names that cannot be sent are made readable."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "zoë.md").touch()
    (folder / "a\nb").touch()
    os.close(os.open(os.fsencode(folder) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    listing = files.read(folder)
    assert listing.text == "FILE a?b\nFILE bad?\nDIR sub\nFILE zoë.md"
    assert listing.mentions == ()


def test_a_long_listing_is_cut_and_says_so(tmp_path: Path, files: Files) -> None:
    """Only so many entries are listed."""
    for number in range(MAX_ENTRIES + 1):
        (tmp_path / f"{number:05}").touch()
    lines = files.read(tmp_path).text.splitlines()
    assert (len(lines), lines[-1]) == (MAX_ENTRIES + 1, f"[cut: the first {MAX_ENTRIES} of {MAX_ENTRIES + 1} entries]")


def test_a_settled_file_is_not_read_again(tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has been as it is for a while costs one look, no reading."""
    path = tmp_path / "a.md"
    path.write_text("one", encoding="utf-8")
    changed = path.stat().st_ctime_ns
    monkeypatch.setattr("amplifier_foundation.prompt.text_files.time.time_ns", lambda: changed + 3_000_000_000)
    first = files.read(path)
    monkeypatch.setattr("amplifier_foundation.prompt.text_files._content", lambda path: pytest.fail("read again"))
    assert files.read(path) is first


def test_an_edit_that_leaves_size_and_times_is_seen(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file just written may change within one tick of the clock: it is read again though nothing seems to differ."""
    path = tmp_path / "a.md"
    path.write_text("one", encoding="utf-8")
    state = _state(path.stat())
    monkeypatch.setattr("amplifier_foundation.prompt.text_files._state", lambda status: state)
    monkeypatch.setattr("amplifier_foundation.prompt.text_files.time.time_ns", lambda: state[-1] + 1)
    assert files.read(path).text == "one"
    path.write_text("two", encoding="utf-8")
    assert files.read(path).text == "two"


def test_names_become_readable() -> None:
    """Bytes that are no UTF-8 and control characters cannot be sent, everything else can."""
    assert readable_name(os.fsdecode(b"/a\xff/\x1b[0m/\xc3\xa9 b")) == "/a?/?[0m/é b"
