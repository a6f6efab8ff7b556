"""One fetch: follow redirects within one deadline, check every address, and read a bounded body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx2

from amplifier_kit.guard.network import MalformedError, Target, parse_url
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_web.call import Call, Failure
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.domains import Domains

T = TypeVar("T")


class Answer(NamedTuple):
    """A response, and the target at the end of all redirects that it came from."""

    target: Target
    response: httpx2.Response

    @property
    def content_type(self) -> str:
        """Return the type as the server wrote it, cut to a reasonable length."""
        return str(self.response.headers.get("content-type", ""))[:200]

    @property
    def announced_size(self) -> int | None:
        """Return how many bytes the server said that it would send."""
        text = self.response.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


class Download:
    """The requests of one call. The deadline does not count the time that a person thinks about an approval."""

    def __init__(self, client: Client, domains: Domains, call: Call, *, timeout: float, max_redirects: int) -> None:
        self._client = client
        self._domains = domains
        self._call = call
        self._timeout = timeout
        self._left = timeout
        self._max_redirects = max_redirects

    def target(self, url: str) -> Target:
        """Return what a URL asks for; raise Failure for one that must not be fetched."""
        try:
            target = parse_url(url)
        except MalformedError as error:
            raise Failure("invalid_url", f"{url[:500]!r} is not fetched: {error}") from error
        self._domains.check(target.endpoint)
        return target

    async def run(self, target: Target, read: Callable[[Answer], Awaitable[T]]) -> T:
        """Return what `read` makes of the answer that all redirects lead to; raise Failure.

        The session was asked for this target already, as it stands in the tool's input; for other hosts it is asked.
        """
        asked, permitted = target, {target.host}
        for _ in range(self._max_redirects + 1):
            async with self._within_deadline(target), self._client.send(target) as response:
                if not response.has_redirect_location:
                    check_status(target, response)
                    return await read(Answer(target, response))
                location = response.headers["location"]
            target = await self._next(target, location, permitted)
        raise Failure(
            "too_many_redirects", f"{asked}: more than {self._max_redirects} redirects, the last one to {target}"
        )

    async def _next(self, target: Target, location: str, permitted: set[str]) -> Target:
        try:
            following = target.joined(location)
        except MalformedError as error:
            raise Failure("invalid_url", f"{target} leads to {location[:500]!r}, not fetched: {error}") from error
        if target.scheme == "https" and following.scheme != "https":
            raise Failure(
                "insecure_redirect", f"{target} leads from an encrypted connection to an open one, {following}: refused"
            )
        self._domains.check(following.endpoint)
        if following.host not in permitted:
            what = f"{target} leads to {following}, and fetching from {following.host}"
            await self._call.need("network.fetch", what, host=following.host, url=str(following))
            permitted.add(following.host)
        return following

    @asynccontextmanager
    async def _within_deadline(self, target: Target) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        start = loop.time()
        deadline = asyncio.timeout(max(self._left, 0))
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Failure("timeout", f"{target}: not done after {self._timeout:g} s") from None
        finally:
            self._left -= loop.time() - start


def check_status(target: Target, response: httpx2.Response) -> None:
    """Raise Failure for every status but 200."""
    if response.status_code == 200:
        return
    said = f"{response.status_code} {response.reason_phrase}".rstrip()
    later = response.headers.get("retry-after", "")
    again = f"; it may be tried again after {later[:60]} (Retry-After)" if later else ""
    raise Failure("http_status", f"{target}: the server answered {said}{again}", status=response.status_code)


class Body(NamedTuple):
    """The bytes of an answer, and whether these are all."""

    data: bytes
    is_whole: bool


async def read_body(answer: Answer, limit: int, call: Call) -> Body:
    """Return the body's first `limit` bytes, unpacked by httpx2; raise Failure for an unknown or broken packing."""
    target, response = answer
    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing not in ("", "identity", "gzip"):
        # httpx2 would hand out what it cannot unpack as if it were the text.
        raise Failure(
            "unsupported_encoding", f"{target}: the answer is packed as {packing[:40]!r}, which was not asked for"
        )
    trailer = response.stream = _Trailer(response.stream)
    data = bytearray()
    async with aclosing(response.aiter_bytes()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > limit:
                return Body(bytes(data[:limit]), False)
            await call.report(str(target), response.num_bytes_downloaded, answer.announced_size)
    if packing == "gzip" and trailer.last and int.from_bytes(trailer.last, "little") != len(data) % 2**32:
        raise Failure("broken_answer", f"{target}: the packed answer ends in the middle, or has several parts")
    return Body(bytes(data), True)


class _Trailer(httpx2.AsyncByteStream):
    """Keeps the last four bytes: the length that gzip notes at its end, which httpx2 does not compare."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.last = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self.last = (self.last + chunk[-4:])[-4:]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
