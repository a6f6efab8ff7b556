"""One file at a time: made, updated or deleted by a diff."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


async def test_create(desk: Any, project: Path) -> None:
    """A new file has the lines of the diff; output and events have the published shape."""
    output = await desk.done(type="create_file", path="a/new.py", diff="+one\n+\n+ two\n")
    assert output == "A a/new.py"
    assert desk.tree() == {"a/new.py": b"one\n\n two\n"}
    path = str(project / "a" / "new.py")
    assert desk.events == [
        ("artifact:write", {"path": path, "bytes": 10}),
        ("apply-patch:applied", {"path": path, "operation": "create_file"}),
    ]
    assert desk.asked == []


async def test_create_from_a_unified_diff(desk: Any) -> None:
    """Headers of a unified diff are left out, and a file may end without a line end."""
    diff = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
    await desk.done(type="create_file", path="x", diff=diff)
    assert desk.tree() == {"x": b"one\ntwo"}


async def test_create_from_plain_lines(desk: Any) -> None:
    """A model that forgets all the plus signs means the lines as they are; some of them missing is an error."""
    await desk.done(type="create_file", path="x", diff="one\ntwo\n")
    assert desk.tree() == {"x": b"one\ntwo\n"}
    code, message = await desk.refused(type="create_file", path="y", diff="+one\ntwo\n")
    assert (code, "line 2" in message) == ("invalid_patch", True)


async def test_create_from_plain_lines_loses_none(desk: Any) -> None:
    """Lines that are no diff are all of the file, also one that would be git's word about the last line."""
    await desk.done(type="create_file", path="a.tex", diff="x\n\\ y\n\\ z\n")
    assert desk.tree() == {"a.tex": b"x\n\\ y\n\\ z\n"}


async def test_create_an_empty_file(desk: Any) -> None:
    """No lines make an empty file."""
    await desk.done(type="create_file", path="x", diff="")
    assert desk.tree() == {"x": b""}


async def test_create_on_an_existing_file(desk: Any, project: Path) -> None:
    """An existing file is not overwritten; the message shows what it holds."""
    (project / "x").write_text("what\nis there\n", encoding="utf-8")
    code, message = await desk.refused(type="create_file", path="x", diff="+new\n")
    assert code == "already_exists"
    assert message.endswith("It holds now:\nwhat\nis there")
    assert desk.tree() == {"x": b"what\nis there\n"}


async def test_update(desk: Any, project: Path) -> None:
    """Removed and added lines are exchanged; context and mode stay."""
    (project / "x").write_text("a\nb\nc\nd\n", encoding="utf-8")
    (project / "x").chmod(0o755)
    assert await desk.done(type="update_file", path="x", diff="@@\n a\n-b\n+B\n+B2\n c\n") == "M x"
    assert desk.tree() == {"x": b"a\nB\nB2\nc\nd\n"}
    assert os.access(project / "x", os.X_OK)
    assert desk.events[-1] == ("apply-patch:applied", {"path": str(project / "x"), "operation": "update_file"})


async def test_update_from_a_unified_diff(desk: Any, project: Path) -> None:
    """Headers and line numbers of a unified diff are left out, whatever they say."""
    (project / "x").write_text("a\nb\nc\n-- d\n", encoding="utf-8")
    diff = "diff --git a/x b/x\nindex 12ab..34cd 100644\n--- a/x\n+++ b/x\n@@ -90,2 +91,2 @@ def f():\n a\n-b\n+B\n"
    await desk.done(type="update_file", path="x", diff=diff)
    assert desk.tree() == {"x": b"a\nB\nc\n-- d\n"}


async def test_a_removed_comment_is_no_header(desk: Any, project: Path) -> None:
    """`--- text` alone removes the line `-- text`."""
    (project / "x.sql").write_text("-- old\nselect 1\n", encoding="utf-8")
    await desk.done(type="update_file", path="x.sql", diff="@@\n--- old\n+-- new\n select 1\n")
    assert desk.tree() == {"x.sql": b"-- new\nselect 1\n"}


