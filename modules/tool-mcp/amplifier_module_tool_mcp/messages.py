"""Read a server's messages: bounded in size, number and rate, tolerant of common mistakes of senders."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.guard.processes.output import Output
from amplifier_module_tool_mcp.faults import ServerFault

#: What the protocol calls a message that cannot be understood.
_NOT_UNDERSTOOD: Final = -32700


def read_message(line: bytes) -> Any:
    """Return a message as the SDK expects it; raise ValueError for a line that is not a message.

    Lone surrogates, which programs produce that truncate text by UTF-16 units, are replaced. A response that does not
    follow the protocol, or is nested too deeply to be parsed, becomes an error response to the request with its id, so
    that the request fails at once instead of timing out.
    """
    import mcp_types
    from mcp.shared.message import SessionMessage

    adapter = mcp_types.jsonrpc_message_adapter
    try:
        return SessionMessage(adapter.validate_json(line, by_name=False))
    except ValueError:
        message = _careless(line)
    try:
        return SessionMessage(adapter.validate_python(message, by_name=False))
    except ValueError:
        identity = message.get("id")
        if "method" in message or isinstance(identity, bool) or not isinstance(identity, int | str):
            raise
    error = {"code": _NOT_UNDERSTOOD, "message": "its answer is not of the form that the protocol wants"}
    return SessionMessage(adapter.validate_python({"jsonrpc": "2.0", "id": identity, "error": error}, by_name=False))


def _careless(line: bytes) -> dict[str, Any]:
    """Parse a line leniently; raise ValueError when it is not a JSON object, or nested too deeply even for that."""
    try:
        message = json.loads(line.decode("utf-8", "replace"), object_hook=_whole, parse_constant=lambda name: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("no object")
    return message


def _whole(found: dict[str, Any]) -> dict[str, Any]:
    return {_text(key): _text(value) for key, value in found.items()}


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return [_text(each) for each in value] if isinstance(value, list) else value


#: At once, and per second.
BURST: Final = 5000
RATE: Final = 1000.0


class Allowance:
    """Count messages against a rate, with room for many at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._since = float(BURST), clock()

    def take(self, count: int = 1) -> bool:
        """Count some messages; return False when the rate is exceeded."""
        now = self._clock()
        self._left = min(float(BURST), self._left + (now - self._since) * RATE) - count
        self._since = now
        return self._left >= 0


#: Lines that are not protocol messages: a few stray prints are tolerated, a stream of them is not.
MOST_STRAY_LINES: Final = 1000
MOST_STRAY_BYTES: Final = 1 << 20
#: Bytes that wait to be understood before the server is made to wait.
_BACKLOG: Final = 256 * 1024


class MessageReader(Output):
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
        #: Why the server is to be stopped.
        self.fault: ServerFault | None = None

    @property
    def is_flood(self) -> bool:
        """Return whether reading should pause until the backlog is smaller."""
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
                line = self._lines.popleft()
                self._waiting -= len(line) + 1
                message = self._parsed(line, parse)
                if message is not None:
                    return message
                await asyncio.sleep(0)
            elif self._is_closed:
                return None
            else:
                self._news.clear()
                await self._news.wait()

    def _parsed(self, line: bytes, parse: Callable[[bytes], Any]) -> Any:
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
