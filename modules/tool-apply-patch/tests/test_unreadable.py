"""Whoever may write a file but not read it learns nothing of what it holds by a patch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECRET = "line1\nvalue: CANARY-1\nline1\nend\n"


@pytest.fixture
def locked(desk: Any, project: Path) -> Path:
    """Return a file that may be written and must not be read."""

    def judged(action: str, details: dict[str, Any]) -> str:
        return "deny" if action == "filesystem.read" and details["path"].endswith("/secret") else "allow"

    desk.coordinator.register_policy("no-reading", judged)
    path = project / "secret"
    path.write_text(SECRET, encoding="utf-8")
    return path


def _update(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", "*** Update File: secret", *lines, "*** End Patch"])


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (SECRET, ("@@", " line1", "-value: CANARX-1", "+x")),
        (SECRET, ("@@", "-line1", "+x")),
        (SECRET, ("@@ nowhere", "-line1", "+x")),
        (SECRET, ("@@", "-end", "+end")),
        ("", ("@@", "-end", "+x")),
        ("\0\1binary", ("@@", "-end", "+x")),
    ],
)
async def test_a_patch_that_does_not_fit_tells_nothing(
    desk: Any, locked: Path, content: str, lines: tuple[str, ...]
) -> None:
    """Whatever does not fit, the answer is the same, and only that it does not fit."""
    locked.write_text(content, encoding="utf-8")
    code, message = await desk.refused(patch=_update(*lines))
    assert code == "unreadable"
    assert message.startswith(f"{locked} does not fit this change, and nothing was written. Its content is not shown")
    assert "CANARY" not in message
    assert desk.tree() == {"secret": content.encode()}


async def test_a_file_that_exists_is_not_shown(desk: Any, locked: Path, project: Path) -> None:
    """That a file is there is told, to be made and to be moved to, but not what it holds."""
    (project / "other").write_text("text\n", encoding="utf-8")
    made = "*** Begin Patch\n*** Add File: secret\n+x\n*** End Patch"
    moved = "*** Begin Patch\n*** Update File: other\n*** Move to: secret\n@@\n-text\n+x\n*** End Patch"
    for patch in (made, moved):
        code, message = await desk.refused(patch=patch)
        assert code == "unreadable"
        assert message.startswith(f"{locked} exists already; update it instead. Its content is not shown")
        assert "CANARY" not in message


@pytest.mark.parametrize("hunk", [(), ("@@", "-end", "+done")])
async def test_it_is_not_moved_to_where_it_could_be_read(desk: Any, locked: Path, hunk: tuple[str, ...]) -> None:
    """Moving a file needs the right to read it, changed or not."""
    code, message = await desk.refused(patch=_update("*** Move to: public", *hunk))
    assert code == "unreadable"
    assert "cannot be moved without being read" in message
    assert desk.tree() == {"secret": SECRET.encode()}


async def test_a_patch_that_fits_is_applied_without_notes(desk: Any, locked: Path) -> None:
    """Writing stays allowed; where and how nearly it fitted is not told."""
    assert await desk.done(patch=_update("@@", "-  end", "+  done")) == "M secret"
    assert desk.tree() == {"secret": SECRET.replace("end", "done").encode()}
