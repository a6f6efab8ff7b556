"""Requests to services inside a twin, made by the host through the twin's own network."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from amplifier_digital_twin.backends.twin import Sockets
from amplifier_digital_twin.checks.comparison import difference
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import HttpProbe
from amplifier_digital_twin.services.addresses import GATEWAY

#: How much of an answer is read.
MAX_BODY: Final = 4 * 1024 * 1024
_INSIDE: Final = ("localhost", "127.0.0.1")
_CHUNK: Final = 64 * 1024


class Answer(NamedTuple):
    """What a service said."""

    status: int
    body: bytes
    is_cut: bool


async def check_http(probe: HttpProbe, sockets: Sockets, timeout: float) -> tuple[str, Answer | None]:
    """Return why the answer is not the expected one (nothing when it is), and the answer; a redirect is no success."""
    try:
        async with asyncio.timeout(timeout):
            answer = await fetch(probe.url, sockets, timeout)
    except TimeoutError:
        return f"{probe.url}: no answer within {timeout:g} s", None
    except (OSError, TwinError) as error:
        return f"{probe.url}: {error}", None
    return judge(probe, answer), answer


def judge(probe: HttpProbe, answer: Answer) -> str:
    """Return why an answer is not the expected one; nothing when it is."""
    if probe.expect_status is None and not 200 <= answer.status < 300:
        return f"{probe.url}: the status is {answer.status}, not a success"
    if probe.expect_status is not None and answer.status != probe.expect_status:
        return f"{probe.url}: the status is {answer.status}, not {probe.expect_status}"
    if probe.expect_text is not None and probe.expect_text not in answer.body.decode("utf-8", "replace"):
        return f"{probe.url}: the answer does not contain {probe.expect_text!r}"
    if probe.expect_json is None:
        return ""
    try:
        found = difference(probe.expect_json, json.loads(answer.body))
    except (ValueError, RecursionError):
        found = "the answer is no JSON"
    return f"{probe.url}: {found}" if found else ""


async def fetch(url: str, sockets: Sockets, timeout: float) -> Answer:
    """Make one GET request; hosts other than the twin itself are asked through its gateway.

    Raises OSError when nobody answers, TwinError for what is no HTTP or an address that cannot be asked.
    """
    parts = urlsplit(url)
    if parts.scheme != "http":
        raise TwinError(
            "check_failed", "only http:// can be asked from outside", "use a command with curl for the rest"
        )
    port = parts.port or 80
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.hostname in _INSIDE:
        connection = await sockets.connect("127.0.0.1", port, timeout)
    else:
        connection = await sockets.connect(*GATEWAY, timeout)
        path = f"http://{parts.netloc}{path}"
    try:
        connection.setblocking(False)
        return await _exchange(connection, parts.netloc, path)
    finally:
        connection.close()


async def _exchange(connection: socket.socket, host: str, target: str) -> Answer:
    import h11

    loop = asyncio.get_running_loop()
    wire = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("Accept", "*/*"), ("Connection", "close"), ("User-Agent", "amplifier-digital-twin")]
    try:
        request = h11.Request(method="GET", target=target, headers=headers)
        await loop.sock_sendall(connection, (wire.send(request) or b"") + (wire.send(h11.EndOfMessage()) or b""))
        status, body = 0, bytearray()
        while True:
            event: Any = wire.next_event()
            if event is h11.NEED_DATA:
                wire.receive_data(await loop.sock_recv(connection, _CHUNK))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    return Answer(status, bytes(body[:MAX_BODY]), True)
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                return Answer(status, bytes(body), False)
    except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
        raise TwinError("check_failed", f"what answers does not speak HTTP: {error}", "look at the service") from error
