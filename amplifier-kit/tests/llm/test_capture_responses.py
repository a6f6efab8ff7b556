"""Responses that an SDK keeps to itself are heard by the call that they belong to, and closed."""

from __future__ import annotations

import asyncio
from types import ModuleType

import httpx
import httpx2
import pytest

from amplifier_core.llm_errors import ConfigurationError
from amplifier_kit.llm.client import capture_responses, http_options, proxy_errors, record_response
from amplifier_testing.llm import ModelServer, Reply


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_heard_and_closed(library: ModuleType) -> None:
    """Concurrent calls each capture their own response, which is closed even if it was not read to its end."""
    with ModelServer() as server:
        server.answers(lambda heard: Reply.stream([b"a", b"b"], x_path=heard.path).stalled(1))
        options = http_options(library, server.url, timeout=20)
        async with library.AsyncClient(**options, event_hooks={"response": [record_response]}) as client:

            async def call(path: str) -> str:
                async with capture_responses() as heard:
                    assert heard.headers == {}
                    await client.send(client.build_request("GET", server.url + path), stream=True)
                    headers = heard.headers
                assert all(response.is_closed for response in heard.responses)
                return headers["x-path"]

            assert await asyncio.gather(*(call(f"/{number}") for number in range(3))) == ["/0", "/1", "/2"]


async def test_outside_of_a_call() -> None:
    """A response outside of a capture is not recorded."""
    await record_response(httpx2.Response(200))
    async with capture_responses() as heard:
        assert heard.responses == []


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_options(library: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy and limits are the same for both libraries, and a service on this machine needs no proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    away = http_options(library, "http://service.example", timeout=50, idle=7)
    assert away["proxy"] == "http://proxy.example:3128"
    assert away["timeout"].as_dict() == {"connect": 30.0, "read": 7, "write": 50, "pool": None}
    assert http_options(library, "http://localhost:1", timeout=5)["proxy"] is None


def test_proxy_faults() -> None:
    """A proxy that a library cannot use is an error of the settings."""
    with pytest.raises(ConfigurationError, match="proxy"), proxy_errors():
        raise ImportError("socksio is missing")
