"""One scripted HTTP answer, and the ways in which it can go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

__all__ = ["Fault", "Reply", "sse"]

#: cut: the connection breaks. truncated: the body ends early, but properly. stalled: nothing more comes. hung: nothing
#: comes at all, not even a status.
Fault = Literal["cut", "truncated", "stalled", "hung"]

_REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
_FOR_EVER: Final = 3600.0


def sse(data: Any, event: str | None = None) -> bytes:
    """Return one server-sent event; data that is not text is sent as JSON."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    name = f"event: {event}\n" if event is not None else ""
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"{name}{lines}\n".encode()


@dataclass(frozen=True)
class Reply:
    """Say what the server sends: a status, headers, and a body in pieces; and how it fails on the way."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: tuple[bytes, ...] = ()
    fault: Fault | None = None
    #: How many pieces are sent before the fault.
    after: int = 0
    #: Seconds before the first and before each further piece.
    wait: float = 0.0
    delay: float = 0.0
    #: Whether the body is streamed in chunks; else it has a length.
    is_chunked: bool = False

    # -- making replies --

    @classmethod
    def json(cls, value: Any, status: int = 200, **headers: str) -> Reply:
        """Return a reply with a JSON body; `retry_after="3"` gives the header `retry-after`."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(status, {"content-type": "application/json", **named}, (json.dumps(value).encode(),))

    @classmethod
    def error(cls, status: int, body: Any, **headers: str) -> Reply:
        """Return a refusal."""
        return cls.json(body, status, **headers)

    @classmethod
    def page(cls, status: int = 403, text: str = "Checking your browser") -> Reply:
        """Return a web page, as gateways send it in place of an answer."""
        html = f"<!DOCTYPE html><html><body>{text}</body></html>".encode()
        return cls(status, {"content-type": "text/html"}, (html,))

    @classmethod
    def stream(cls, events: Iterable[bytes], content_type: str = "text/event-stream", **headers: str) -> Reply:
        """Return a streamed body, one chunk per event."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls(200, {"content-type": content_type, **named}, tuple(events), is_chunked=True)

    @classmethod
    def hang(cls) -> Reply:
        """Send nothing, forever."""
        return cls(fault="hung")

    # -- changing them --

    def cut(self, after: int) -> Reply:
        """Break the connection after this many pieces."""
        return replace(self, fault="cut", after=after)

    def truncated(self, after: int) -> Reply:
        """End the body properly after this many pieces."""
        return replace(self, fault="truncated", after=after)

    def stalled(self, after: int) -> Reply:
        """Send this many pieces, and then nothing forever."""
        return replace(self, fault="stalled", after=after)

    def slow(self, delay: float, wait: float = 0.0) -> Reply:
        """Pause before each piece, and before the status."""
        return replace(self, delay=delay, wait=wait)

    def split(self, size: int = 1) -> Reply:
        """Send the same bytes in chunks of `size`."""
        whole = b"".join(self.pieces)
        return replace(self, pieces=tuple(whole[at : at + size] for at in range(0, len(whole), size)))

    def inserted(self, at: int, *pieces: bytes) -> Reply:
        """Put more pieces in."""
        return replace(self, pieces=(*self.pieces[:at], *pieces, *self.pieces[at:]))

    def with_headers(self, **headers: str) -> Reply:
        """Add headers; `retry_after` is `retry-after`."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return replace(self, headers={**self.headers, **named})

    # -- sending --

    async def send(self, writer: asyncio.StreamWriter) -> bool:
        """Send it; return whether the connection can be used again."""
        if self.fault == "hung":
            await asyncio.sleep(_FOR_EVER)
        await asyncio.sleep(self.wait)
        writer.write(self._head())
        sent = self.pieces if self.fault is None else self.pieces[: self.after]
        for number, piece in enumerate(sent):
            await self.pause(number)
            writer.write(self._framed(piece))
            await writer.drain()
        if self.fault == "stalled":
            await asyncio.sleep(_FOR_EVER)
        if self.fault == "cut":
            return False
        if self.is_chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def pause(self, number: int) -> None:
        """Wait before the piece of this number."""
        if self.delay:
            await asyncio.sleep(self.delay)

    def _framed(self, piece: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(piece), piece) if self.is_chunked else piece

    def _head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Status')}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.is_chunked:
            lines.append("transfer-encoding: chunked")
        else:
            lines.append(f"content-length: {sum(map(len, self.pieces))}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
