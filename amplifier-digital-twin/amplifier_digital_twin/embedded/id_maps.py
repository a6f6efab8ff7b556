"""Whom the users of a universe are on the host: never root, and never more than this user may be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User
from amplifier_digital_twin.value import Value

Kind = Literal["range", "subordinate", "single"]

#: Host ids that stand for 0…65535 of every universe that root makes: far from what accounts and /etc/subuid use.
FIRST_ID: Final = 700_000_000
#: How many ids a universe has.
COUNT: Final = 65_536


class Range(NamedTuple):
    """Ids inside, as a stretch of ids outside."""

    inside: int
    outside: int
    length: int


class IdMap(Value):
    """How ids inside are ids of the host.

    `range`: root's, onto ids that nobody has. `subordinate`: this user is root inside, and the ids that /etc/subuid
    gives him are the others. `single`: this user is the one user inside; there is no root.
    """

    kind: Kind
    uids: tuple[Range, ...]
    gids: tuple[Range, ...]
    #: Programs that write a map of subordinate ids.
    newuidmap: str = ""
    newgidmap: str = ""

    @classmethod
    def of_this_user(cls) -> IdMap:
        """Return the widest map that the user who runs this program may have."""
        uid, gid = os.geteuid(), os.getegid()
        if uid == 0:
            everything = (Range(0, FIRST_ID, COUNT),)
            return cls("range", everything, everything)
        uids, gids = subordinate_ids(Path("/etc/subuid"), uid), subordinate_ids(Path("/etc/subgid"), uid)
        newuidmap, newgidmap = shutil.which("newuidmap"), shutil.which("newgidmap")
        if uids and gids and newuidmap and newgidmap:
            return cls("subordinate", (Range(0, uid, 1), *uids), (Range(0, gid, 1), *gids), newuidmap, newgidmap)
        return cls("single", (Range(0, uid, 1),), (Range(0, gid, 1),))

    @property
    def has_root(self) -> bool:
        """Tell whether there is a root inside, and with it other users."""
        return self.kind != "single"

    @property
    def reason_without_root(self) -> str:
        """Say why there is no root inside."""
        if shutil.which("newuidmap") is None:
            return "newuidmap is not installed, and this user is not root"
        return f"user {os.geteuid()} has no subordinate ids in /etc/subuid and /etc/subgid"

    def check_user(self, user: User, own: User) -> None:
        """Raise TwinError when a universe whose own user is `own` cannot have this one."""
        if self.has_root:
            if not 0 <= user.uid < COUNT - 1:
                raise TwinError(
                    "user_unavailable",
                    f"user id {user.uid} of {user.name!r} is not one of 0…{COUNT - 2}",
                    "choose a smaller `user.uid` in the profile",
                )
            return
        if user.uid == 0 or user.uid != own.uid:
            raise TwinError(
                "user_unavailable",
                f"user {user.name!r} ({user.uid}) cannot exist in this universe, only {own.name!r} ({own.uid}): "
                f"{self.reason_without_root}",
                "run it as root, let root give this user subordinate ids (usermod --add-subuids --add-subgids), or "
                "leave root out of the profile",
            )

    def owner(self, uid: int) -> tuple[int, int]:
        """Return the user and group of the host that own what the user of that id owns inside, as a map of root's."""
        return (FIRST_ID + uid, FIRST_ID + uid) if self.kind == "range" else (os.geteuid(), os.getegid())

    def plan(self) -> dict[str, Any]:
        """Return the map in the words of the stage."""
        return {
            "kind": self.kind,
            "uids": [list(entry) for entry in self.uids],
            "gids": [list(entry) for entry in self.gids],
            "newuidmap": self.newuidmap,
            "newgidmap": self.newgidmap,
        }


def subordinate_ids(file: Path, uid: int) -> tuple[Range, ...]:
    """Return the ids from 1 to 65535 that a file like /etc/subuid gives a user; nothing when it gives fewer."""
    import pwd

    try:
        names = {str(uid), pwd.getpwuid(uid).pw_name}
    except KeyError:
        return ()  # newuidmap refuses a user without an account
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    ranges: list[Range] = []
    inside = 1
    for line in lines:
        name, _, rest = line.strip().partition(":")
        first, _, count = rest.partition(":")
        if name not in names or not (first.isascii() and first.isdigit() and count.isascii() and count.isdigit()):
            continue
        taken = min(int(count), COUNT - inside)
        if taken > 0:
            ranges.append(Range(inside, int(first), taken))
            inside += taken
    return tuple(ranges) if inside >= COUNT - 1 else ()
