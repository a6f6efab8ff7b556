"""What a hostile or slow server can do: nothing that lasts, nothing that grows."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

MEGABYTE = 1024 * 1024


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Return an event that servers wait for; it is set when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def start(handler: Any, **headers: str) -> None:
    handler.send_response(200)
    for name, value in ({"Content_Type": "text/plain"} | headers).items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


async def test_a_long_text_is_read_in_part(world: Any, site: Any) -> None:
    """Of a text over max_bytes the beginning is given, and it is said that there is more."""
    site.text("/long", "x" * 3000)
    output = (await world.fetch(site.url("/long"), {"max_bytes": 1000})).output
    assert output["total_bytes"] == 1000
    assert output["truncated"] is True
    assert "first 1,000 bytes" in output["warning"]


async def test_an_endless_text_ends(world: Any, site: Any) -> None:
    """A server that never stops sending is left when there is enough."""

    def endless(handler: Any) -> None:
        start(handler)
        while True:
            handler.wfile.write(b"x" * 65536)

    site.answers["/endless"] = endless
    output = (await world.fetch(site.url("/endless"), {"max_bytes": MEGABYTE})).output
    assert output["total_bytes"] == MEGABYTE


async def test_a_bomb_is_not_unpacked(world: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to a thousand times its size is unpacked up to the limit, and not a piece further."""
    pieces: list[int] = []
    iterate = httpx2.Response.aiter_bytes

    async def counted(self: httpx2.Response, chunk_size: int | None = None) -> Any:
        async for piece in iterate(self, chunk_size):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(httpx2.Response, "aiter_bytes", counted)
    site.text("/bomb", gzip.compress(b" " * (200 * MEGABYTE)), Content_Encoding="gzip")
    output = (await world.fetch(site.url("/bomb"), {"max_bytes": MEGABYTE})).output
    assert output["total_bytes"] == MEGABYTE
    assert max(pieces) <= MEGABYTE
    assert sum(pieces) <= 2 * MEGABYTE


@pytest.mark.parametrize("encoding", ["gzip, gzip", "deflate", "br", "zstd", "gzip, br", "compress"])
async def test_unknown_packings_are_refused(world: Any, site: Any, encoding: str) -> None:
    """A packing that was not asked for, or one inside the other, is not unpacked."""
    site.text("/x", gzip.compress(gzip.compress(b"x")), Content_Encoding=encoding)
    assert (await world.fetch(site.url("/x"))).error["code"] == "unsupported_encoding"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity"])
async def test_packed_texts_are_unpacked(world: Any, site: Any, encoding: str) -> None:
    """What was packed as it was asked for is read, also when nothing is in it."""
    for text in (b"one two", b""):
        data = text if encoding == "identity" else gzip.compress(text)
        site.text("/x", data, Content_Encoding=encoding)
        assert (await world.fetch(site.url("/x"))).output["content"] == text.decode()
    site.text("/x", b"", Content_Encoding=encoding)
    assert (await world.fetch(site.url("/x"))).output["content"] == ""


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"x" * 9999)[:-20],
        b"not packed at all",
        b"\x1f\x8b",
        gzip.compress(b"one ") + gzip.compress(b"two"),
    ],
    ids=["cut", "not packed", "begun", "in parts"],
)
async def test_broken_packings_are_failures(world: Any, site: Any, data: bytes) -> None:
    """What cannot be unpacked, or ends in the middle, is not given as if it were whole."""
    site.text("/x", data, Content_Encoding="gzip")
    assert (await world.fetch(site.url("/x"))).error["code"] == "broken_answer"


async def test_a_server_that_says_nothing(world: Any, site: Any, hold: threading.Event) -> None:
    """A server that does not answer is left at the deadline."""
    site.answers["/x"] = lambda handler: hold.wait(60)
    result = await world.fetch(site.url("/x"), {"timeout": 0.2})
    assert result.error["code"] == "timeout"
    assert "0.2 s" in result.output


async def test_a_server_that_drips(world: Any, site: Any, hold: threading.Event) -> None:
    """The deadline is for the whole fetch: one byte now and then does not prolong it."""

    def drip(handler: Any) -> None:
        start(handler, Content_Length="100000")
        while not hold.wait(0.02):
            handler.wfile.write(b"x")

    site.answers["/x"] = drip
    assert (await world.fetch(site.url("/x"), {"timeout": 0.5})).error["code"] == "timeout"


