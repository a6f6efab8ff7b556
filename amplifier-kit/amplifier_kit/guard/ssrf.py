"""Connections to hosts: a name is resolved once, its addresses are checked, and exactly those are connected to."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from amplifier_kit.guard.network import Endpoint, is_address, is_ordinary, is_public, meant, parse_host

T = TypeVar("T")
#: Returns the addresses of a host name; raises OSError for a name without any.
Resolve = Callable[[str], Awaitable[Sequence[str]]]
#: Returns whether an address may be connected to.
Judge = Callable[[str], bool]

#: How many seconds one of several addresses may take before the next is tried.
_ATTEMPT: Final = 3.0
#: How many addresses of one name are tried.
_MOST: Final = 8


async def resolve(host: str) -> Sequence[str]:
    """Return the addresses of a name in the order in which the system would try them; raise OSError for none.

    A cancelled caller does not wait. The call cannot be cancelled, so it ends in a separate thread, which delays
    neither the loop's shared threads nor the end of the program.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def run() -> None:
        try:
            loop.call_soon_threadsafe(_deliver, answer, _look_up(host))
        except RuntimeError:
            pass  # the loop was closed, and with it the caller

    threading.Thread(target=run, name="amplifier-resolve", daemon=True).start()
    return await answer


def _look_up(host: str) -> list[str] | OSError:
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except Exception as error:
        # UnicodeError for an invalid name: to the caller a name without an address, like the others.
        return OSError(str(error))
    return list(dict.fromkeys(str(place[4][0]) for place in places))


def _deliver(answer: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
    if answer.done():
        return  # the caller was cancelled
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)


class AddressRefusedError(Exception):
    """All of a host's addresses are of a kind that must not be connected to."""


class Guard:
    """Connects to hosts of the internet, and to nothing else.

    What `private_hosts` lists (`host` or `host:port`) may also lie in a private network or on this machine, but never
    where clouds hand out credentials. `refuse` names further addresses to stay away from. `resolve` and `judge` stand
    in for the system's resolver and for the judgement itself: for tests, which have only this machine's addresses.
    """

    def __init__(
        self,
        private_hosts: Iterable[str] = (),
        *,
        refuse: Judge | None = None,
        resolve: Resolve = resolve,
        judge: Judge | None = None,
    ) -> None:
        self._private_hosts = frozenset(private_hosts)
        self._refuse = refuse
        self._resolve = resolve
        self._judge = judge

    async def addresses(self, endpoint: Endpoint) -> Sequence[str]:
        """Return the addresses that may be connected to. Connect to these: a second lookup may return others.

        Raises AddressRefusedError when there are only others, OSError when there are none, MalformedError for a host
        that can be read in two ways.
        """
        host = parse_host(f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host)
        found = [host] if is_address(host) else list(await self._resolve(host))
        if not found:
            raise OSError("the name has no address")
        good = [address for address in found if self._is_good(endpoint, address)]
        if not good:
            raise AddressRefusedError(
                f"{host} leads to {found[0]}, which is an address of a private or special network, or of this machine"
                if found[0] != host
                else f"{host} is an address of a private or special network, or of this machine"
            )
        return good[:_MOST]

    async def reach(self, endpoint: Endpoint, attempt: Callable[[str], Awaitable[T]]) -> T:
        """Return the result of `attempt` for the first address that answers; it raises OSError for one that does not.

        It gets addresses, one after the other, and no name to resolve. Raises like `addresses`, and the last OSError
        when no address answers.
        """
        addresses = await self.addresses(endpoint)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_ATTEMPT):
                    return await attempt(address)
            except OSError:  # a timeout is one
                pass  # another address may answer
        return await attempt(addresses[-1])

    def _is_good(self, endpoint: Endpoint, address: str) -> bool:
        try:
            if self._refuse is not None and self._refuse(address):
                return False
            if endpoint.host in self._private_hosts or str(endpoint) in self._private_hosts:
                return is_ordinary(address)
            if self._judge is not None:
                return self._judge(address)
            return is_public(address) and not is_own(address)
        except ValueError:
            return False  # not an address


def is_own(address: str) -> bool:
    """Return whether an address belongs to this machine (no packet is sent)."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            own = str(probe.getsockname()[0])
    except OSError:
        return False  # not reachable at all, which connecting will find out
    return meant(own) == meant(address)
