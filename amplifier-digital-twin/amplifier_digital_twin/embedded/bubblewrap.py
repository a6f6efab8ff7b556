"""The words for bubblewrap: what a universe sees, and what it cannot do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.backends.twin import TwinSpec
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.errors import TwinError

REMEDY: Final = "install bubblewrap 0.8 or newer (Debian: apt install bubblewrap)"
#: Folders of the host's root that are links into /usr on most systems, and folders of their own on others.
ROOT_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
#: Files of /proc that are the host's in every namespace: who has which keys, and how the kernel was started.
_HIDDEN: Final = ("keys", "key-users", "cmdline")
#: What keeps a universe there: it ends when the pipe it reads from does, and so with the process that holds the pipe.
_HOLDER: Final = ("/bin/sh", "-c", "echo ready; read held")


def find_bubblewrap() -> str:
    """Return the path of the program; raise TwinError when it is not installed."""
    if path := shutil.which("bwrap"):
        return path
    raise TwinError("bubblewrap_missing", "bubblewrap (bwrap) is not installed", REMEDY)


def system_folders() -> list[str]:
    """Name the folders of the host that hold its programs: `/usr`, and what is not a link into it."""
    own = [f"/{name}" for name in ROOT_FOLDERS if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]
    return ["/usr", *own]


def system_links() -> Mapping[str, str]:
    """Return the links of the host's root into /usr, by name."""
    return {name: os.readlink(f"/{name}") for name in ROOT_FOLDERS if os.path.islink(f"/{name}")}


def universe_arguments(bubblewrap: str, spec: TwinSpec, ids: IdMap, status: int, calls: int | None) -> list[str]:
    """Return the command that holds a universe whose tree is at `/tmp/root`; it tells `status` its process's number.

    `calls` is the descriptor of the filter for calls.
    """

    def tmpfs(place: str, mode: str, share: int) -> list[str]:
        """Return a file system in memory; all together leave enough of it for the processes that hold the universe."""
        size = [] if spec.limits.memory is None else ["--size", str(spec.limits.memory // share)]
        return ["--perms", mode, *size, "--tmpfs", place]

    words = [bubblewrap, "--bind", "/tmp/root", "/"]
    if spec.base.image == "host" and spec.base.tar is None:
        for folder in system_folders():
            words += ["--ro-bind", folder, folder]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += [*tmpfs("/dev/shm", "1777", 4), *tmpfs("/tmp", "1777", 2), *tmpfs("/run", "0755", 16)]
    # It lies in memory too, and has no size of its own; the devices in it can be written to all the same.
    words += ["--remount-ro", "/dev", *_hiding()]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", spec.hostname]
    if spec.network != "host":
        words.append("--unshare-net")
    if not ids.has_root:
        uid = str(spec.user.uid)
        words += ["--unshare-user", "--uid", uid, "--gid", uid, "--disable-userns"]
    words += ["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--json-status-fd", str(status)]
    words += [] if calls is None else ["--seccomp", str(calls)]
    words += ["--chdir", "/", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--", *_HOLDER]
    return words


def _hiding() -> list[str]:
    """Return the words that make files of /proc which tell of the host look empty."""
    # A device, not a plain bind: that would refuse to open it, and programs that read one of these expect a file.
    shown = [name for name in _HIDDEN if os.path.exists(f"/proc/{name}")]
    return [word for name in shown for word in ("--dev-bind", "/dev/null", f"/proc/{name}")]


def chore_arguments(bubblewrap: str, names: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return a command of the host that sees the host's programs and what the stage has put at `/tmp/<name>`.

    Nothing else of the host is there for a link, which somebody inside a universe may have made, to lead to.
    """
    words = [bubblewrap]
    for folder in system_folders():
        words += ["--ro-bind", folder, folder]
    for name, target in system_links().items():
        words += ["--symlink", target, f"/{name}"]
    for name in names:
        words += ["--bind", f"/tmp/{name}", f"/{name}"]
    # The C library changes the permissions of what it must not follow through /proc.
    words += [
        "--proc",
        "/proc",
        "--unshare-net",
        "--unshare-pid",
        "--unshare-ipc",
        "--die-with-parent",
        "--new-session",
    ]
    return [*words, "--chdir", "/", "--", *command]


def check_path(path: Path) -> None:
    """Raise TwinError for a folder that no universe can be kept in, because the system's own lie above or below it."""
    if str(path).startswith(("/usr/", "/proc/", "/sys/", "/dev/")):
        raise TwinError("place_unsuitable", f"universes cannot be kept in {path}", "choose another AMPLIFIER_HOME")
