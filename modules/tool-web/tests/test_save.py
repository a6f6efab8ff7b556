"""save_to_file: a write like any other, asked for, confined, and whole or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
PAGE = "<html><body><article><h1>Mill</h1>" + "".join(f"<p>Part {n} of the mill.</p>" for n in range(30)) + "</article>"


async def test_the_published_shape(world: Any, site: Any) -> None:
    """A saved text comes with a preview of a thousand characters, where it lies and how long it is."""
    text = "zehn Räder\r\n" * 200
    site.text("/notes", text)
    output = (await world.fetch(site.url("/notes"), save_to_file="in/notes.txt")).output
    file = world.folder / "in" / "notes.txt"
    assert output == {
        "url": site.url("/notes"),
        "content": text[:1000],
        "content_type": "text/plain; charset=utf-8",
        "truncated": True,
        "total_bytes": len(text.encode()),
        "offset": 0,
        "limit": 204800,
        "returned_bytes": len(text[:1000].encode()),
        "saved_to": str(file),
        "saved_bytes": len(text.encode()),
    }
    assert file.read_bytes() == text.encode()


async def test_binary_files_are_kept_byte_by_byte(world: Any, site: Any) -> None:
    """What cannot be shown can be kept, exactly."""
    site.text("/logo.png", PNG, "image/png")
    output = (await world.fetch(site.url("/logo.png"), save_to_file="logo.png")).output
    assert (output["content"], output["saved_bytes"]) == ("", len(PNG))
    assert (world.folder / "logo.png").read_bytes() == PNG


async def test_pages_are_kept_readable_or_as_they_are(world: Any, site: Any) -> None:
    """A page is kept as the text one would read; under an HTML name, or without extract_text, as it is."""
    site.page("/mill", PAGE)
    await world.fetch(site.url("/mill"), save_to_file="mill.md")
    await world.fetch(site.url("/mill"), save_to_file="mill.html")
    await world.fetch(site.url("/mill"), {"extract_text": False}, save_to_file="raw.md")
    assert (world.folder / "mill.md").read_text(encoding="utf-8").startswith("# Mill\n")
    assert (world.folder / "mill.html").read_text(encoding="utf-8") == PAGE
    assert (world.folder / "raw.md").read_text(encoding="utf-8") == PAGE


async def test_the_write_is_asked_for(world: Any, site: Any) -> None:
    """The session is asked for the file, by its true path, before anything is fetched."""
    site.text("/x", "x")
    (world.folder / "a").mkdir()
    given = {"url": site.url("/x"), "save_to_file": "a/../b.txt"}
    assert (await world.tool().execute(given)).success
    [(action, details)] = world.asked
    assert action == "filesystem.write"
    assert details["path"] == str(world.folder / "b.txt")
    assert (details["tool_name"], details["tool_input"]) == ("web_fetch", given)
    [(_, data)] = world.events.get_events("artifact:write")
    assert (data["path"], data["bytes"]) == (str(world.folder / "b.txt"), 1)


@pytest.mark.parametrize("verdict", ["deny", None, "ask"])
async def test_what_is_not_granted_is_not_written(world: Any, site: Any, verdict: Any) -> None:
    """Without a clear yes nothing is fetched and nothing written."""
    world.verdict = verdict
    site.text("/x", "x")
    result = await world.fetch(site.url("/x"), save_to_file="x.txt")
    assert result.error["code"] == "denied"
    assert site.asked == []
    assert list(world.folder.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../out.txt", "/etc/out.txt", "~/out.txt", "link/out.txt", "/proc/self/mem", "folder"]
)
async def test_files_elsewhere_are_refused(world: Any, site: Any, name: str) -> None:
    """Only files below the working directory are written, whatever leads out of it."""
    (world.folder / "link").symlink_to(world.folder.parent)
    (world.folder / "folder").mkdir()
    site.text("/x", "x")
    result = await world.fetch(site.url("/x"), save_to_file=name)
    assert result.error["code"] in ("outside_allowed_paths", "special_file", "is_directory")
    assert site.asked == []
    assert not (world.folder.parent / "out.txt").exists()


async def test_a_checkpoint_comes_first(world: Any, site: Any) -> None:
    """A file that is overwritten is kept before, under the tool's name; without a checkpoint nothing is written."""
    file = world.folder / "x.txt"
    file.write_text("old", encoding="utf-8")
    seen: list[Any] = []

    class Checkpoints:
        def before_write(self, path: Path, *, tool: str, tool_call_id: str | None = None, follow: bool) -> None:
            seen.append((path, tool, file.read_text(encoding="utf-8")))
            if len(seen) > 1:
                raise OSError("full")

        def after_write(self, path: Path) -> None:
            seen.append(path)

    world.coordinator.register_capability("session.checkpoint", Checkpoints())
    site.text("/x", "new")
    assert (await world.fetch(site.url("/x"), save_to_file="x.txt")).success
    assert seen == [(file, "web_fetch", "old"), file]
    site.text("/x", "newer")
    failed = await world.fetch(site.url("/x"), save_to_file="x.txt")
    assert failed.error["code"] == "checkpoint_failed"
    assert file.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize("is_announced", [True, False])
