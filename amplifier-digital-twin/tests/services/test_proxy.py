"""Hosts that a profile rewrites, mocks or allows are reached through mitmproxy, and no other host is."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from amplifier_digital_twin.profile.model import Mock, Rewrite

#: One connection to a port of this machine on stdin and stdout, as `podman exec … socat` makes it to a container's.
CONNECT = """
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(sys.argv[-1].split(":")[-1])))
def forth():
    while piece := os.read(0, 65536): there.sendall(piece)
threading.Thread(target=forth, daemon=True).start()
while piece := there.recv(65536): os.write(1, piece)
"""


@pytest.fixture
async def target(serve_app: Any) -> AsyncIterator[str]:
    """Serve what tells what it was asked."""

    async def answer(request: Request) -> Response:
        return JSONResponse({"path": str(request.url.path), "host": request.headers["host"]})

    async with serve_app(Starlette(routes=[Route("/{path:path}", answer)])) as address:
        yield address


async def ask(universe: Any, url: str, bridge_to: Any, **headers: str) -> tuple[int, Any]:
    """Ask for a URL through the proxy, trusting what the container is told to trust."""
    import ssl

    context = ssl.create_default_context(cafile=str(universe.config.sockets / "ca-bundle.pem"))
    async with (
        bridge_to(universe.config.sockets / "proxy.sock") as port,
        httpx2.AsyncClient(proxy=f"http://127.0.0.1:{port}", verify=context, trust_env=False, timeout=60) as client,
    ):
        try:
            answer = await client.get(url, headers=headers)
        except httpx2.ProxyError as error:
            return 403, str(error)
        is_json = answer.headers.get("content-type", "") == "application/json"
        return answer.status_code, answer.json() if is_json else answer.text


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
async def test_refused_without_mitmproxy(start: Any, method: str) -> None:
    """Where a profile reaches no host, every request is refused at once and logged with the host it was for."""
    universe = await start()
    import asyncio

    reader, writer = await asyncio.open_unix_connection(universe.config.sockets / "proxy.sock")
    target = {"GET": "http://unlisted.example/x?secret=1", "CONNECT": "unlisted.example:443"}[method]
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: unlisted.example\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"network.allow" in answer
    (line,) = universe.log()
    assert (line["service"], line["host"], line["allowed"], "secret" in str(line)) == (
        *("proxy", "unlisted.example", False, False),
    )


async def test_rewrites_and_mocks(start: Any, target: str, bridge_to: Any) -> None:
    """Requests of rewritten HTTPS hosts go to their target; everything beside them is refused."""
    port = target.rpartition(":")[2]
    universe = await start(
        rewrites=(Rewrite(match="api.example.com/v1", target=f"{target}/base"),),
        mocks=(Mock(name="example", run="x", port=int(port), domains=("mocked.example.com",)),),
        inside=(sys.executable, "-c", CONNECT),
        allow=("private.example.com", f"127.0.0.2:{port}"),
    )
    status, said = await ask(universe, "https://api.example.com/v1/chat?x=1", bridge_to)
    assert (status, said["path"]) == (200, "/base/chat")
    status, said = await ask(universe, "http://API.example.com/v1", bridge_to)
    assert (status, said["path"], said["host"]) == (200, "/base", f"127.0.0.1:{port}")
    for url in (
        *("https://api.example.com/v1evil", "https://api.example.com/", "https://api.example.com.evil.example/v1"),
        *("https://api.example.com/v1/%2e%2e/other", "https://api.example.com:444/v1"),
        *("https://unlisted.example/", "http://unlisted.example/"),
    ):
        status, said = await ask(universe, url, bridge_to)
        assert status == 403, (url, said)
        assert not universe.log()[-1]["allowed"]
    # Decided by where it goes, whatever it says.
    assert (await ask(universe, "http://unlisted.example/", bridge_to, host="mocked.example.com"))[0] == 403
    status, said = await ask(universe, "https://mocked.example.com/a/b", bridge_to)
    assert (status, said["path"], said["host"]) == (200, "/a/b", "mocked.example.com")
    # Allowed by name, and still not this machine.
    assert (await ask(universe, f"http://127.0.0.2:{port}/x", bridge_to))[0] == 502
    assert "private or special network" in universe.log()[-2]["reason"]


async def test_mitmproxy_ends_with_the_services(start: Any) -> None:
    """No proxy is left when the services end, nor when they are killed."""
    for number in ("TERM", "KILL"):
        universe = await start(allow=("allowed.example",), name=f"end-{number}")
        rules = str(universe.config.state / "proxy" / "rules.json")
        assert _running(rules)
        universe.process.terminate() if number == "TERM" else universe.process.kill()
        await universe.process.wait()
        import asyncio

        for _ in range(100):
            if not _running(rules):
                break
            await asyncio.sleep(0.1)
        assert not _running(rules)


def _running(rules: str) -> list[str]:
    """Return the processes that were started with these rules."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"TWIN_PROXY={rules}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found
