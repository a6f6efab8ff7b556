"""Speak between a session and a child in a process of its own: JSON objects, each behind its length."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any, Final

_LENGTH: Final = struct.Struct(">I")
#: A frame that says it is longer than this is none.
_LONGEST: Final = 256 * 1024 * 1024

Frame = dict[str, Any]


async def read_frame(reader: asyncio.StreamReader) -> Frame | None:
    """Return the next frame, None at the end; raises ValueError for what is no frame."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _LONGEST:
            raise ValueError(f"a frame of {length} bytes is too long")
        content = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    frame = json.loads(content)
    if not isinstance(frame, dict):
        raise ValueError("a frame must be an object")
    return frame


def write_frame(writer: asyncio.StreamWriter, frame: Frame) -> None:
    """Send a frame; to somebody who is gone, nothing."""
    content = json.dumps(frame, ensure_ascii=True, default=str).encode("ascii")
    if not writer.is_closing():
        writer.write(_LENGTH.pack(len(content)) + content)
