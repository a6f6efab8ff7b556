"""The server that tests of providers talk to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from amplifier_core.testing import wait_for
from amplifier_testing.llm import Heard, ModelServer, Reply, sse


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Give a running server."""
    with ModelServer() as server:
        yield server


async def test_scripts_by_path(server: ModelServer) -> None:
    """Each path has its own script, whose last reply is repeated; functions see what was heard."""
    server.answers(Reply.json(1), Reply.json(2), path="/a")
    server.answers(lambda heard: Reply.json({"got": heard.json, "by": heard.method}), path="/a/b")
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        assert [(await client.get("/a")).json() for _ in range(3)] == [1, 2, 2]
        assert (await client.post("/a/b", json=[1])).json() == {"got": [1], "by": "POST"}
        assert (await client.get("/c")).status_code == 404
    assert [heard.path for heard in server.requests] == ["/a", "/a", "/a", "/a/b", "/c"]
    assert server.bodies == [[1]]
    server.clear()
    assert server.requests == []


async def test_connections_are_kept(server: ModelServer) -> None:
    """Several requests go over one connection, also with bodies sent in chunks."""
    server.answers(Reply.json("ok"))

    async def body() -> object:
        yield b"[1,"
        yield b"2]"

    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        for _ in range(20):
            await client.post("/", content=body())  # type: ignore[arg-type]
        assert server.connections == 1
    assert server.bodies == [[1, 2]] * 20
    assert await wait_for(lambda: server.connections == 0, timeout=60)


async def test_events(server: ModelServer) -> None:
    """Events are framed as browsers read them, and bytes may be cut anywhere."""
    stream = Reply.stream([sse({"a": "ü"}, "x"), sse("two\nlines")])
    server.answers(stream, stream.split(1))
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        for _ in range(2):
            assert (await client.get("/")).text == 'event: x\ndata: {"a": "ü"}\n\ndata: two\ndata: lines\n\n'


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply.stream([b"a", b"b"]).cut(1), httpx2.RemoteProtocolError),
        (Reply.stream([b"a", b"b"]).stalled(1), httpx2.ReadTimeout),
        (Reply.hang(), httpx2.ReadTimeout),
    ],
)
async def test_faults(server: ModelServer, reply: Reply, error: type[Exception]) -> None:
    """Connections break, stall and hang as scripted."""
    server.answers(reply)
    waits = httpx2.Timeout(60, read=0.3 if error is httpx2.ReadTimeout else 60)
    async with httpx2.AsyncClient(base_url=server.url, timeout=waits) as client:
        with pytest.raises(error):
            await client.get("/")


async def test_a_body_that_ends_early(server: ModelServer) -> None:
    """A truncated body ends properly, which is what makes it treacherous."""
    server.answers(Reply.stream([b"a", b"b"]).truncated(1), Reply.page(403).with_headers(retry_after="1"))
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        assert (await client.get("/")).text == "a"
        page = await client.get("/")
    assert (page.status_code, page.headers["retry-after"]) == (403, "1")
    assert "<html>" in page.text


async def test_clients_that_leave(server: ModelServer) -> None:
    """An answer that the client did not wait for is counted."""
    server.answers(Reply.hang())
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        task = asyncio.create_task(client.get("/"))
        assert await wait_for(lambda: len(server.requests) == 1, timeout=60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await wait_for(lambda: server.disconnects == 1, timeout=60)


def test_heard() -> None:
    """A request without a body has no JSON."""
    assert Heard("GET", "/", {}, b"").json is None
