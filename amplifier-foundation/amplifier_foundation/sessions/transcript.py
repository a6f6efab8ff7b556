"""Keep the conversation on disk: one message per line, appended as it grows, without secrets."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amplifier_foundation.files import replace_file
from amplifier_kit.guard.private_files import masked, open_private

__all__ = ["Transcript"]

_LEFT_OUT = ("system", "developer")
_BLOCK = 65_536

Message = Mapping[str, Any]


class Transcript:
    """Append the messages of one session to its `transcript.jsonl`.

    What a turn writes does not grow with the conversation. A conversation that was replaced by another (cleared,
    mended, compacted by a context that forgets) is written anew; the one before is kept as `transcript.jsonl.backup`.
    """

    def __init__(self, path: Path, scrub: Callable[[Any], Any]) -> None:
        """Write to `path`; `scrub` makes the copy that is written."""
        self._path = path
        self._scrub = scrub
        #: How many messages are in the file.
        self._written = 0
        #: The last of them, by which a history that was replaced is told from one that grew.
        self._last: dict[str, Any] | None = None
        #: How far a context was followed, and its last message then; None when that has to be found out.
        self._position: int | None = None
        self._seen: dict[str, Any] | None = None
        #: How large the file was when it was left; None when it was not written yet.
        self._size: int | None = None

    def take_up(self, messages: Sequence[Message]) -> None:
        """Go on behind `messages`, which the file holds already; nothing is read or written."""
        kept = _kept(messages)
        self._written, self._last = len(kept), dict(kept[-1]) if kept else None
        self._position = self._seen = self._size = None

    def update(self, messages: Sequence[Message]) -> None:
        """Append what is new since the last update; a history that was replaced by another is written anew.

        Raises OSError when that fails; the file then holds what it held before, and the next update tries again.
        """
        kept = _kept(messages)
        if not self._has_grown(kept) or not self._append(kept[self._written :]):
            self._rewrite(kept)
        self._written, self._last = len(kept), dict(kept[-1]) if kept else None
        self._position, self._seen = len(messages), dict(messages[-1]) if messages else None

    def follow(self, count: int, since: Callable[[int], Sequence[Message]]) -> None:
        """Append what is new in a context that has `count` messages and tells those from a position on.

        Does what `update` does, without asking for all messages each time. Raises what `update` raises.
        """
        position = self._position
        if position is None or count < position:
            return self.update(since(0))
        overlap = min(position, 1)
        tail = since(position - overlap)
        if overlap and (not tail or tail[0] != self._seen):
            return self.update(since(0))
        fresh = _kept(tail[overlap:])
        if not self._append(fresh):
            return self.update(since(0))
        if fresh:
            self._written, self._last = self._written + len(fresh), dict(fresh[-1])
        if tail:
            self._position, self._seen = position - overlap + len(tail), dict(tail[-1])
        return None

    def _has_grown(self, kept: Sequence[Message]) -> bool:
        if not self._written:
            return True
        return len(kept) >= self._written and kept[self._written - 1] == self._last

    # -- writing --

    def _append(self, messages: Sequence[Message]) -> bool:
        """Write messages to the end of the file; return False when what should be before them is not there."""
        if not messages:
            return True
        lines = masked(b"".join(map(self._line, messages)))
        descriptor = open_private(self._path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            if size < (self._size or 0) or (self._written and not size):
                return False  # somebody has deleted it, or cut it
            if size != self._size:
                size, is_sound = _clean_tail(descriptor, size)
                if self._written and not is_sound:
                    return False
            self._write(descriptor, lines, size)
            self._size = size + len(lines)
        finally:
            os.close(descriptor)
        return True

    def _write(self, descriptor: int, lines: bytes, size: int) -> None:
        try:
            written = os.write(descriptor, lines)
            if written < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        except OSError:
            os.ftruncate(descriptor, size)  # half a message would be glued to the next one
            raise

    def _rewrite(self, kept: Sequence[Message]) -> None:
        content = masked(b"".join(map(self._line, kept)))
        self._keep_previous()
        replace_file(self._path, content)
        self._size = len(content)

    def _keep_previous(self) -> None:
        """Keep the file as the backup; one that holds no message must not take the place of a backup that does."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                is_sound = size > 0 and _is_message(_last_line(file.fileno(), size).strip())
        except FileNotFoundError:
            return
        if not size:
            return
        target = self._path.with_name(f"{self._path.name}.{'backup' if is_sound else 'damaged'}")
        fresh = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        fresh.unlink(missing_ok=True)
        try:
            os.link(self._path, fresh)
        except OSError:  # no links on this file system
            replace_file(target, self._path.read_bytes())
        else:
            os.replace(fresh, target)

    def _line(self, message: Message) -> bytes:
        from amplifier_kit.engine.context.transcript import sanitize_message

        text = json.dumps(self._scrub(sanitize_message(message)), ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace") + b"\n"


def _kept(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if message.get("role") not in _LEFT_OUT]


def _clean_tail(descriptor: int, size: int) -> tuple[int, bool]:
    """End the last line of a file, or cut it off when a crash has left half of it.

    Returns the size of the file then, and whether its last line is a message.
    """
    if not size:
        return 0, False
    last = _last_line(descriptor, size)
    if last.endswith(b"\n"):
        return size, _is_message(last)
    if _is_message(last):
        os.write(descriptor, b"\n")
        return size + 1, True
    size -= len(last)
    os.ftruncate(descriptor, size)
    return size, size > 0 and _is_message(_last_line(descriptor, size))


def _last_line(descriptor: int, size: int) -> bytes:
    """Return the last line with its end, if it has one, read from behind."""
    found = b""
    while size:
        length = min(_BLOCK, size)
        size -= length
        found = os.pread(descriptor, length, size) + found
        cut = found.rfind(b"\n", 0, len(found) - 1)
        if cut >= 0:
            return found[cut + 1 :]
    return found


def _is_message(line: bytes) -> bool:
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "role" in record
