"""The paths of the host that a sandboxed command can read, and those that it must not read or change."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from amplifier_kit.guard.processes.programs import is_below, leaves_by_link

#: Visible whole; links such as `/bin` are created as links.
FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
#: The visible part of `/etc`, which also holds passwords and keys.
_ETC: Final = (
    *("alternatives", "crypto-policies", "fonts", "gitconfig", "group", "hosts", "ld.so.cache", "localtime", "maven"),
    *("nsswitch.conf", "os-release", "passwd", "services"),
    *("pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf"),
)
#: Folders with sockets, other users' files and interfaces of the kernel: only named subfolders become visible.
_SHARED: Final = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev", "/proc", "/sys", "/etc", "/home", "/var", "/mnt")
#: Tools whose `bin` needs another folder of the home folder.
_COMPANIONS: Final = {".cargo": (".rustup",)}
#: The visible part of `~/.local`, whose other folders hold personal data of programs.
_LOCAL: Final = ("bin", "lib", "libexec", "share/uv", "share/pipx", "share/pnpm", "share/mise", "share/rtx")
BIN_NAMES: Final = frozenset(("bin", "sbin", "shims", "Scripts"))

#: Below the home folder: hidden.
SECRETS: Final = (
    # keys and passwords
    *(".ssh", ".gnupg", ".netrc", "_netrc", ".password-store", ".local/share/keyrings", ".local/share/kwalletd"),
    *(".config/op", ".vault-token", ".pgpass", ".my.cnf", ".amplifier"),
    # clouds and containers
    *(".aws", ".azure", ".config/gcloud", ".config/rclone", ".kube", ".docker", ".colima", ".lima", ".orbstack"),
    *(".config/containers/auth.json", ".terraformrc", ".terraform.d/credentials.tfrc.json"),
    # package indexes and repositories
    *(".pypirc", ".npmrc", ".yarnrc.yml", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".m2/settings.xml", ".gradle/gradle.properties", ".config/pypoetry/auth.toml", ".git-credentials"),
    *(".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub"),
    # browsers, mail and history
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium"),
    *(".bash_history", ".zsh_history", ".python_history"),
)
#: Below the home folder: read-only, as it runs, or decides what runs, at a login or in a new shell.
STARTUP: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".xprofile"),
    *(".xsessionrc", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".inputrc", ".vimrc", ".gitconfig", ".config/git"),
    *(".config/fish", ".config/autostart", ".config/systemd", ".config/environment.d", ".local/share/applications"),
    *(".local/bin", "bin"),
)


def expand(path: str, project: str, home: str) -> str:
    """Return the absolute path of a setting, links not resolved: relative to the project, with `~` for the home."""
    return os.path.join(project, home + path[1:] if path == "~" or path.startswith("~/") else path)


def etc_files() -> Iterator[str]:
    """Yield the visible paths of `/etc`."""
    yield from (path for name in _ETC if os.path.exists(path := f"/etc/{name}"))
    try:
        names = os.listdir("/etc")
    except OSError:
        return
    yield from (f"/etc/{name}" for name in names if name.startswith("java-"))


def interpreter() -> str:
    """Return the real path of the running Python, outside of its virtual environment."""
    return os.path.realpath(sys.executable)


def tool_folders(path: str, home: str, roots: Sequence[str]) -> list[str]:
    """Return the folders of the programs on PATH, and of the running Python, that are not part of the system.

    The parent of a `bin` is visible whole, as its `lib` is needed too, unless it holds much more than programs.
    `roots` are the folders that commands can write, the project first: links in them are ignored.
    """
    project = roots[0]
    found: list[str] = []
    for prefix in (sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(interpreter()))):
        real = os.path.realpath(prefix)
        parts = [real] if not is_broad(real, home, project) else [os.path.join(real, name) for name in ("bin", "lib")]
        found += [part for part in parts if os.path.isdir(part)]
    for entry in path.split(os.pathsep):
        if os.path.isabs(entry) and os.path.isdir(entry) and not leaves_by_link(entry, roots):
            for folder in dict.fromkeys((os.path.normpath(entry), os.path.realpath(entry))):
                found += _with_prefix(folder, home, project)
    return [folder for folder in dict.fromkeys(found) if not any(is_below(folder, known) for known in FOLDERS)]


def _with_prefix(entry: str, home: str, project: str) -> list[str]:
    """Return the folders that the programs in an entry of PATH need."""
    prefix = os.path.dirname(entry)
    is_bin = os.path.basename(entry) in BIN_NAMES
    if is_bin and prefix == os.path.join(home, ".local"):
        return [path for name in _LOCAL if os.path.isdir(path := os.path.join(prefix, name))]
    candidates = [prefix, entry] if is_bin else [entry]
    found = [folder for folder in candidates if not is_broad(folder, home, project)][:1]
    if is_bin:
        companions = (os.path.join(home, name) for name in _COMPANIONS.get(os.path.basename(prefix), ()))
        found += [path for path in companions if os.path.isdir(path)]
    return found


def linked_folders(path: str, home: str, roots: Sequence[str]) -> list[str]:
    """Return the folders that `.pth` files of Python environments on PATH refer to.

    Environments in one of the `roots`, which commands can write, do not count.
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
                found += [
                    each for each in pth_folders(site, os.stat(site).st_mtime_ns) if not leaves_by_link(each, roots)
                ]
    found = [os.path.realpath(folder) for folder in found if os.path.isdir(folder)]
    return [folder for folder in dict.fromkeys(found) if not is_broad(folder, home, roots[0])]


@cache
def pth_folders(site: str, _modified: int) -> list[str]:
    found = []
    for name in sorted(os.listdir(site)):
        if name.endswith(".pth"):
            with open(os.path.join(site, name), encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file.read(100_000).splitlines()]
            found += [line for line in lines if os.path.isabs(line)]
    return found


def is_broad(folder: str, home: str, project: str) -> bool:
    """Return whether a folder holds much more than programs."""
    if is_below(home, folder) or is_below(project, folder) or folder.count("/") < 2:
        return True
    return folder in _SHARED or any(is_below(folder, shared) and folder.count("/") < 3 for shared in _SHARED)


def is_too_wide(folder: str, home: str) -> bool:
    """Return whether a folder cannot be a project, as it is a large or shared part of the machine."""
    if folder == "/" or (folder != home and is_below(home, folder)):
        return True
    if folder in _SHARED or folder in FOLDERS or any(is_below(folder, place) for place in ("/proc", "/sys", "/dev")):
        return True
    return os.path.dirname(folder) == "/usr" and folder != "/usr/src"


def can_write(folder: str) -> bool:
    """Return whether a command inside could create a file in a folder: root has no power over others' files there."""
    if os.geteuid() != 0:
        return os.access(folder, os.W_OK)
    status = os.stat(folder)
    is_allowed = (status.st_uid == 0 and status.st_mode & 0o200) or (status.st_gid == 0 and status.st_mode & 0o020)
    return bool(is_allowed or status.st_mode & 0o002) and os.access(folder, os.W_OK)


def listening_sockets() -> list[str]:
    """Return the paths of Unix sockets of this machine, as their processes bound them; relative ones as they are.

    Neither a read-only mount nor a network namespace keeps a command from connecting to them.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")[1:]
    except OSError:
        return []
    # Num RefCount Protocol Flags Type St Inode Path: the path may contain spaces, or be abstract ("@").
    rows = [line.split(None, 7) for line in lines]
    return list(dict.fromkeys(row[7] for row in rows if len(row) == 8 and not row[7].startswith("@")))
