"""Ask the system's resolver."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

#: Returns the addresses of a host name; raises OSError for a name without any.
Resolve = Callable[[str], Awaitable[Sequence[str]]]


async def resolve(host: str) -> Sequence[str]:
    """Return the addresses of a name in the order in which the system would try them; raise OSError for none.

    A cancelled caller does not wait: the question cannot be taken back, so it ends in a thread of its own, which
    holds up neither the loop's shared threads nor the end of the program.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        try:
            loop.call_soon_threadsafe(_tell, answer, _asked(host))
        except RuntimeError:
            pass  # the loop was closed: nobody waits for this any more

    threading.Thread(target=ask, name="amplifier-resolve", daemon=True).start()
    return await answer


def _asked(host: str) -> list[str] | OSError:
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except Exception as error:
        # UnicodeError for what is no name at all: to the caller a name without an address, like the others.
        return OSError(str(error))
    return list(dict.fromkeys(str(place[4][0]) for place in places))


def _tell(answer: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
    if answer.done():
        return  # the caller was cancelled
    if isinstance(found, OSError):
        answer.set_exception(found)
    else:
        answer.set_result(found)