async def test_context_that_does_not_fit(desk: Any, project: Path) -> None:
    """Lines that are not in the file fail, and the message shows the file as it is."""
    (project / "x").write_text("a\nb\nc\n", encoding="utf-8")
    code, message = await desk.refused(type="update_file", path="x", diff="@@\n a\n-x\n+y\n")
    assert code == "context_mismatch"
    assert message.endswith("It holds now:\na\nb\nc")
    assert desk.tree() == {"x": b"a\nb\nc\n"}


async def test_at_most_200_lines_are_shown(desk: Any, project: Path) -> None:
    """Of a long file, the message has 200 lines, around what was perhaps meant."""
    (project / "x").write_text("".join(f"line number {n}\n" for n in range(1, 1001)), encoding="utf-8")
    _, message = await desk.refused(type="update_file", path="x", diff="@@\n line number 700\n-line numbered 701\n+y\n")
    shown = message.split("\n")[1:]
    assert len(shown) == 200
    assert "line number 701" in shown
    assert "Lines 600 to 799 of 1000 are now:" in message


async def test_delete(desk: Any, project: Path) -> None:
    """A file is removed, binary or not; a link goes without its target."""
    (project / "x").write_bytes(bytes(3))
    (project / "kept").write_text("kept", encoding="utf-8")
    (project / "link").symlink_to("kept")
    assert await desk.done(type="delete_file", path="x") == "D x"
    assert await desk.done(type="delete_file", path="link", diff=None) == "D link"
    assert desk.tree() == {"kept": b"kept"}
    assert not os.path.lexists(project / "link")
    assert desk.events == [
        ("apply-patch:applied", {"path": str(project / "x"), "operation": "delete_file"}),
        ("apply-patch:applied", {"path": str(project / "link"), "operation": "delete_file"}),
    ]


async def test_what_is_not_there(desk: Any, project: Path) -> None:
    """Missing files cannot be updated or deleted, and folders cannot be changed."""
    (project / "folder").mkdir()
    assert (await desk.refused(type="update_file", path="no", diff="-a\n+b"))[0] == "not_found"
    assert (await desk.refused(type="delete_file", path="no"))[0] == "not_found"
    for kind in ("delete_file", "update_file", "create_file"):
        assert (await desk.refused(type=kind, path="folder", diff="-a\n+b"))[0] in ("is_directory", "invalid_patch")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": "rename_file", "path": "x"},
        {"type": "create_file"},
        {"type": "create_file", "path": "x"},
        {"type": "update_file", "path": "x", "diff": " "},
        {"type": "update_file", "path": "", "diff": "+a"},
        {"type": "update_file", "path": "x", "diff": 3},
        {"patch": 3},
    ],
)
async def test_invalid_input_is_reported(desk: Any, wrong: dict[str, Any]) -> None:
    """Input that makes no sense is a failure, and nothing happens."""
    assert (await desk.refused(**wrong))[0] == "invalid_input"
    assert desk.tree() == {}


async def test_links_are_asked_for_and_ways_out_refused(desk: Any, project: Path) -> None:
    """A link inside is asked about with its target; one that leads out is refused, and so are other ways out."""
    outside = project.parent / "outside"
    outside.write_text("a\n", encoding="utf-8")
    (project / "real").write_text("a\n", encoding="utf-8")
    (project / "link").symlink_to("real")
    (project / "out").symlink_to(outside)
    await desk.done(type="update_file", path="link", diff="-a\n+b")
    assert desk.asked == [("filesystem.write", str(project / "real"))]
    assert (project / "link").is_symlink()
    for path in ("out", "../outside", str(outside)):
        assert (await desk.refused(type="update_file", path=path, diff="-a\n+b"))[0] == "outside_allowed_paths"
    for path in ("../outside", str(outside)):
        assert (await desk.refused(type="delete_file", path=path))[0] == "outside_allowed_paths"
    assert outside.read_text(encoding="utf-8") == "a\n"
