"""What a universe on the base `host` has beside `/usr`: a bare tree, and an `/etc` of what programs need."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from amplifier_digital_twin.embedded.bubblewrap import ROOT_FOLDERS, system_links
from amplifier_digital_twin.embedded.layers import Node

#: Files and folders of the host's /etc that say how its programs work, and nothing of whom it belongs to.
_PUBLIC: Final = (
    "alternatives",
    "debian_version",
    "fonts",
    "java-17-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "protocols",
    "rpc",
    "services",
    "ssl/openssl.cnf",
    "terminfo",
)
_FOLDERS: Final = {
    "/dev": 0o755,
    "/etc/ssl/certs": 0o755,
    "/home": 0o755,
    "/mnt": 0o755,
    "/opt": 0o755,
    "/proc": 0o555,
    "/root": 0o700,
    "/run": 0o755,
    "/srv": 0o755,
    "/tmp": 0o1777,
    "/usr": 0o755,
    "/var/cache": 0o755,
    "/var/lib": 0o755,
    "/var/log": 0o755,
    "/var/tmp": 0o1777,
}
_LINKS: Final = {
    "/etc/mtab": "../proc/self/mounts",
    "/etc/os-release": "../usr/lib/os-release",
    "/var/lock": "/run/lock",
    "/var/run": "/run",
}
_FILES: Final = {
    "/etc/bash.bashrc": "",
    "/etc/host.conf": "multi on\n",
    "/etc/nsswitch.conf": (
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n"
        "services: files\nethers: files\nrpc: files\n"
    ),
    "/etc/profile": "",
    "/etc/shells": "/bin/sh\n/bin/bash\n",
}
#: No file of the host's /etc that is copied is larger.
_MAX_FILE: Final = 4 * 1024 * 1024
#: Counts up when the tree above changes.
_RECIPE: Final = 1


def skeleton_nodes(etc: Path = Path("/etc")) -> dict[str, Node]:
    """Return the tree, with copies of the public files of the host's /etc as they are now."""
    nodes = {path: Node(mode) for path, mode in _FOLDERS.items()}
    nodes |= {path: Node(target=target) for path, target in _LINKS.items()}
    nodes |= {path: Node(0o644, text.encode()) for path, text in _FILES.items()}
    nodes |= {f"/{name}": Node(target=target) for name, target in system_links().items()}
    nodes |= {f"/{name}": Node() for name in ROOT_FOLDERS if os.path.isdir(f"/{name}") and f"/{name}" not in nodes}
    for path in _public_files(etc):
        inside = f"/etc/{path.relative_to(etc)}"
        if path.is_symlink() and path.name != "localtime":
            nodes[inside] = Node(target=os.readlink(path))
        else:
            nodes[inside] = Node(0o644, path.read_bytes())
    return nodes


def skeleton_key(etc: Path = Path("/etc")) -> str:
    """Return a name for the tree as it would be made now: another one when a file it copies has changed."""
    import hashlib

    digest = hashlib.sha256(repr((_RECIPE, sorted(system_links().items()))).encode())
    for path in _public_files(etc):
        status = path.lstat()
        digest.update(repr((str(path), status.st_mtime_ns, status.st_size, status.st_ino)).encode())
    return digest.hexdigest()[:24]


def _public_files(etc: Path) -> Iterator[Path]:
    """Give the files and links to copy, sorted; what others than root cannot read is left out."""
    for name in _PUBLIC:
        yield from _walk(etc / name)


def _walk(path: Path) -> Iterator[Path]:
    try:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            for name in sorted(os.listdir(path)):
                yield from _walk(path / name)
            return
        if path.name == "localtime":
            status = path.stat()
    except OSError:
        return  # not there, or not for everybody: the universe does without
    if stat.S_ISLNK(status.st_mode) or (
        stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH and status.st_size <= _MAX_FILE
    ):
        yield path
