"""`read_file` shows numbered lines of text, within bounds, and says what it left out."""

from __future__ import annotations

import codecs
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_filesystem import lines as lines_module
from amplifier_module_tool_filesystem.lines import read_window


async def test_numbered_lines(desk: Any, project: Path) -> None:
    """Content, counts and event have the published shape."""
    (project / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    assert await desk.done("read_file", file_path="a.txt") == {
        "file_path": str(project / "a.txt"),
        "content": "     1\tone\n     2\ttwo",
        "total_lines": 2,
        "lines_read": 2,
        "offset": 1,
    }
    assert desk.events == [("artifact:read", {"path": str(project / "a.txt"), "bytes": 21})]


async def test_a_part(desk: Any, project: Path) -> None:
    """Offset and limit choose lines; the total is that of the file; numbers may come as text."""
    (project / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)), encoding="utf-8")
    part = await desk.done("read_file", file_path="a.txt", offset="99", limit=5)
    assert (part["content"], part["total_lines"], part["lines_read"]) == ("    99\tline 99\n   100\tline 100", 100, 2)
    part = await desk.done("read_file", file_path="a.txt", offset=10, limit=1)
    assert (part["content"], part["total_lines"]) == ("    10\tline 10", 100)


async def test_beyond_the_end_and_empty(desk: Any, project: Path) -> None:
    """Nothing to show is no failure, but it is said."""
    (project / "a.txt").write_text("one", encoding="utf-8")
    (project / "empty").touch()
    beyond = await desk.done("read_file", file_path="a.txt", offset=7)
    assert (beyond["content"], beyond["total_lines"], beyond["lines_read"]) == ("", 1, 0)
    assert "Line 7 does not exist" in beyond["warning"]
    empty = await desk.done("read_file", file_path="empty")
    assert (empty["total_lines"], empty["warning"]) == (0, "The file is empty.")


async def test_long_lines_are_cut(desk: Any, project: Path) -> None:
    """A line of more than 2000 characters is cut, and the warning says which."""
    (project / "a.txt").write_text(f"short\n{'x' * 2000}\n{'y' * 3_000_000}\nend\n", encoding="utf-8")
    result = await desk.done("read_file", file_path="a.txt")
    assert [len(line) for line in result["content"].split("\n")] == [12, 2007, 2007, 10]
    assert result["warning"] == "Cut at 2000 characters: line 3."


async def test_much_text_is_cut(desk: Any, project: Path) -> None:
    """However many lines are asked for, the answer has bounds and says how to go on."""
    (project / "a.txt").write_text(f"{'x' * 1000}\n" * 1000, encoding="utf-8")
    result = await desk.done("read_file", file_path="a.txt", limit=10**9)
    assert (result["lines_read"], result["total_lines"]) == (253, 1000)
    assert "offset 254" in result["warning"]


@pytest.mark.parametrize("line", ["", "x"])
async def test_many_short_lines_are_cut(desk: Any, project: Path, line: str) -> None:
    """The bound counts the numbers of lines too: a million empty lines are no way around it."""
    (project / "a.txt").write_text(f"{line}\n" * 1_000_000, encoding="utf-8")
    result = await desk.done("read_file", file_path="a.txt", limit=10**9)
    assert len(result["content"]) <= lines_module.MOST_CHARACTERS
    assert result["total_lines"] == 1_000_000
    following = result["lines_read"] + 1
    assert f"offset {following}" in result["warning"]
    rest = await desk.done("read_file", file_path="a.txt", offset=following, limit=1)
    assert rest["content"] == f"{following:6d}\t{line}"


