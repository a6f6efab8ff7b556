"""Reach a server by streamable HTTP: its own headers, bounded answers, proxies as the environment says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.messages import RATE, Allowance
from amplifier_module_tool_mcp.server_entry import Resolved

#: Seconds that a stream of events may be silent; longer calls are bounded by their own deadline.
_IDLE: Final = 300.0


class HttpLink:
    """A server at an address, as a transport of the SDK."""

    def __init__(self, resolved: Resolved, *, timeout: float, largest: int) -> None:
        self._resolved = resolved
        self._timeout = timeout
        self._largest = largest
        self._allowance = Allowance()
        self.fault: ServerFault | None = None
        #: Always empty: the operator of an HTTP server has its log.
        self.said = ""
        #: Set when the server is of no use any more.
        self.ended = asyncio.Event()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(await self._client())
            from mcp.client.streamable_http import streamable_http_client

            streams = await stack.enter_async_context(
                streamable_http_client(self._resolved.url, http_client=client, max_sse_event_size=self._largest)
            )
            self._stack = stack.pop_all()
            return streams

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    async def _client(self) -> Any:
        from amplifier_core.llm_errors import ConfigurationError
        from amplifier_kit.llm.client import http_client

        try:
            client = await http_client(
                self._resolved.url, timeout=self._timeout, idle=_IDLE, headers=self._resolved.headers
            )
        except (ConfigurationError, ValueError, TypeError) as error:
            raise ServerFault("invalid_url", self._resolved.mask.diagnostic(str(error))) from error
        client.event_hooks["response"].append(self._bounded)
        return client

    async def _bounded(self, response: Any) -> None:
        """Put a limit on what is read of an answer; the SDK has its own for the size of one event."""
        is_events = "text/event-stream" in response.headers.get("content-type", "")
        response.stream = _bounded_stream(response.stream, self._too_many_events if is_events else self._too_large())

    def _too_many_events(self, part: bytes) -> bool:
        if self._allowance.take(part.count(b"\n\n") + part.count(b"\r\n\r\n")):
            return False
        return self._stop(f"it sent more than {RATE:g} messages a second")

    def _too_large(self) -> Callable[[bytes], bool]:
        total = 0

        def is_too_large(part: bytes) -> bool:
            nonlocal total
            total += len(part)
            return total > self._largest and self._stop(f"it sent an answer of more than {self._largest:,} bytes")

        return is_too_large

    def _stop(self, reason: str) -> bool:
        self.fault = ServerFault("flood", reason)
        self.ended.set()
        return True


def _bounded_stream(stream: Any, is_too_much: Callable[[bytes], bool]) -> Any:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in stream:
                if is_too_much(part):
                    raise httpx2.ReadError("the answer is more than is read")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