async def test_redirects_share_the_deadline(world: Any, site: Any, hold: threading.Event) -> None:
    """Each redirect takes from the same time."""

    def slow(handler: Any) -> None:
        hold.wait(0.2)
        handler.send_response(302)
        handler.send_header("Location", "/x")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    site.answers["/x"] = slow
    result = await world.fetch(site.url("/x"), {"timeout": 0.5, "max_redirects": 1000})
    assert result.error["code"] == "timeout"


async def test_the_time_a_person_thinks_does_not_count(world: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for permission is not waiting for a server."""

    thought: list[str] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + 1000 * len(thought))

    async def slowly(action: str, details: Any) -> str:
        thought.append(action)  # by the loop's clock for a quarter of an hour
        await asyncio.sleep(0)
        return "allow"

    world.coordinator.register_policy("slow", slowly)
    site.redirect("/a", site.url("/b", "other.example"))
    site.text("/b", "there")
    assert (await world.fetch(site.url("/a"), {"timeout": 60})).success
    assert len(thought) == 1


@pytest.mark.parametrize("announced", ["10", "-1", "many", "99999999999999999999999999"])
async def test_broken_answers(world: Any, site: Any, announced: str) -> None:
    """An answer that breaks off, or makes no sense, is a failure."""

    def broken(handler: Any) -> None:
        start(handler, Content_Length=announced)
        handler.wfile.write(b"abc")
        handler.close_connection = True

    site.answers["/x"] = broken
    result = await world.fetch(site.url("/x"))
    assert result.error["code"] == "unreachable"


@pytest.mark.parametrize("data", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000])
async def test_what_is_no_web_server(world: Any, data: bytes) -> None:
    """Whatever else listens, or sends headers without end, is a failure in words."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await world.fetch(f"http://site.example:{port}/")
    assert result.error["code"] == "unreachable"


async def test_nobody_listens(world: Any, site: Any) -> None:
    """A port where nobody listens is a failure that names the URL."""
    site.close()
    result = await world.fetch(site.url("/x"))
    assert result.error["code"] == "unreachable"
    assert site.url("/x") in result.output


async def test_an_unknown_name(world: Any) -> None:
    """A name without an address is a failure."""
    assert (await world.fetch("http://missing.example/")).error["code"] == "unreachable"


async def test_a_cancelled_fetch_leaves_nothing(world: Any, site: Any, hold: threading.Event) -> None:
    """A cancelled fetch passes the cancellation on, and its connection is closed."""
    closed = threading.Event()
    reached = threading.Event()

    def wait(handler: Any) -> None:
        start(handler, Content_Length="10")
        handler.wfile.flush()
        reached.set()
        if handler.connection.recv(1) == b"":
            closed.set()

    site.answers["/x"] = wait
    task = asyncio.create_task(world.fetch(site.url("/x"), {"timeout": 60}))
    assert await asyncio.to_thread(reached.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(closed.wait, 30)


async def test_long_downloads_tell_of_themselves(world: Any, site: Any, hold: threading.Event) -> None:
    """A download that takes a while emits tool:progress with what has arrived, at most twice a second."""

    def slow(handler: Any) -> None:
        start(handler, Content_Length="60")
        for _ in range(60):
            handler.wfile.write(b"x")
            hold.wait(0.02)

    site.answers["/x"] = slow
    started = time.monotonic()
    assert (await world.fetch(site.url("/x"), {"timeout": 60})).success
    seconds = time.monotonic() - started
    events = [data for _, data in world.events.get_events("tool:progress")]
    assert 1 <= len(events) <= 2 * seconds
    assert events[0]["tool_name"] == "web_fetch"
    assert events[0]["total_bytes"] == 60
    assert 0 < events[0]["bytes"] <= 60
    assert site.url("/x") in events[0]["message"]


async def test_short_downloads_do_not(world: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there before a word is due needs none."""
    monkeypatch.setattr("amplifier_module_tool_web.call._PAUSE", 3_600.0)
    site.text("/x", "x")
    await world.fetch(site.url("/x"))
    assert world.events.get_events("tool:progress") == []
