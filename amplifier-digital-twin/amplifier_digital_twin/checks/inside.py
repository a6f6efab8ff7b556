"""Files of a twin, as a check sees them: pulled out as a tar stream, read in memory, no link followed."""

from __future__ import annotations

import tempfile
from typing import BinaryIO, Final, Literal, NamedTuple, cast

from amplifier_digital_twin.backends.twin import Twin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

#: How much one expectation may read.
MAX_BYTES: Final = 64 * 1024 * 1024
_SPOOLED: Final = 8 * 1024 * 1024

FileKind = Literal["file", "folder", "link"]


class Found(NamedTuple):
    """A file inside: where, what it is, its permissions, its content (of a link: where it leads)."""

    path: str
    kind: FileKind
    mode: int
    content: bytes


def home_path(path: str, user: User) -> str:
    """Return a path in which `~` is the user's home."""
    return user.home + path[1:] if path == "~" or path.startswith("~/") else path


async def find_inside(twin: Twin, user: User, pattern: str, max_bytes: int = MAX_BYTES) -> list[Found]:
    """Return what a path or pattern finds, folders with all in them; nothing when there is nothing.

    Raises TwinError when it cannot be read as that user, or is too much.
    """
    import asyncio

    with tempfile.SpooledTemporaryFile(max_size=_SPOOLED) as spool:
        archive = cast("BinaryIO", spool)
        try:
            await twin.get([home_path(pattern, user)], user, archive, max_bytes)
        except TwinError as error:
            if error.code == "file_missing":
                return []
            raise
        archive.seek(0)
        return await asyncio.to_thread(_read, archive, max_bytes)


def _read(archive: BinaryIO, max_bytes: int) -> list[Found]:
    import tarfile

    found: list[Found] = []
    left = max_bytes
    try:
        with tarfile.open(fileobj=archive, mode="r:") as members:
            for member in members:
                path = "/" + member.name.removeprefix("./").lstrip("/")
                if member.issym():
                    found.append(Found(path, "link", member.mode, member.linkname.encode("utf-8", "surrogateescape")))
                elif member.isdir():
                    found.append(Found(path, "folder", member.mode, b""))
                elif member.isreg():
                    left -= member.size
                    if left < 0:
                        raise TwinError(
                            "too_large", f"more than {max_bytes} bytes came out of the twin", "look at less"
                        )
                    content = members.extractfile(member)
                    found.append(Found(path, "file", member.mode, content.read() if content is not None else b""))
    except (tarfile.TarError, EOFError) as error:
        raise TwinError("archive_invalid", f"what came out of the twin is no archive: {error}", "try again") from error
    return found
