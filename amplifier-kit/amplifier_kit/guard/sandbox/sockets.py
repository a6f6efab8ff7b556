"""Find the doors to other processes that stand in folders: sockets that somebody listens on."""

from __future__ import annotations

from typing import Final

_TABLE: Final = "/proc/net/unix"


def listening_sockets() -> list[str]:
    """Return the paths of sockets that processes of this machine listen on, as they have named them.

    One that is relative was meant from the folder that its process was in at the time. A read-only mount does not keep
    anybody from connecting to one, nor does a network of one's own.
    """
    try:
        with open(_TABLE, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        # Num RefCount Protocol Flags Type St Inode Path: the path may contain blanks.
        fields = line.split(None, 7)
        if len(fields) == 8 and not fields[7].startswith("@"):
            found.append(fields[7])
    return list(dict.fromkeys(found))
