"""Say why a server is not there, in words for people and models and in a code for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

#: The code of the protocol's SDK for a connection that is gone.
CONNECTION_CLOSED: Final = -32000
#: ... and for an answer that did not come in time.
REQUEST_TIMEOUT: Final = -32001
#: Exceptions of streams that the other side has left.
_CLOSED: Final = ("BrokenResourceError", "ClosedResourceError", "EndOfStream")
#: Characters quoted from a foreign message.
_LONGEST: Final = 500
#: A program may write, so none is started in a session that only reads.
READ_ONLY: Final = "read_only"
#: Faults that a retry cannot fix.
_LASTING: Final = frozenset(
    (
        READ_ONLY,
        *("command_not_found", "not_installed", "untrusted", "variable_missing"),
        *("sandbox_required", "sandbox_failed", "sdk_missing", "invalid_url"),
    )
)


class ServerFault(Exception):
    """A server cannot be used: `reason` says why, `advice` what to do next if that is known, `code` is stable."""

    def __init__(self, code: str, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.advice = advice

    @property
    def may_pass(self) -> bool:
        """Whether trying again by itself makes sense."""
        return self.code not in _LASTING


def fault_of(error: BaseException) -> ServerFault:
    """Return what an exception of the SDK amounts to; groups of them stand for their most telling member."""
    faults = [_single(leaf) for leaf in _leaves(error)]
    known = [fault for fault in faults if fault.code != "disconnected"]
    return (known or faults)[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _single(error: BaseException) -> ServerFault:
    if isinstance(error, ServerFault):
        return error
    code = getattr(error, "code", None)
    name = type(error).__name__
    if isinstance(error, asyncio.CancelledError) or code == CONNECTION_CLOSED or name in _CLOSED:
        return ServerFault("disconnected", "the connection was closed")
    if isinstance(error, TimeoutError) or code == REQUEST_TIMEOUT:
        return ServerFault("timeout", "no answer in time")
    module = type(error).__module__
    if module.startswith("httpx2"):
        kind = "unreachable" if name in ("ConnectError", "ConnectTimeout") else "http_error"
        return ServerFault(kind, short(f"{name}: {error}"))
    if module.startswith(("pydantic", "json")):
        return ServerFault("malformed", f"an answer that is not of the protocol ({name})")
    if isinstance(code, int):
        return ServerFault("protocol_error", short(f"the server answered with error {code}: {error}"))
    return ServerFault("start_failed", short(f"{name}: {error}"))


def short(text: str) -> str:
    """Return one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
