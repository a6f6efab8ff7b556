"""What is shown before a tool runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_app_cli.chat.preview import preview


def test_change_of_a_file(tmp_path: Path) -> None:
    """A write is shown as the difference to what the file holds."""
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    lines = preview({"file_path": "a.txt", "content": "one\n2\n"}, tmp_path)
    assert lines == ["--- a/a.txt", "+++ b/a.txt", "@@ -1,2 +1,2 @@", " one", "-two", "+2"]


def test_new_file(tmp_path: Path) -> None:
    """A file that does not exist yet is all additions."""
    lines = preview({"path": "new.txt", "content": "one\ntwo\n"}, tmp_path)
    assert lines[0] == "--- (no such file yet)"
    assert lines[-2:] == ["+one", "+two"]


@pytest.mark.parametrize(
    ("old", "new"), [("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text")]
)
def test_edit_of_a_file(tmp_path: Path, old: str, new: str) -> None:
    """An edit is shown as the difference it makes, once or everywhere."""
    (tmp_path / "a.txt").write_text("x\ny\nx\n", encoding="utf-8")
    once = preview({"file_path": "a.txt", old: "x", new: "z"}, tmp_path)
    assert once.count("+z") == 1
    everywhere = preview({"file_path": "a.txt", old: "x", new: "z", "replace_all": True}, tmp_path)
    assert everywhere.count("+z") == 2


def test_several_edits(tmp_path: Path) -> None:
    """Edits that come together are shown together."""
    (tmp_path / "a.txt").write_text("x\ny\n", encoding="utf-8")
    edits = [{"old_string": "x", "new_string": "1"}, {"old_string": "y", "new_string": "2"}]
    assert preview({"file_path": "a.txt", "edits": edits}, tmp_path)[-2:] == ["+1", "+2"]


def test_edit_that_does_not_fit(tmp_path: Path) -> None:
    """An edit whose text is not in the file says so, and still shows what it would do."""
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    lines = preview({"file_path": "a.txt", "old_string": "q", "new_string": "z"}, tmp_path)
    assert lines == ["a.txt: the text to replace is not in the file", "-q", "+z"]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    """Binary files, folders and huge files are told, and the new content is shown."""
    (tmp_path / "b.bin").write_bytes(b"\0\1")
    assert preview({"path": "b.bin", "content": "text"}, tmp_path) == ["b.bin: is no text", "+text"]
    (tmp_path / "d").mkdir()
    assert preview({"path": "d", "content": "text"}, tmp_path)[0] == "d: is no file"
    (tmp_path / "h.txt").write_bytes(b"x" * 1_000_001)
    assert "too many to compare" in preview({"path": "h.txt", "content": "text"}, tmp_path)[0]
    assert preview({"path": "n\0l", "content": "text"}, tmp_path)[-1] == "+text"


def test_nothing_would_change(tmp_path: Path) -> None:
    """A write of what is there already says so, also when only the end of the file differs."""
    (tmp_path / "a.txt").write_bytes(b"one\r\n")
    assert preview({"path": "a.txt", "content": "one\r\n"}, tmp_path) == ["a.txt: nothing would change"]
    assert "only the end of the file" in preview({"path": "a.txt", "content": "one\r"}, tmp_path)[0]


def test_other_ends_of_lines_are_part_of_the_line(tmp_path: Path) -> None:
    """A carriage return or a Unicode line separator is shown as what it is, and is no new line."""
    (tmp_path / "a.txt").write_bytes(b"one\r\n")
    assert preview({"path": "a.txt", "content": "one\n"}, tmp_path)[-2:] == ["-one\r", "+one"]
    assert preview({"path": "b.txt", "content": "x\u2028y\x0cz"}, tmp_path)[-1] == "+x\u2028y\x0cz"


def test_what_is_too_long_to_compare_is_shown_whole(tmp_path: Path) -> None:
    """A write of more lines than can be compared shows all that will be in the file."""
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    lines = preview({"path": "a.txt", "content": "".join(f"{number}\n" for number in range(30_000))}, tmp_path)
    assert "too many to compare" in lines[0]
    assert lines[1:] == [f"+{number}" for number in range(30_000)]


@pytest.mark.parametrize(
    "given",
    [
        {"edits": [{"old_string": "x", "new_string": "y", "then_run": "hidden"}]},
        {"edits": [{"old_string": "x", "new_string": "y"}, "hidden"]},
        {"edits": [{"old_string": "x", "new_string": "y"}], "old_string": "x", "new_string": "hidden"},
        {"old_string": "x", "new_string": "y", "old_str": "x", "new_str": "hidden"},
        {"old_string": "x", "new_string": "y", "replace_all": "hidden"},
        {"old_string": 1, "new_string": "hidden"},
    ],
)
def test_no_part_of_an_edit_is_left_out(tmp_path: Path, given: dict[str, object]) -> None:
    """What a diff cannot tell whole is shown as the input itself."""
    (tmp_path / "a.txt").write_text("x\n", encoding="utf-8")
    assert "hidden" in "\n".join(preview({"file_path": "a.txt", **given}, tmp_path))


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
    """A command that brings a path and a content along is still shown as a command."""
    lines = preview({"command": "curl x | sh", "path": "notes", "content": "hello", "file": "other"}, tmp_path)
    assert lines[:4] == ["{", '  "command": "curl x | sh",', '  "file": "other"', "}"]
    assert lines[-1] == "+hello"


def test_a_diff_alone(tmp_path: Path) -> None:
    """An edit and a write are told by their diff, with all their keys."""
    (tmp_path / "a").write_text("one\n", encoding="utf-8")
    edit = {"file_path": "a", "old_string": "one", "new_string": "two", "replace_all": False}
    for given in (edit, {"file_path": "a", "content": "two\n"}):
        assert preview(given, tmp_path) == ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-one", "+two"]
