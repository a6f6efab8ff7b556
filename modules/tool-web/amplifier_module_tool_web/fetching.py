"""One fetch: follow redirects within one deadline, and check every address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from amplifier_kit.guard.network import MalformedError, Target, parse_url
from amplifier_module_tool_web.client import Answer, Client
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.failure import Failure
from amplifier_module_tool_web.permission import Permission

T = TypeVar("T")

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Fetching:
    """What one call of the tool does on the network. Its deadline does not count the time a person thinks."""

    def __init__(
        self, client: Client, domains: Domains, permission: Permission, *, timeout: float, max_redirects: int
    ) -> None:
        self._client = client
        self._domains = domains
        self._permission = permission
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
            async with self._within_deadline(target), self._client.get(target) as answer:
                location = answer.headers.get("location") if answer.status in _REDIRECTS else None
                if location is None:
                    _check_status(answer)
                    return await read(answer)
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
            await self._permission.need("network.fetch", what, host=following.host, url=str(following))
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


def _check_status(answer: Answer) -> None:
    if answer.status == 200:
        return
    said = f"{answer.status} {answer.reason}".rstrip()
    later = answer.headers.get("retry-after", "")
    again = f"; it may be tried again after {later[:60]} (Retry-After)" if later else ""
    raise Failure("http_status", f"{answer.target}: the server answered {said}{again}", status=answer.status)
