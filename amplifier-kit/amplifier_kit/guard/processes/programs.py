"""Decide which programs and libraries a process of ours is given: none from a folder that commands can write to.

A project, and whatever else commands of a session can write, is untrusted: an executable that lies there may have been
planted by a command in the sandbox, by an unpacked archive or by a tool that writes files. Started by us it would run
outside of the sandbox, with everything that we may do. PATH is therefore searched without such folders and without
relative entries, and variables that make a program load code from them are taken out of its environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Folders = Iterable[str | os.PathLike[str]]

#: As many links as the kernel itself follows.
_MOST_LINKS: Final = 40
#: Working here does not make the programs of the system untrusted.
_SYSTEM: Final = frozenset(
    (
        "/",
        "/usr",
        "/usr/bin",
        "/usr/sbin",
        "/usr/local",
        "/usr/local/bin",
        "/bin",
        "/sbin",
        "/opt",
        "/nix",
        "/nix/store",
    )
)
#: Lists of folders or files that the dynamic linker and interpreters load code from.
_SEARCHED: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "DYLD_FRAMEWORK_PATH",
    "DYLD_FALLBACK_FRAMEWORK_PATH",
    "DYLD_INSERT_LIBRARIES",
    "GCONV_PATH",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONPATH",
    "RUBYLIB",
)
#: A file or folder that code is loaded from.
_LOADED: Final = ("BASH_ENV", "ENV", "OPENSSL_CONF", "OPENSSL_MODULES", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE")
#: Names in these without a slash are looked for among the libraries of the system.
_BY_NAME: Final = frozenset(("LD_PRELOAD", "LD_AUDIT"))


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it; both are absolute and have no dots."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def is_led_out(path: str, roots: Sequence[str]) -> bool:
    """Tell whether an absolute path goes over a link in one of the folders to a place outside of that folder.

    Where it leads is then decided by whoever can write there: commands inside.
    """
    real = os.path.realpath(path)
    folders = {os.path.dirname(link) for link in _links_of(path)}
    return any(is_below(folder, root) and not is_below(real, root) for folder in folders for root in roots)


def _links_of(path: str) -> list[str]:
    """Return the links that a path goes over, each by the folder that it really lies in."""
    found: list[str] = []
    at, names = "/", path.split("/")[::-1]
    while names and len(found) < _MOST_LINKS:
        name = names.pop()
        if name in ("", ".", ".."):
            at = os.path.dirname(at) if name == ".." else at
            continue
        step = os.path.join(at, name)
        if os.path.islink(step):
            found.append(step)
            target = os.readlink(step)
            names += target.split("/")[::-1]
            at = "/" if target.startswith("/") else at
        else:
            at = step
    return found


def untrusted_roots(folders: Folders | None = None) -> list[str]:
    """Return the given folders, else the one this process works in, and the repositories around, links followed.

    A repository as wide as the home folder is not counted: some keep their settings that way, and their programs too.
    """
    try:
        given = [os.getcwd()] if folders is None else [os.fspath(folder) for folder in folders]
    except FileNotFoundError:
        given = []  # it was removed: nothing lies there
    found: list[str] = []
    for folder in given:
        real = os.path.realpath(folder)
        found += [root for root in (real, _repository_around(real)) if root not in _SYSTEM]
    return list(dict.fromkeys(found))


def holds_home(folder: str) -> bool:
    """Tell whether a folder, links followed, is the home folder, one above it, or the whole disk.

    A repository there, which some keep their settings in, makes nobody's project of all that lies below.
    """
    return folder == os.path.dirname(folder) or is_below(os.path.realpath(os.path.expanduser("~")), folder)


def _repository_around(folder: str) -> str:
    """Return the outermost repository that a folder lies in, below the home folder; the folder itself without one.

    A folder that everybody writes to, such as `/tmp`, is none: anybody could make it look like one.
    """
    found = at = folder
    while not holds_home(at):
        if os.path.lexists(os.path.join(at, ".git")) and not os.stat(at).st_mode & 0o002:
            found = at
        at = os.path.dirname(at)
    return found


def find_program(name: str, path: str | None, untrusted: Folders | None = None) -> str | None:
    """Return the absolute path of a program, from a folder of PATH that no command can write to; None without one.

    `path` is the value of the variable, `untrusted` are the folders that commands can write: the one that this process
    works in, unless the caller knows better. A name that is an absolute path is somebody's explicit choice and taken as
    it is; a relative path, which means something else in every folder, is never found.
    """
    if os.sep in name:
        return name if os.path.isabs(name) and _is_program(name) else None
    roots = untrusted_roots(untrusted)
    for folder in (path if path is not None else os.defpath).split(os.pathsep):
        program = os.path.join(folder, name)
        if _is_trusted(program, roots) and _is_program(program):
            return program
    return None


def host_environment(environment: Mapping[str, str], untrusted: Folders | None = None) -> dict[str, str]:
    """Return an environment in which nothing is searched for or loaded from untrusted folders, as `find_program`."""
    roots = untrusted_roots(untrusted)
    kept = dict(environment)
    for name in _SEARCHED:
        if name not in kept:
            continue
        entries = kept.pop(name).split(os.pathsep)
        if name in _BY_NAME:
            entries = [one for entry in entries for one in entry.split()]
        trusted = [one for one in entries if _is_trusted(one, roots) or (name in _BY_NAME and one and "/" not in one)]
        if trusted or name == "PATH":
            kept[name] = os.pathsep.join(trusted) or os.defpath
    for name in _LOADED:
        if name in kept and not _is_trusted(kept[name], roots):
            del kept[name]
    return kept


def loader_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the dynamic linker obeys, which decide about the code of every program."""
    return {name: value for name, value in environment.items() if name.startswith(("LD_", "DYLD_", "GCONV_", "GLIBC_"))}


def _is_trusted(place: str, roots: Sequence[str]) -> bool:
    """Tell whether a path is absolute and neither lies in one of the folders, nor leads into or over one."""
    if not os.path.isabs(place):
        return False
    real = (os.path.normpath(place), os.path.realpath(place), os.path.realpath(os.path.dirname(place)))
    return not any(is_below(path, root) for path in real for root in roots) and not is_led_out(place, roots)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
