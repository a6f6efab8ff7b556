"""The body of an answer: unpacked piece by piece, and never more of it than was asked for."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from amplifier_module_tool_web.client import Answer
from amplifier_module_tool_web.failure import Failure

#: Called with the bytes so far and the bytes announced (None: not announced).
Progress = Callable[[int, int | None], Awaitable[None]]

_PIECE: Final = 65536


class Body(NamedTuple):
    """The bytes of an answer, and whether these are all."""

    data: bytes
    is_whole: bool


async def read_body(answer: Answer, limit: int, progress: Progress) -> Body:
    """Return the body's first `limit` bytes, unpacked; raise Failure for a packing that is unknown or broken.

    Neither what arrives nor what it unpacks to can become longer than the limit by more than one piece.
    """
    unpacked = unpacker(answer)
    data, arrived, announced = bytearray(), 0, announced_size(answer)
    async for chunk in answer.chunks:
        arrived += len(chunk)
        for piece in unpacked.feed(chunk):
            data += piece
            if len(data) > limit:
                return Body(bytes(data[:limit]), False)
        if arrived > limit:
            return Body(bytes(data), False)
        await progress(arrived, announced)
    if not unpacked.is_ended:
        raise Failure("broken_answer", f"{answer.target}: the packed answer ends in the middle")
    return Body(bytes(data), True)


def announced_size(answer: Answer) -> int | None:
    """Return how many bytes the server said that it would send."""
    text = answer.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


class Plain:
    """What is not packed."""

    is_ended = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give the chunk."""
        yield chunk


class Packed:
    """What is packed with gzip (also in several members) or deflate."""

    def __init__(self, where: str, *, is_gzip: bool) -> None:
        self._where = where
        self._is_gzip = is_gzip
        self._machine: zlib._Decompress | None = None
        self._is_fresh = True

    @property
    def is_ended(self) -> bool:
        """Tell whether the last member is whole."""
        return self._machine is None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress a chunk piece by piece; nothing more is decompressed once the caller stops iterating."""
        while chunk:
            if self._machine is None:
                if not self._is_fresh and (not self._is_gzip or not chunk.startswith(b"\x1f")):
                    return  # filling after the end, which every program ignores
                self._machine = self._begun(chunk)
            try:
                piece = self._machine.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise Failure("broken_answer", f"{self._where}: the answer cannot be unpacked: {error}") from error
            self._is_fresh = False
            chunk = self._machine.unconsumed_tail
            if self._machine.eof:
                chunk, self._machine = self._machine.unused_data, None
            if piece:
                yield piece

    def _begun(self, chunk: bytes) -> zlib._Decompress:
        if self._is_gzip:
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        # "deflate" means zlib's format; some servers send the bare one.
        is_zlib = chunk[0] & 0x0F == 8 and (len(chunk) < 2 or (chunk[0] << 8 | chunk[1]) % 31 == 0)
        return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def unpacker(answer: Answer) -> Plain | Packed:
    """Return what unpacks an answer; raise Failure for what was not asked for, and for packings inside packings."""
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return Plain()
    if encoding in ("gzip", "x-gzip", "deflate"):
        return Packed(str(answer.target), is_gzip="gzip" in encoding)
    raise Failure(
        "unsupported_encoding", f"{answer.target}: the answer is packed as {encoding[:40]!r}, which was not asked for"
    )
