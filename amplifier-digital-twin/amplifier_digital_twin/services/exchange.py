"""One HTTP request on its way to a server and the answer on its way back, both at once, neither kept whole."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import h11

from amplifier_digital_twin.services.caller import Caller, GoneError
from amplifier_digital_twin.services.http_wire import Peer
from amplifier_digital_twin.services.upstream import Line

#: Headers of one connection, not of the message; those that `Connection` names come on top.
_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
        b"expect",
    }
)


class BrokenError(Exception):
    """The answer broke off after it had begun: the client must not take it for whole."""


class Exchange:
    """One request on its way out and its answer on its way back, both at once."""

    def __init__(self, caller: Caller, server: Peer, line: Line) -> None:
        self._caller = caller
        self._server = server
        self._line = line

    async def run(self, head: h11.Request) -> None:
        """Carry both to their end; raise GoneError when the client leaves, BrokenError when the server does."""
        try:
            await self._server.send(head)
        except OSError as error:
            return await self._break_off(error)
        upload = asyncio.create_task(self._upload())
        download = asyncio.create_task(self._download())
        try:
            await asyncio.wait({upload, download}, return_when=asyncio.FIRST_COMPLETED)
            if upload.done() and isinstance(upload.exception(), GoneError):
                raise GoneError
            # A server may answer and hang up before it has read everything: what it said counts.
            return await download
        finally:
            for task in (upload, download):
                task.cancel()
            await asyncio.gather(upload, download, return_exceptions=True)

    async def _upload(self) -> None:
        while (data := await self._caller.body()) is not None:
            await self._server.send(h11.Data(data=data))
        await self._server.send(h11.EndOfMessage())
        await self._caller.until_gone()

    async def _download(self) -> None:
        try:
            response = await self._response()
        except (h11.RemoteProtocolError, OSError) as error:
            return await self._break_off(error)
        length = length_of(response)
        is_counted = bool(length) and length[0][0] == b"Content-Length"
        headers = [*end_to_end(response), *(length if is_counted else [])]
        try:
            await self._caller.send(
                h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)
            )
            await self._body()
        except (h11.LocalProtocolError, OSError) as error:
            raise GoneError from error

        return None

    async def _break_off(self, error: Exception) -> None:
        said = str(error) or type(error).__name__
        await self._caller.answer(HTTPStatus.BAD_GATEWAY, f"The server broke off before it answered: {said}\n")

    async def _body(self) -> None:
        while True:
            try:
                event = await self._server.next_event(self._server.bounds.answer_seconds)
            except (h11.RemoteProtocolError, OSError) as error:
                raise BrokenError from error
            if not isinstance(event, h11.Data):
                return await self._caller.send(h11.EndOfMessage())
            await self._caller.send(h11.Data(data=event.data))

    async def _response(self) -> h11.Response:
        event = await self._server.next_event(self._server.bounds.answer_seconds)
        while isinstance(event, h11.InformationalResponse):
            event = await self._server.next_event(self._server.bounds.answer_seconds)
        if not isinstance(event, h11.Response):
            raise h11.RemoteProtocolError("the server hung up without an answer")
        if self._line.is_proxied and event.status_code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            raise h11.RemoteProtocolError("the host's proxy wants a password")
        return event


def end_to_end(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """Return the headers that belong to the message; how long its body is, is said anew."""
    dropped = set(_OF_THE_CONNECTION)
    for name, value in message.headers:
        if name == b"connection":
            dropped.update(item.strip().lower() for item in value.split(b","))
    names = zip(message.headers, message.headers.raw_items(), strict=True)
    return [raw for (name, _), raw in names if name not in dropped and name not in (b"host", b"content-length")]


def length_of(message: h11.Request | h11.Response) -> list[tuple[bytes, bytes]]:
    """Return the one header that says how long the body is, or none."""
    headers = dict(iter(message.headers))
    if b"transfer-encoding" in headers:
        return [(b"Transfer-Encoding", b"chunked")]
    return [(b"Content-Length", headers[b"content-length"])] if b"content-length" in headers else []
