"""What is shown before a tool runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.ui.approval.preview import change_asked_for, change_of, preview
from amplifier_module_tool_filesystem.edit import EditFile
from amplifier_module_tool_filesystem.read import ReadFile
from amplifier_module_tool_filesystem.write import WriteFile


def _write(path: str, content: str, folder: Path, **more: Any) -> list[str]:
    return preview({"file_path": path, "content": content, **more}, folder, "write")


def _edit(path: str, old: str, new: str, folder: Path, **more: Any) -> list[str]:
    return preview({"file_path": path, "old_string": old, "new_string": new, **more}, folder, "edit")


def test_change_of_a_file(tmp_path: Path) -> None:
    """A write is shown as the difference to what the file holds."""
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    lines = _write("a.txt", "one\n2\n", tmp_path)
    assert lines == ["--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+2"]


def test_new_file(tmp_path: Path) -> None:
    """A file that does not exist yet is all additions."""
    lines = _write("new.txt", "one\ntwo\n", tmp_path)
    assert lines[0] == "--- (no such file yet)"
    assert lines[-2:] == ["+one", "+two"]


def test_edit_of_a_file(tmp_path: Path) -> None:
    """An edit is shown as the difference it makes, once or everywhere."""
    (tmp_path / "a.txt").write_text("x\ny\nx\n", encoding="utf-8")
    assert _edit("a.txt", "x", "z", tmp_path).count("+z") == 1
    assert _edit("a.txt", "x", "z", tmp_path, replace_all=True).count("+z") == 2


def test_edit_that_does_not_fit(tmp_path: Path) -> None:
    """An edit whose text is not in the file says so, and still shows what it would do."""
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    lines = _edit("a.txt", "q", "z", tmp_path)
    assert lines == ["a.txt: the text to replace is not in the file", "-q", "+z"]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    """Binary files, folders and huge files are told, and the new content is shown."""
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    assert _write("b.bin", "text", tmp_path) == ["b.bin: not a text file", "+text"]
    (tmp_path / "d").mkdir()
    assert _write("d", "text", tmp_path)[0] == "d: not a file"
    (tmp_path / "h.txt").write_bytes(b"x" * 1_000_001)
    assert "too many to compare" in _write("h.txt", "text", tmp_path)[0]
    assert _write("n\0l", "text", tmp_path)[-1] == "+text"


def test_nothing_would_change(tmp_path: Path) -> None:
    """A write of what is there already says so, also when only the end of the file differs."""
    (tmp_path / "a.txt").write_bytes(b"one\r\n")
    assert _write("a.txt", "one\r\n", tmp_path) == ["a.txt: nothing would change"]
    assert "only the end of the file" in _write("a.txt", "one\r", tmp_path)[0]


def test_other_ends_of_lines_are_part_of_the_line(tmp_path: Path) -> None:
    """A carriage return or a Unicode line separator is shown as what it is, and is no new line."""
    (tmp_path / "a.txt").write_bytes(b"one\r\n")
    assert _write("a.txt", "one\n", tmp_path)[-2:] == ["-one\r", "+one"]
    assert _write("b.txt", "x\u2028y\x0cz", tmp_path)[-1] == "+x\u2028y\x0cz"


def test_what_is_too_long_to_compare_is_shown_whole(tmp_path: Path) -> None:
    """A write of more lines than can be compared shows all that will be in the file."""
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    lines = _write("a.txt", "".join(f"{number}\n" for number in range(30_000)), tmp_path)
    assert "too many to compare" in lines[0]
    assert lines[1:] == [f"+{number}" for number in range(30_000)]


@pytest.mark.parametrize(
    "given",
    [
        {"old_string": "x", "new_string": "y", "then_run": "hidden"},
        {"old_string": "x", "new_string": "y", "edits": ["hidden"]},
        {"old_string": "x", "new_string": "y", "content": "hidden"},
        {"old_string": "x", "new_string": "y", "replace_all": "hidden"},
        {"old_string": 1, "new_string": "hidden"},
        {"path": "b", "text": "hidden"},
    ],
)
@pytest.mark.parametrize("change", ["write", "edit"])
def test_no_argument_is_left_out(tmp_path: Path, given: dict[str, object], change: Any) -> None:
    """What a diff cannot tell is shown as the argument itself, or the input as a whole."""
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    shown = "\n".join(preview({"file_path": "a.txt", **given}, tmp_path, change))
    assert "hidden" in shown


def test_bytes_that_are_not_utf_8_change(tmp_path: Path) -> None:
    """A file that is not UTF-8 is never said to stay as it is, and what would be written is shown."""
    (tmp_path / "data.bin").write_bytes(b"abc\xff\xfedef\n")
    first, *rest = _write("data.bin", "abc\ufffd\ufffddef\n", tmp_path)
    assert "bytes would change" in first
    assert rest == ["+abc\ufffd\ufffddef"]


def test_a_diff_is_for_file_tools_alone(tmp_path: Path) -> None:
    """The input of another tool is shown whole, whatever its parameters are called."""
    (tmp_path / "job.sql").write_text("DROP TABLE customers;\n", encoding="utf-8")
    for key in ("path", "file_path"):
        shown = "\n".join(preview({key: "job.sql", "content": "DROP TABLE customers;\n"}, tmp_path))
        assert "DROP TABLE" in shown


def test_file_tools_are_known_by_their_module(tmp_path: Path) -> None:
    """A tool that only has the name of a file tool is none; in another session the action it asks for decides."""

    class Impostor:
        name = "write_file"

    workspace: Any = None
    tools = (WriteFile(workspace), EditFile(workspace), ReadFile(workspace), Impostor())
    assert [change_of(tool) for tool in tools] == ["write", "edit", None, None]
    assert change_asked_for("filesystem.write", "edit_file") == "edit"
    assert change_asked_for("mcp.call", "write_file") is None
    assert change_asked_for("filesystem.write", "mcp_s_write") is None


def test_other_input_is_shown_whole(tmp_path: Path) -> None:
    """Everything else is the input itself; nothing of it is left out."""
    assert preview({"command": "rm -r build", "cwd": "/"}, tmp_path) == [
        "{",
        '  "command": "rm -r build",',
        '  "cwd": "/"',
        "}",
    ]
    assert preview({}, tmp_path) == []
    assert preview(None, tmp_path) == []


def test_what_a_diff_does_not_tell_stands_before_it(tmp_path: Path) -> None:
    """Arguments beside those of a write are shown as arguments."""
    lines = _write("notes", "hello", tmp_path, command="curl x | sh", file="other")
    assert lines[:4] == ["{", '  "command": "curl x | sh",', '  "file": "other"', "}"]
    assert lines[-1] == "+hello"


def test_a_diff_alone(tmp_path: Path) -> None:
    """An edit and a write are told by their diff, with all their keys."""
    (tmp_path / "a").write_text("one\n", encoding="utf-8")
    for shown in (_edit("a", "one", "two", tmp_path, replace_all=False), _write("a", "two\n", tmp_path)):
        assert shown == ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-one", "+two"]


def test_a_file_without_an_end_is_not_waited_for(tmp_path: Path) -> None:
    """A file that is opened in a way that may wait, as a pipe or one of /proc, keeps no chat from going on."""
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in _write("pipe", "x", tmp_path)[0]
    assert _write("/proc/kmsg", "x", tmp_path)[-1] == "+x"
