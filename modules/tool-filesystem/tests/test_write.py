"""`write_file` writes whole files, in the form of the file that was there, and nowhere else."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest


async def test_a_new_file(desk: Any, project: Path) -> None:
    """A new file has exactly the content, with the folders it needs; result and event have the published shape."""
    content = "one\r\ntwo\nGrüße 😀"
    result = await desk.done("write_file", file_path="a b/ü/new.txt", content=content)
    file = project / "a b" / "ü" / "new.txt"
    assert result == {"file_path": str(file), "bytes": len(content.encode())}
    assert file.read_bytes() == content.encode()
    assert desk.events == [("artifact:write", {"path": str(file), "bytes": len(content.encode())})]
    assert desk.asked == []


async def test_an_empty_file(desk: Any, project: Path) -> None:
    """Empty content is content."""
    assert (await desk.done("write_file", file_path="empty", content=""))["bytes"] == 0
    assert (project / "empty").read_bytes() == b""


async def test_an_existing_file_is_replaced(desk: Any, project: Path) -> None:
    """The old content is gone, the mode is kept."""
    file = project / "run.sh"
    file.write_text("old and longer\n", encoding="utf-8")
    file.chmod(0o750)
    await desk.done("write_file", file_path="run.sh", content="new\n")
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o750


@pytest.mark.parametrize(("end", "name"), [("\r\n", "CRLF"), ("\r", "CR")])
async def test_line_ends_are_kept(desk: Any, project: Path, end: str, name: str) -> None:
    """A file whose lines all end with CRLF, or all with CR, keeps that, and the result says so."""
    (project / "a.txt").write_bytes(f"a{end}b{end}".encode())
    result = await desk.done("write_file", file_path="a.txt", content="x\ny\n")
    assert (project / "a.txt").read_bytes() == f"x{end}y{end}".encode()
    assert result["bytes"] == 2 + 2 * len(end)
    assert f"({name})" in result["warning"]


@pytest.mark.parametrize(("old", "new"), [(b"a\r\nb\n", "x\ny\n"), (b"a\nb\n", "x\ny\n"), (b"a\r\n", "x\r\ny\n")])
async def test_other_line_ends_are_as_given(desk: Any, project: Path, old: bytes, new: str) -> None:
    """Mixed files have nothing to keep, and who writes carriage returns means them."""
    (project / "a.txt").write_bytes(old)
    assert "warning" not in await desk.done("write_file", file_path="a.txt", content=new)
    assert (project / "a.txt").read_bytes() == new.encode()


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
async def test_the_encoding_is_kept(desk: Any, project: Path, mark: bytes, encoding: str) -> None:
    """A file with a byte order mark keeps mark and encoding; a mark in the content is not doubled."""
    for content in ("Grüße\r\n", "\ufeffGrüße\r\n"):
        (project / "a.txt").write_bytes(mark + "alt\r\n".encode(encoding))
        result = await desk.done("write_file", file_path="a.txt", content=content)
        assert (project / "a.txt").read_bytes() == mark + "Grüße\r\n".encode(encoding)
        assert encoding.upper() in result["warning"]


async def test_a_change_of_encoding_is_reported(desk: Any, project: Path) -> None:
    """A file that was not UTF-8 and becomes it is said to; one that was, or gets nothing but ASCII, needs no word."""
    (project / "old").write_bytes("Grüße".encode("latin-1"))
    assert "warning" not in await desk.done("write_file", file_path="old", content="Hello")
    (project / "old").write_bytes("Grüße".encode("latin-1"))
    assert "UTF-8 now" in (await desk.done("write_file", file_path="old", content="Grüße"))["warning"]
    assert (project / "old").read_bytes() == "Grüße".encode()
    assert "warning" not in await desk.done("write_file", file_path="old", content="Größe")


async def test_a_binary_file_is_replaced_with_a_word(desk: Any, project: Path) -> None:
    """Replacing a binary file by text is done, and said."""
    (project / "a").write_bytes(bytes(10))
    assert "binary" in (await desk.done("write_file", file_path="a", content="x"))["warning"]


async def test_hard_links_are_not_written_through(desk: Any, project: Path) -> None:
    """Another name of the file keeps the old content, and the result says so."""
    outside = project.parent / "outside"
    outside.write_bytes(b"old")
    os.link(outside, project / "a")
    assert "2 names" in (await desk.done("write_file", file_path="a", content="new"))["warning"]
    assert outside.read_bytes() == b"old"


async def test_a_link_inside_is_followed(desk: Any, project: Path) -> None:
    """A link to a file inside stays a link; the session is asked about the file."""
    (project / "link").symlink_to("real/file")
    await desk.done("write_file", file_path="link", content="x")
    assert (project / "link").is_symlink()
    assert (project / "real" / "file").read_bytes() == b"x"
    assert desk.asked == [("filesystem.write", str(project / "real" / "file"))]


async def test_a_refused_link_is_not_written(desk: Any, project: Path) -> None:
    """When the session says no to the link's target, nothing is written, and nothing is announced."""
    desk.verdict = "deny"
    (project / "link").symlink_to("real")
    assert (await desk.refused("write_file", file_path="link", content="x"))[0] == "denied"
    assert sorted(os.listdir(project)) == ["link"]
    assert desk.events == []


@pytest.mark.parametrize("path", ["folder", "folder/", "folder/.", "new/", "new/.", "."])
async def test_folders_are_not_written(desk: Any, project: Path, path: str) -> None:
    """A path that is a folder, or says so, is refused."""
    (project / "folder").mkdir()
    assert (await desk.refused("write_file", file_path=path, content="x"))[0] == "is_directory"
    assert os.listdir(project) == ["folder"]


async def test_a_file_on_the_way(desk: Any, project: Path) -> None:
    """A file cannot be made below a file, and the folders before it are not made either."""
    (project / "file").touch()
    assert (await desk.refused("write_file", file_path="file/x", content=""))[0] == "not_a_directory"


async def test_what_cannot_be_written_down(desk: Any, project: Path) -> None:
    """A lone surrogate is refused and leaves nothing."""
    assert (await desk.refused("write_file", file_path="a", content="x\ud800"))[0] == "not_encodable"
    assert os.listdir(project) == []


@pytest.mark.parametrize("wrong", [{}, {"file_path": "a"}, {"file_path": "a", "content": 3}, {"content": "x"}])
async def test_invalid_input_is_reported(desk: Any, project: Path, wrong: dict[str, Any]) -> None:
    """Input that makes no sense is a failure, and nothing is written."""
    assert (await desk.refused("write_file", **wrong))[0] == "invalid_input"
    assert os.listdir(project) == []


async def test_where_may_be_written(make_desk: Callable[..., Awaitable[Any]], project: Path) -> None:
    """Writing is confined to the working directory by default, or to what the config allows; denied beats allowed."""
    desk = await make_desk()
    outside = project.parent / "outside.txt"
    for path in (str(outside), "../outside.txt"):
        assert (await desk.refused("write_file", file_path=path, content="x"))[0] == "outside_allowed_paths"
    desk = await make_desk(allowed_write_paths=["out", str(outside)], denied_write_paths=["out/never"])
    await desk.done("write_file", file_path="out/a", content="x")
    await desk.done("write_file", file_path=str(outside), content="x")
    assert (await desk.refused("write_file", file_path="a", content="x"))[0] == "outside_allowed_paths"
    assert (await desk.refused("write_file", file_path="out/never/a", content="x"))[0] == "denied_path"
    desk = await make_desk(allowed_write_paths=[])
    assert (await desk.refused("write_file", file_path="a", content="x"))[0] == "outside_allowed_paths"
