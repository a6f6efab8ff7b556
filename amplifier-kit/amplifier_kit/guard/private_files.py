"""Write the files that Amplifier keeps: for their owner alone, without secrets, and never half. Read any file safely.

Every file below `$AMPLIFIER_HOME` is written by this module or by one of the few that `tests/test_writers.py` lists,
each with its reason. All content is masked here, whether or not the caller has masked it: content without secrets is
written byte for byte, JSON stays JSON, and ids and times do not change.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

#: No configuration that a person has written is larger.
LARGEST: Final = 16 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

#: Functions that return more secrets, such as a user's keys; called before the first file is masked.
secret_sources: list[Callable[[], Iterable[str]]] = []


def masked(content: bytes) -> bytes:
    """Return a document without secrets: JSON and lines of JSON by their values, anything else as text."""
    from amplifier_kit.guard.redaction.redactor import process_redactor

    text = content.decode("utf-8", "surrogateescape")
    if (clean := process_redactor().scrub_text(text)) == text:
        return content
    # Text alone does not distinguish an id from a token, nor a number from a masked one.
    for parts, end in (([text], ""), (text.split("\n"), "\n")):
        try:
            return end.join(_masked_json(part) for part in parts).encode("utf-8", "surrogateescape")
        except (ValueError, RecursionError):
            continue
    return clean.encode("utf-8", "surrogateescape")


def _masked_json(text: str) -> str:
    import json

    from amplifier_kit.guard.redaction.redactor import process_redactor

    if not text.strip():
        return text
    data = json.loads(text)
    clean: Any = process_redactor().scrub(data).value
    if clean == data:
        return text
    second = text.strip().partition("\n")[2]
    end = text[len(text.rstrip()) :]
    return json.dumps(clean, ensure_ascii=False, indent=len(second) - len(second.lstrip()) or None) + end


def replace_file(
    path: Path, content: bytes, *, mode: int = 0o600, is_forced: bool = False, folder: int | None = None
) -> None:
    """Put `content`, masked, in place of a file: a reader finds the old one or the new one.

    One that `is_forced` is on the disk when this returns. `path` is a name in `folder`, where that is an open one.
    Raises OSError and leaves nothing behind.
    """
    replace_unmasked(path, masked(content), mode=mode, is_forced=is_forced, folder=folder)


def replace_unmasked(
    path: Path, content: bytes, *, mode: int = 0o600, is_forced: bool = False, folder: int | None = None
) -> None:
    """Put `content` in place of a file as it is; only for what `tests/test_writers.py` allows. Raises as above."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns():x}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(fresh, flags, mode, dir_fd=folder), "wb") as file:
            file.write(content)
            if is_forced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(fresh, path, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        try:
            os.unlink(fresh, dir_fd=folder)
        except FileNotFoundError:
            pass  # it was not created
        raise


def open_private(path: Path, flags: int = os.O_WRONLY | os.O_APPEND, *, folder: int | None = None) -> int:
    """Open a file for `append`, made for its owner alone when it is missing; raises OSError.

    `path` is a name in `folder`, where that is an open one.
    """
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=folder)


def append(descriptor: int, content: bytes) -> int:
    """Write whole lines, masked, and return how many bytes they have become; raises OSError."""
    content = masked(content)
    write_unmasked(descriptor, content)
    return len(content)


def write_unmasked(descriptor: int, content: bytes) -> None:
    """Write every byte of content that is masked already; raises OSError."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone; raises OSError."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:  # a file or the like
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def read_regular(path: str | os.PathLike[str], limit: int = LARGEST, *, follow: bool = True) -> bytes:
    """Return the content of a file in an untrusted place, without blocking on a pipe or reading a device forever.

    Raises OSError if it is not a regular file or has more than `limit` bytes, and without `follow` if it is a link.
    """
    number = os.open(path, _READ if follow else _READ | os.O_NOFOLLOW)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        with open(number, "rb", closefd=False) as file:
            data: bytes | None = file.read(limit + 1)
    finally:
        os.close(number)
    if data is None:  # some files of /proc wait for more
        raise OSError(errno.EAGAIN, "it cannot be read without waiting", os.fspath(path))
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", os.fspath(path))
    return data
