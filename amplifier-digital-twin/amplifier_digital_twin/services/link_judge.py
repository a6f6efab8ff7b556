"""Where an index may lead: a page or a redirect can name any address, and the host asks with its own rights."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from amplifier_digital_twin.services.endpoints import bracketed, is_address, is_ordinary, is_own, is_public
from amplifier_foundation.sources.download import proxy_for

#: How long the addresses of a name are remembered, in seconds: an installation asks for one name a hundred times.
_REMEMBERED: Final = 60.0


class LinkRefusedError(Exception):
    """An address may not be asked; the text says why."""


class Judged(NamedTuple):
    """Where to connect, and what the server has to be told when that is not in the address."""

    url: str
    headers: Mapping[str, str] = {}
    extensions: Mapping[str, str] = {}


class LinkJudge:
    """Judges the addresses that the indexes of a host lead to.

    The indexes themselves may be anywhere. Whatever they lead to must be the internet's, or, where an index is itself
    in a private network, a neighbour; never this machine, nor where clouds hand out credentials.
    """

    def __init__(self, indexes: frozenset[str], environ: Mapping[str, str]) -> None:
        """`indexes` are their hosts, with a port where it is not the usual one."""
        self._indexes = indexes
        self._environ = environ
        self._private: bool | None = None
        #: Names → when they were asked for, and the question, which may still be under way.
        self._names: dict[str, tuple[float, asyncio.Task[list[str]]]] = {}

    async def judged(self, url: str) -> Judged:
        """Return where to connect for an address; raise LinkRefusedError, or OSError for a name that is unknown."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        place = parts.netloc.rpartition("@")[2]
        if place.lower() in self._indexes or proxy_for(url, self._environ) is not None:
            return Judged(url)
        addresses = [host] if is_address(host) else await self._addresses(host)
        may_be_near = await self._is_private()
        good = [
            address
            for address in addresses
            if is_ordinary(address) and not is_own(address) and (may_be_near or is_public(address))
        ]
        if not good:
            raise LinkRefusedError("its address is of a private or special network, or of this machine itself")
        # The address that was looked at is the one that is connected to: a name may mean another one the next time.
        netloc = bracketed(good[0]) + (f":{parts.port}" if parts.port else "")
        return Judged(urlunsplit(parts._replace(netloc=netloc)), {"Host": place}, {"sni_hostname": host})

    async def _is_private(self) -> bool:
        """Tell whether an index of the host is in a private network."""
        if self._private is None:
            names = {urlsplit(f"//{netloc}").hostname or "" for netloc in self._indexes}
            found = [address for name in names for address in await self._addresses(name)]
            self._private = any(not is_public(address) for address in found)
        return self._private

    async def _addresses(self, host: str) -> list[str]:
        """Return the addresses of a name; raise OSError, which is not remembered."""
        asked, question = self._names.get(host, (0.0, None))
        is_over = question is not None and question.done() and (question.cancelled() or question.exception())
        if question is None or is_over or time.monotonic() - asked > _REMEMBERED:
            question = asyncio.create_task(_resolve(host))
            self._names[host] = (time.monotonic(), question)
        # Others may wait for the same answer: one that gives up must not take it from them.
        return await asyncio.shield(question)


async def _resolve(host: str) -> list[str]:
    import socket

    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(place[4][0]) for place in found))