async def test_huge_files_are_bounded(desk: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of many gigabytes is looked at only in part, and that is said."""
    monkeypatch.setattr(lines_module, "MOST_BYTES", 5_000_000)
    with open(project / "huge", "wb") as file:
        file.write(b"line\n" * 2_000_000)
        file.truncate(1 << 40)
    result = await desk.done("read_file", file_path="huge", limit=1)
    assert result["content"] == "     1\tline"
    assert result["total_lines"] == 1_000_000
    assert "1,099,511,627,776 bytes" in result["warning"]


@pytest.mark.parametrize("text", ["a\nb\n", "a\r\nb\r\n", "a\rb\r", "a\nb", "a\r\nb"])
async def test_line_ends_are_not_shown(desk: Any, project: Path, text: str) -> None:
    """Whatever ends the lines, they are shown alike."""
    (project / "a.txt").write_bytes(text.encode())
    result = await desk.done("read_file", file_path="a.txt")
    assert (result["content"], result["total_lines"]) == ("     1\ta\n     2\tb", 2)


@pytest.mark.parametrize(
    "data",
    [codecs.BOM_UTF8 + "Grüße".encode(), "Grüße".encode("utf-16"), codecs.BOM_UTF32_BE + "Grüße".encode("utf-32-be")],
)
async def test_marked_encodings(desk: Any, project: Path, data: bytes) -> None:
    """Text with a byte order mark is read in its encoding, and the mark is not shown."""
    (project / "a.txt").write_bytes(data)
    assert (await desk.done("read_file", file_path="a.txt"))["content"] == "     1\tGrüße"


async def test_older_encodings(desk: Any, project: Path) -> None:
    """Latin-1 is shown readably, with a word about it; a single bad byte does not spoil UTF-8."""
    (project / "old").write_bytes("Grüße".encode("latin-1"))
    (project / "bad").write_bytes("Grüße für alle ".encode() + b"\xff\n")
    old = await desk.done("read_file", file_path="old")
    assert old["content"] == "     1\tGrüße"
    assert "Latin-1" in old["warning"]
    bad = await desk.done("read_file", file_path="bad")
    assert bad["content"] == "     1\tGrüße für alle �"
    assert "not UTF-8 text" in bad["warning"]


async def test_binary_files_are_refused(desk: Any, project: Path) -> None:
    """Bytes that are no text are not shown; size and first bytes are."""
    (project / "a.bin").write_bytes(b"\x7fELF" + bytes(100))
    code, message = await desk.refused("read_file", file_path="a.bin")
    assert code == "binary_file"
    assert "104 bytes" in message
    assert "7f 45 4c 46" in message
    assert desk.events == []


async def test_folders_are_listed(desk: Any, project: Path) -> None:
    """A folder is shown with its folders first; links show where they lead, odd names are escaped."""
    for name in ("b.txt", "a.txt", "new\nline"):
        (project / name).touch()
    (project / "zoo").mkdir()
    (project / "link").symlink_to("zoo")
    (project / os.fsdecode(b"\xff")).touch()
    result = await desk.done("read_file", file_path=".")
    assert result == {
        "file_path": str(project),
        "content": "zoo/\na.txt\nb.txt\nlink -> zoo\n'new\\nline'\n\\xff",
        "is_directory": True,
        "entry_count": 6,
    }


async def test_large_folders_are_bounded(desk: Any, project: Path) -> None:
    """Of many entries the first are listed, and all are counted."""
    for number in range(1100):
        (project / f"{number:04}").touch()
    result = await desk.done("read_file", file_path=str(project))
    assert (result["content"].count("\n"), result["entry_count"]) == (999, 1100)
    assert result["warning"] == "1000 of 1100 entries are listed."


async def test_missing_files_and_their_likes(desk: Any, project: Path) -> None:
    """What does not exist is said, with a name that was perhaps meant."""
    (project / "Settings.py").touch()
    code, message = await desk.refused("read_file", file_path="settings.py")
    assert code == "not_found"
    assert message.endswith("did you mean 'Settings.py'?")
    code, message = await desk.refused("read_file", file_path="no/such/file")
    assert (code, "folder 'no' is missing" in message) == ("not_found", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"file_path": ""},
        {"file_path": 3},
        {"file_path": "a", "offset": 0},
        {"file_path": "a", "limit": "many"},
        {"file_path": "a", "limit": True},
    ],
)
async def test_invalid_input_is_reported(desk: Any, wrong: dict[str, Any]) -> None:
    """Input that makes no sense is a failure that names the key."""
    code, message = await desk.refused("read_file", **wrong)
    assert code == "invalid_input"
    assert message.split()[0] in ("file_path", "offset", "limit")


TEXTS = st.text(st.sampled_from("ab\n\r\né�😀 "), max_size=40)


@given(text=TEXTS, offset=st.integers(1, 8), limit=st.integers(1, 8), chunk=st.integers(1, 5))
def test_windows_are_what_lines_are(
    tmp_path_factory: pytest.TempPathFactory, text: str, offset: int, limit: int, chunk: int
) -> None:
    """In whatever pieces a file is read, the window has the lines that the text has."""
    path = tmp_path_factory.getbasetemp() / "window.txt"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch, open(path, "rb") as file:
        patch.setattr(lines_module, "_CHUNK", chunk)
        patch.setattr(lines_module, "SAMPLE", max(path.read_bytes().find(b"\n") + 1, 1) if "\n" in text else 1 << 16)
        window = read_window(file, "f", offset, limit, threading.Event())
    if "\n" in text or "\r" not in text:
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
        assert window.total == len(lines)
        assert window.lines == lines[offset - 1 : offset - 1 + limit]
