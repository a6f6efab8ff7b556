"""Requests to services inside."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from amplifier_digital_twin.checks.http import check_http
from amplifier_digital_twin.profile.model import HttpProbe
from amplifier_digital_twin.services.addresses import GATEWAY


async def _problem(context: Any, url: str, timeout: float = 20.0, **parts: Any) -> str:
    return (await check_http(HttpProbe(url, **parts), context.sockets, timeout))[0]


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/", {}),
        ("/", {"expect_text": "welcome"}),
        ("/json", {"expect_json": {"status": "ok", "parts": [1, 3]}}),
        ("/nowhere", {"expect_status": 404}),
        ("/moved", {"expect_status": 302}),
    ],
)
async def test_answers_as_expected(context: Any, server: str, path: str, parts: dict[str, Any]) -> None:
    """Each expectation by itself holds."""
    assert await _problem(context, server + path, **parts) == ""


@pytest.mark.parametrize(
    ("path", "parts", "words"),
    [
        ("/nowhere", {}, "the status is 404, not a success"),
        ("/moved", {}, "the status is 302, not a success"),
        ("/", {"expect_status": 201}, "the status is 200, not 201"),
        ("/", {"expect_text": "farewell"}, "does not contain 'farewell'"),
        ("/", {"expect_json": {}}, "the answer is no JSON"),
        ("/json", {"expect_json": {"status": "bad"}}, 'status is "ok", not "bad"'),
    ],
)
async def test_answers_not_as_expected(context: Any, server: str, path: str, parts: Any, words: str) -> None:
    """Each expectation can fail, and says how."""
    assert words in await _problem(context, server + path, **parts)


async def test_large_answers_are_cut(context: Any, server: str) -> None:
    """No service can fill the host's memory."""
    _, answer = await check_http(HttpProbe(f"{server}/big"), context.sockets, 20.0)
    assert answer is not None
    assert (answer.is_cut, len(answer.body)) == (True, 4 * 1024 * 1024)


async def test_nobody_answers(context: Any) -> None:
    """A port that nobody listens on is a problem in words."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "refused" in (await _problem(context, f"http://localhost:{port}/")).lower()


@pytest.mark.parametrize(("says", "words"), [(b"SSH-2.0-x\r\n\r\n", "does not speak HTTP"), (b"", "no answer within")])
async def test_other_services_are_no_web(context: Any, says: bytes, words: str) -> None:
    """What speaks something else, or nothing, is a problem and no hang."""

    answered = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        answered.set()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        assert words in await _problem(context, url, timeout=0.3 if not says else 20.0)
        await answered.wait()


async def test_other_hosts_are_asked_through_the_gateway(context: Any) -> None:
    """A name of the world is never resolved or reached by the host for a check."""
    problem = await _problem(context, "http://api.example.com/v1")
    assert problem.startswith("http://api.example.com/v1: ")
    assert context.sockets.asked == [GATEWAY]
