"""The client at the other end of a connection: its requests one after the other, and short answers in words."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

import h11

from amplifier_digital_twin.services.bounds import Bounds
from amplifier_digital_twin.services.http_wire import Peer, Wire


class BadRequestError(Exception):
    """What the client sent is no request that can be answered; `status` says of which kind."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class GoneError(Exception):
    """The client went away, or broke off, in the midst of a request."""


@dataclass
class Seat:
    """A connection's place among those that are served; one that only waits for a next request can be given up."""

    #: Time of the loop since when the client has asked for nothing, None while it is served.
    idle_since: float | None = None


class Caller(Peer):
    """The server's side of HTTP/1.1."""

    def __init__(self, wire: Wire, seat: Seat, bounds: Bounds) -> None:
        super().__init__(wire, h11.SERVER, bounds)
        self.seat = seat
        self._is_head = False

    async def next_request(self) -> h11.Request | None:
        """Return the head of the next request, None when there is none; raise BadRequestError."""
        try:
            if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
                self.http.start_next_cycle()
            if self.http.our_state is not h11.IDLE or not await self._has_begun():
                return None
            async with asyncio.timeout(self.bounds.head_seconds):
                event = await self.next_event(self.bounds.head_seconds)
        except h11.RemoteProtocolError as error:
            raise BadRequestError(error.error_status_hint, f"is not HTTP as this service speaks it: {error}") from error
        except TimeoutError as error:
            said = f"was not complete after {self.bounds.head_seconds:g} s"
            raise BadRequestError(HTTPStatus.REQUEST_TIMEOUT, said) from error
        except OSError:
            return None  # the client broke off before it had asked for anything
        if not isinstance(event, h11.Request):
            return None
        self._is_head = event.method == b"HEAD"
        _check(event)
        if not _has_body(event):
            self.http.next_event()  # the end, which needs no more bytes
        return event

    async def _has_begun(self) -> bool:
        """Wait for the first byte of a request, no longer than a connection may be idle."""
        if self.http.trailing_data[0]:
            return True
        self.seat.idle_since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.bounds.idle_seconds):
                data = await self.wire.recv()
        except (TimeoutError, OSError):
            return False
        finally:
            self.seat.idle_since = None
        self.http.receive_data(data)
        return bool(data)

    async def body(self) -> bytes | None:
        """Return the next piece of the request's body, None at its end; raise GoneError."""
        if self.http.their_state is not h11.SEND_BODY:
            return None
        if self.http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            event = await self.next_event(self.bounds.stall_seconds)
        except (h11.RemoteProtocolError, OSError) as error:  # a TimeoutError is an OSError
            raise GoneError from error
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def until_gone(self) -> None:
        """Return when the client sends ahead of time; raise GoneError when it leaves before it was answered."""
        if self.http.trailing_data[0]:
            return
        try:
            data = await self.wire.recv()
        except OSError as error:
            raise GoneError from error
        self.http.receive_data(data)
        if not data:
            raise GoneError

    async def answer(self, status: int, text: str, reason: str = "") -> None:
        """Answer in words instead of with what was asked for; whoever is gone already misses them."""
        content = text.encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(content)))]
        if self.http.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR):
            headers.append(("Connection", "close"))
        phrase = reason or HTTPStatus(status).phrase
        try:
            await self.send(h11.Response(status_code=status, headers=headers, reason=phrase.encode()))
            if not self._is_head:
                await self.send(h11.Data(data=content))
            await self.send(h11.EndOfMessage())
        except (OSError, h11.LocalProtocolError) as error:
            raise GoneError from error

    async def finish(self) -> None:
        """End the connection so that the client can still read the answer, even when it goes on sending."""
        try:
            async with asyncio.timeout(self.bounds.linger_seconds):
                await self.wire.send_eof()
                while await self.wire.recv():
                    pass
        except OSError:
            pass  # it had its chance
        self.wire.close()


def _has_body(request: h11.Request) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value)) for name, value in request.headers
    )


def _check(request: h11.Request) -> None:
    """Refuse what two servers in a row could read differently."""
    names = [name for name, _ in request.headers]
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadRequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "is of a version of HTTP that is not spoken here")
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "gives two lengths of its body")
