"""Take messages from a server's standard output, bounded in every respect."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.guard.processes.output import Output
from amplifier_module_tool_mcp._allowance import BURST, RATE, Allowance
from amplifier_module_tool_mcp._faults import ServerFault

#: Lines that are not protocol messages: a few stray prints are tolerated, a stream of them is not.
MOST_STRAY_LINES: Final = 1000
MOST_STRAY_BYTES: Final = 1 << 20
#: Bytes that wait to be understood before the server is made to wait.
_BACKLOG: Final = 256 * 1024


class Inflow(Output):
    """The standard output of one server: lines go in, messages come out, and `fault` says what went wrong."""

    def __init__(self, largest: int) -> None:
        super().__init__(0)
        self._largest = largest
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._news = asyncio.Event()
        self._is_closed = False
        self._stray_lines = self._stray_bytes = 0
        self._allowance = Allowance()
        #: Messages that were taken in while too many others waited, without a pause.
        self._crowded = 0
        #: Why the server is to be stopped.
        self.fault: ServerFault | None = None

    @property
    def is_flood(self) -> bool:
        """Tell whether the server is to wait before it is read from again."""
        return self._waiting > _BACKLOG

    def feed(self, data: bytes) -> None:
        """Take in the next bytes; never raises."""
        if self.fault is not None:
            return
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest = bytearray(rest)
            for line in lines:
                self._take(line)
        else:
            self._rest += rest
        if self.fault is None and (len(self._rest) > self._largest or self._waiting > 2 * self._largest):
            self._fail("flood", f"it sent more than {self._largest:,} bytes of unprocessed output")
        self._news.set()

    def _take(self, line: bytes) -> None:
        """Keep a line that may be a message; what cannot be one is counted here, which is cheaper than to parse it."""
        if line.lstrip()[:1] != b"{":
            self._stray(line)
        elif self.fault is None:
            self._lines.append(line)
            self._waiting += len(line) + 1

    def close(self) -> None:
        """Know that nothing more will come."""
        self._is_closed = True
        self._news.set()

    async def next(self, parse: Callable[[bytes], Any]) -> Any:
        """Return the next message, None at the end of all; lines that are none are left out. `fault` says why."""
        while True:
            if self.fault is not None:
                return None
            if self._lines:
                line = self._taken()
                message = self._parsed(line, parse)
                if message is not None:
                    return message
                await asyncio.sleep(0)
            elif self._is_closed:
                return None
            else:
                self._news.clear()
                await self._news.wait()

    def _taken(self) -> bytes:
        """Return the next line; a machine that is too slow to find out by the clock that it is flooded does so here."""
        self._crowded = self._crowded + 1 if self.is_flood else 0
        line = self._lines.popleft()
        self._waiting -= len(line) + 1
        if self._crowded > BURST:
            self._fail("flood", "it keeps sending messages faster than they can be taken in")
        return line

    def _parsed(self, line: bytes, parse: Callable[[bytes], Any]) -> Any:
        if self.fault is not None:
            return None
        if len(line) > self._largest:
            return self._fail("flood", f"it sent a message of more than {self._largest:,} bytes")
        try:
            message = parse(line)
        except ValueError:
            return self._stray(line)
        if not self._allowance.take():
            return self._fail("flood", f"it sent more than {RATE:g} messages a second")
        return message

    def _stray(self, line: bytes) -> None:
        self._stray_lines += 1
        self._stray_bytes += len(line)
        if self._stray_lines > MOST_STRAY_LINES or self._stray_bytes > MOST_STRAY_BYTES:
            self._fail("malformed", "its output is not MCP messages")

    def _fail(self, code: str, reason: str) -> None:
        if self.fault is not None:
            return
        self.fault = ServerFault(code, reason)
        self._lines.clear()
        self._rest.clear()
        self._waiting = 0
        self._news.set()
