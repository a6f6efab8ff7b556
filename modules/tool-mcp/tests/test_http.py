"""Addresses behind which there is no proper server: each is told with what it answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Session = Any


class Handler(BaseHTTPRequestHandler):
    """Answer every request in a way that the path names, and remember the headers."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        self.seen.append(dict(self.headers.items()))
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/denied":
            self._answer(401, "text/plain", b"no")
        elif self.path == "/page":
            self._answer(200, "text/html", b"<html>")
        elif self.path == "/nonsense":
            self._answer(200, "application/json", b"{oops")
        elif self.path == "/events":
            self._send_events()
        else:
            self._answer(200, "application/json", b'"' + b"x" * (3 << 20) + b'"')

    def _send_events(self) -> None:
        """Send notifications for as long as anybody reads them."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        event = b'event: message\ndata: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'
        try:
            while True:
                self.wfile.write(event * 100)
        except OSError:
            self.close_connection = True

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # nobody reads it to its end

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def odd_web() -> Iterator[ThreadingHTTPServer]:
    """Return a server on loopback."""
    Handler.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/denied", "/page", "/nonsense", "/huge", "/events"])
async def test_no_proper_server(
    session: Session, odd_web: ThreadingHTTPServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails with a reason, bounded in time and size; its headers were sent, and are not told."""
    monkeypatch.setenv("WEB_TOKEN", "the-token-of-the-web")
    entry = {
        "url": f"http://127.0.0.1:{odd_web.server_address[1]}{path}",
        "headers": {"Authorization": "Bearer ${WEB_TOKEN}"},
        "connect_timeout": 60,
    }
    await session.open({"web": entry}, retry={"attempts": 1}, max_message_bytes=1 << 20)
    told = await session.told("failed")
    assert told["reason"]
    if path in ("/huge", "/events"):
        assert told["code"] == "flood"
    assert Handler.seen[0]["Authorization"] == "Bearer the-token-of-the-web"
    assert "the-token-of-the-web" not in session.everything_said()


@pytest.mark.parametrize("url", ["not a url", "ftp://127.0.0.1/x", "http://", "${NO_SUCH_VARIABLE}"])
async def test_no_address(session: Session, url: str) -> None:
    """What is no address is told, and not tried again."""
    await session.open({"web": {"url": url}}, retry={"attempts": 3, "initial_delay": 0.01})
    told = await session.told("failed")
    assert told["reason"]
    assert told["retry_in"] is None
