"""Who exists inside a universe: the accounts, and the home of its user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from amplifier_digital_twin.embedded.layers import Node
from amplifier_digital_twin.profile.model import User

_PASSWD: Final = (
    "root:x:0:0:root:/root:/bin/bash\n"
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
)
_GROUP: Final = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nusers:x:100:\nnogroup:x:65534:\n"
#: A file of accounts is not larger.
_MAX_FILE: Final = 1024 * 1024


def account_nodes(user: User, base: Path | None) -> dict[str, Node]:
    """Return /etc/passwd and /etc/group with the user, and his home; `base` is the tree whose accounts stay."""
    passwd = _PASSWD if base is None else _read(base, "passwd") or _PASSWD
    group = _GROUP if base is None else _read(base, "group") or _GROUP
    shell = (
        "/bin/bash"
        if base is None or os.path.lexists(base / "bin/bash") or os.path.lexists(base / "usr/bin/bash")
        else "/bin/sh"
    )
    nodes = {user.home: Node(0o700, uid=user.uid)}
    if user.uid != 0:
        passwd = _with_line(passwd, f"{user.name}:x:{user.uid}:{user.uid}::{user.home}:{shell}")
        group = _with_line(group, f"{user.name}:x:{user.uid}:")
    nodes["/etc/passwd"] = Node(0o644, passwd.encode())
    nodes["/etc/group"] = Node(0o644, group.encode())
    return nodes


def _with_line(text: str, line: str) -> str:
    """Return the accounts with this one, in place of any of the same name or number."""
    name, _, number = line.split(":")[:3]
    kept = [old for old in text.splitlines() if old.split(":")[0] != name and old.split(":")[2:3] != [number]]
    return "\n".join([*kept, line]) + "\n"


def _read(base: Path, name: str) -> str:
    """Return a file of the base's /etc; nothing when it is not a plain file there: a link would lead to the host's."""
    try:
        etc = os.open(base / "etc", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=etc)
    except OSError:
        return ""
    finally:
        os.close(etc)
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        return file.read(_MAX_FILE)
