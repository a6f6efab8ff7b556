"""Whoever may write a file but not read it learns nothing of what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECRET = "user: root\nvalue: CANARY-1\nuser: root\nend\n"


@pytest.fixture
def locked(desk: Any, project: Path) -> Path:
    """Return a file that may be written and must not be read."""
    desk.coordinator.register_policy("no-reading", lambda action, details: _judged(action))
    path = project / "secret"
    path.write_text(SECRET, encoding="utf-8")
    return path


def _judged(action: str) -> str:
    return "deny" if action == "filesystem.read" else "allow"


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        (SECRET.encode(), "value: CANARX-1", "x"),
        (SECRET.encode(), "user: root", "x"),
        (SECRET.encode(), "nothing like it 12345", "x"),
        (b"\0\1\2binary", "old", "new"),
        (b"\xff\xfeo\0", "old", "new"),
        (b"\xe9\xe8 old", "old", "\u00e9"),
        (b"a\r\nb\r\n", "a\nb", "a\r\nb"),
        (b"a  \nb\na  \nb\n", "a\nb", "x"),
        (b"", "old", "new"),
    ],
)
async def test_a_failed_edit_tells_nothing(desk: Any, locked: Path, content: bytes, old: str, new: str) -> None:
    """Whatever does not fit, the answer is the same, and only that it does not fit."""
    locked.write_bytes(content)
    code, message = await desk.refused("edit_file", file_path="secret", old_string=old, new_string=new)
    assert code == "unreadable"
    assert message == (
        f"{locked} does not fit this change, and nothing was written. Its content is not shown: {locked} is not "
        "allowed: deny by policy 'no-reading'"
    )
    assert locked.read_bytes() == content


async def test_an_edit_that_fits_is_made_without_notes(desk: Any, locked: Path) -> None:
    """Writing stays allowed; what was not quite as given is not told."""
    locked.write_bytes(b"first\r\n    value = 1\r\n")
    done = await desk.done("edit_file", file_path="secret", old_string="value = 1  ", new_string="value = 2")
    assert "warning" not in done
    assert locked.read_bytes() == b"first\r\n    value = 2\r\n"


@pytest.mark.parametrize("content", [b"\0binary", b"a\r\nb\r\n", b"\xff\xfea\0", b"\xe9"])
async def test_a_written_file_tells_nothing_of_what_it_was(desk: Any, locked: Path, content: bytes) -> None:
    """Notes on the form of the old content are for those who may read it."""
    locked.write_bytes(content)
    assert "warning" not in await desk.done("write_file", file_path="secret", content="\u00e9\nb\n")


async def test_reading_is_asked_about_only_to_show_something(desk: Any, project: Path) -> None:
    """An edit that fits asks nobody about reading; one that fails asks for the file whose lines it would show."""
    path = project / "file"
    path.write_text("one\ntwo\n", encoding="utf-8")
    await desk.done("edit_file", file_path="file", old_string="one", new_string="1")
    assert desk.asked == []
    assert "two" in (await desk.refused("edit_file", file_path="file", old_string="twoo", new_string="2"))[1]
    assert desk.asked == [("filesystem.read", str(path))]