async def test_what_is_too_large_is_not_kept(world: Any, site: Any, is_announced: bool) -> None:
    """Half a file is no file: what is over max_save_bytes leaves nothing behind."""

    def send(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length" if is_announced else "Connection", "3000" if is_announced else "close")
        handler.end_headers()
        handler.wfile.write(b"x" * 3000)
        handler.close_connection = True

    site.answers["/x"] = send
    result = await world.fetch(site.url("/x"), {"max_save_bytes": 2999}, save_to_file="x.bin")
    assert result.error["code"] == "too_large"
    assert list(world.folder.iterdir()) == []
    assert (await world.fetch(site.url("/x"), {"max_save_bytes": 3000}, save_to_file="x.bin")).success


@pytest.mark.parametrize("path", ["/missing", "/broken"])
async def test_a_failed_fetch_keeps_the_old_file(world: Any, site: Any, path: str) -> None:
    """When nothing whole arrives, the file that was there stays as it was."""

    def broken(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(b"abc")
        handler.close_connection = True

    site.answers["/broken"] = broken
    (world.folder / "x.txt").write_text("old", encoding="utf-8")
    assert not (await world.fetch(site.url(path), save_to_file="x.txt")).success
    assert os.listdir(world.folder) == ["x.txt"]
    assert (world.folder / "x.txt").read_text(encoding="utf-8") == "old"


async def test_a_cancelled_download_leaves_nothing(world: Any, site: Any) -> None:
    """A download that is cancelled half-way leaves no file, no folder and no open descriptor."""
    reached, hold = threading.Event(), threading.Event()

    def slow(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "10")
        handler.end_headers()
        handler.wfile.write(b"abc")
        reached.set()
        hold.wait(60)

    site.answers["/x"] = slow
    task = asyncio.create_task(world.fetch(site.url("/x"), {"timeout": 60}, save_to_file="new/x.txt"))
    assert await asyncio.to_thread(reached.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.set()
    assert list(world.folder.iterdir()) == []


class _SlowCheckpoints:
    """Wait, once the file is written, until the test goes on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.may_go_on = threading.Event()

    def before_write(self, path: Path, *, tool: str, tool_call_id: str | None, follow: bool) -> None:
        """Keep nothing."""

    def after_write(self, path: Path) -> None:
        """Note nothing, slowly."""
        self.reached.set()
        self.may_go_on.wait(60)


async def test_a_file_that_is_there_when_the_call_is_cancelled_is_announced(world: Any, site: Any) -> None:
    """Cancelled when the file is written already, the call announces it all the same: the log has every write."""
    site.text("/x", "new")
    checkpoints = _SlowCheckpoints()
    world.coordinator.register_capability("session.checkpoint", checkpoints)
    heard: list[str] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        heard.append(data["path"])

    world.coordinator.hooks.register("artifact:write", hear)
    task = asyncio.create_task(world.fetch(site.url("/x"), save_to_file="x.txt"))
    assert await asyncio.to_thread(checkpoints.reached.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    checkpoints.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (world.folder / "x.txt").read_text(encoding="utf-8") == "new"
    assert heard == [str(world.folder / "x.txt")]


async def test_a_file_that_changes_meanwhile_is_not_overwritten(world: Any, site: Any) -> None:
    """What somebody else wrote during the download is not lost."""
    file = world.folder / "x.txt"
    file.write_text("old", encoding="utf-8")

    def meddle(handler: Any) -> None:
        file.write_text("theirs, and longer", encoding="utf-8")
        handler.send_response(200)
        handler.send_header("Content-Length", "1")
        handler.end_headers()
        handler.wfile.write(b"x")

    site.answers["/x"] = meddle
    assert (await world.fetch(site.url("/x"), save_to_file="x.txt")).error["code"] == "changed_meanwhile"
    assert file.read_text(encoding="utf-8") == "theirs, and longer"
