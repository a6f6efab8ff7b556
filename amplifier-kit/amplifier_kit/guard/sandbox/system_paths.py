"""Choose what of the system a command can read: programs and what they need, nothing of anybody's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from amplifier_kit.guard.processes.programs import is_below, leaves_by_link

#: Shown whole; links such as `/bin` are made again as links.
FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
#: Of `/etc`, where there are also passwords and keys.
_ETC: Final = (
    "alternatives",
    "crypto-policies",
    "fonts",
    "gitconfig",
    "group",
    "hosts",
    "ld.so.cache",
    "localtime",
    "maven",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
    "services",
    "ssl/certs",
    "ssl/cert.pem",
    "ssl/openssl.cnf",
)
_ETC_PREFIXES: Final = ("java-",)
#: Where sockets, other people's files and views into the system are: never more of it than was asked for.
_CROWDED: Final = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys", "/etc", "/home", "/var", "/mnt")
#: Tools that keep what they run beside the folder that is on PATH.
_COMPANIONS: Final = {".cargo": (".rustup",)}
#: Of `~/.local`, whose other folders hold what programs remember of a person.
_LOCAL: Final = ("bin", "lib", "libexec", "share/uv", "share/pipx", "share/pnpm", "share/mise", "share/rtx")
_BIN_NAMES: Final = frozenset(("bin", "sbin", "shims", "Scripts"))


def place_of(path: str, project: str, home: str) -> str:
    """Return where a path of the settings is, links not followed: from the project, `~` is the home folder."""
    return os.path.join(project, home + path[1:] if path == "~" or path.startswith("~/") else path)


def etc_files() -> Iterator[str]:
    """Yield what of `/etc` is shown."""
    for name in _ETC:
        if os.path.exists(path := f"/etc/{name}"):
            yield path
    try:
        names = os.listdir("/etc")
    except OSError:
        return
    yield from (f"/etc/{name}" for name in names if name.startswith(_ETC_PREFIXES))


def interpreter() -> str:
    """Return the path of the running Python itself, behind the links of a virtual environment."""
    return os.path.realpath(sys.executable)


def tool_folders(path: str, home: str, roots: Sequence[str]) -> list[str]:
    """Return the folders that programs on PATH, and the running Python, live in, beyond those of the system.

    The folder above a `bin` is taken whole, as its `lib` is needed too, unless far more than programs is in it: a
    home folder, a place that everybody writes to, what the project lies in. `roots` are what commands can write, the
    project first: a link in there shows nothing, as they could have made it.
    """
    project = roots[0]
    found: list[str] = []
    for prefix in (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(interpreter()))):
        real = os.path.realpath(prefix)
        parts = [real] if not _is_wide(real, home, project) else [os.path.join(real, name) for name in ("bin", "lib")]
        found += [part for part in parts if os.path.isdir(part)]
    for entry in path.split(os.pathsep):
        if os.path.isabs(entry) and os.path.isdir(entry) and not leaves_by_link(entry, roots):
            for folder in dict.fromkeys((os.path.normpath(entry), os.path.realpath(entry))):
                found += _around(folder, home, project)
    return [folder for folder in dict.fromkeys(found) if not any(is_below(folder, known) for known in FOLDERS)]


def linked_folders(path: str, home: str, roots: Sequence[str]) -> list[str]:
    """Return the folders of packages that environments on PATH do not hold themselves, but point to.

    Only what cannot be written inside is asked where more is to be seen: not an environment in one of the `roots`, of
    which the first is the project.
    """
    found: list[str] = []
    for entry in path.split(os.pathsep):
        prefix = os.path.dirname(os.path.normpath(entry))
        if not os.path.isabs(entry) or leaves_by_link(prefix, roots):
            continue
        if any(is_below(os.path.realpath(prefix), root) for root in roots):
            continue
        try:
            libraries = [name for name in os.listdir(os.path.join(prefix, "lib")) if name.startswith("python3")]
        except OSError:
            continue
        for name in libraries:
            site = os.path.join(prefix, "lib", name, "site-packages")
            if os.path.isdir(site):
                found += [one for one in _pointed_to(site, os.stat(site).st_mtime_ns) if not leaves_by_link(one, roots)]
    found = [os.path.realpath(folder) for folder in found if os.path.isdir(folder)]
    return [folder for folder in dict.fromkeys(found) if not _is_wide(folder, home, roots[0])]


@cache
def _pointed_to(site: str, _changed: int) -> list[str]:
    """Return the folders that the `.pth` files of a `site-packages` name; read again when something was installed."""
    found = []
    for name in sorted(os.listdir(site)):
        if name.endswith(".pth"):
            with open(os.path.join(site, name), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file.read(100_000).splitlines()]
            found += [line for line in lines if os.path.isabs(line)]
    return found


def _around(entry: str, home: str, project: str) -> list[str]:
    if os.path.basename(entry) not in _BIN_NAMES:
        return [entry] if not _is_wide(entry, home, project) else []
    prefix = os.path.dirname(entry)
    if prefix == os.path.join(home, ".local"):
        return [path for name in _LOCAL if os.path.isdir(path := os.path.join(prefix, name))]
    companions = (os.path.join(home, name) for name in _COMPANIONS.get(os.path.basename(prefix), ()))
    return _whole(prefix, entry, home, project) + [path for path in companions if os.path.isdir(path)]


def _whole(prefix: str, otherwise: str, home: str, project: str) -> list[str]:
    if not _is_wide(prefix, home, project):
        return [prefix]
    return [otherwise] if not _is_wide(otherwise, home, project) else []


def _is_wide(folder: str, home: str, project: str) -> bool:
    """Tell whether a folder has far more in it than programs."""
    if is_below(home, folder) or is_below(project, folder) or folder.count("/") < 2:
        return True
    return folder in _CROWDED or any(is_below(folder, place) and folder.count("/") < 3 for place in _CROWDED)


def is_too_wide(folder: str, home: str) -> bool:
    """Tell whether a folder is no project, but (a large part of) the machine, or everybody's."""
    if folder == "/" or (folder != home and is_below(home, folder)):
        return True
    if folder in _CROWDED or folder in FOLDERS or any(is_below(folder, place) for place in ("/proc", "/sys", "/dev")):
        return True
    return os.path.dirname(folder) == "/usr" and folder != "/usr/src"


def can_write(folder: str) -> bool:
    """Tell whether a command inside could make something in a folder: rights over others' files do not reach there."""
    if os.geteuid() != 0:
        return os.access(folder, os.W_OK)
    status = os.stat(folder)
    is_allowed = (status.st_uid == 0 and status.st_mode & 0o200) or (status.st_gid == 0 and status.st_mode & 0o020)
    return bool(is_allowed or status.st_mode & 0o002) and os.access(folder, os.W_OK)
