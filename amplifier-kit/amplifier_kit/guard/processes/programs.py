"""Choose the programs and libraries that our processes use: none from a folder that commands can write to.

A project, and everything else that commands of a session can write, is untrusted: a sandboxed command, an archive or a
tool may have planted an executable there, which would run outside of the sandbox if we started it. So PATH is searched
without such folders and without relative entries, and variables that load code from them are dropped.

Untrusted commands get our environment without secrets (`command_environment`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Folders = Iterable[str | os.PathLike[str]]

#: As many symbolic links as the kernel follows.
_MAX_LINKS: Final = 40
#: Folders that stay trusted even if this process works in them.
_SYSTEM: Final = frozenset(
    (
        *("/", "/bin", "/sbin", "/opt", "/nix", "/nix/store"),
        *("/usr", "/usr/bin", "/usr/sbin", "/usr/local", "/usr/local/bin"),
    )
)
#: Lists of folders or files that the dynamic linker and interpreters load code from.
_SEARCH_PATHS: Final = (
    *("PATH", "NODE_PATH", "PERL5LIB", "PYTHONPATH", "RUBYLIB", "GCONV_PATH"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_FRAMEWORK_PATH", "DYLD_INSERT_LIBRARIES"),
)
#: A single file or folder that code is loaded from.
_CODE_FILES: Final = (
    "BASH_ENV",
    "ENV",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
)
#: Entries of these without a slash are names of system libraries.
_LIBRARY_LISTS: Final = frozenset(("LD_PRELOAD", "LD_AUDIT"))


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it; both are absolute and normalised."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def leaves_by_link(path: str, roots: Sequence[str]) -> bool:
    """Return whether a symbolic link in one of the folders takes an absolute path out of that folder.

    A sandboxed command, which can write there, decides where it leads.
    """
    real = os.path.realpath(path)
    folders = {os.path.dirname(link) for link in _links_on(path)}
    return any(is_below(folder, root) and not is_below(real, root) for folder in folders for root in roots)


def _links_on(path: str) -> list[str]:
    """Return the symbolic links that are followed to resolve a path, each with its folder resolved."""
    found: list[str] = []
    at, names = "/", path.split("/")[::-1]
    while names and len(found) < _MAX_LINKS:
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
    """Return the given folders (by default the working directory) and the repositories around them, links resolved."""
    try:
        given = [os.getcwd()] if folders is None else [os.fspath(folder) for folder in folders]
    except FileNotFoundError:
        given = []  # the working directory was removed
    found: list[str] = []
    for folder in given:
        real = os.path.realpath(folder)
        found += [root for root in (real, _outermost_repository(real)) if root not in _SYSTEM]
    return list(dict.fromkeys(found))


def holds_home(folder: str) -> bool:
    """Return whether a resolved folder is the home folder or above it.

    Some people keep their settings in a repository there: it does not make everything below one project.
    """
    return folder == os.path.dirname(folder) or is_below(os.path.realpath(os.path.expanduser("~")), folder)


def _outermost_repository(folder: str) -> str:
    """Return the outermost repository around a folder, but below the home folder; the folder itself without one.

    World-writable folders such as `/tmp` do not count: any user could create a `.git` there.
    """
    found = at = folder
    while not holds_home(at):
        if os.path.lexists(os.path.join(at, ".git")) and not os.stat(at).st_mode & 0o002:
            found = at
        at = os.path.dirname(at)
    return found


def find_program(name: str, path: str | None, untrusted: Folders | None = None) -> str | None:
    """Return the absolute path of a program from a trusted folder of PATH, None if it is missing.

    `path` is the value of PATH, `untrusted` the folders that commands can write to: by default the one that this
    process works in. An absolute path is an explicit choice and returned as it is; a relative one, which depends on
    the folder, is never found.
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
    """Return an environment that loads no code from untrusted folders, as `find_program` defines them."""
    roots = untrusted_roots(untrusted)
    kept = dict(environment)
    for name in (*_SEARCH_PATHS, *_CODE_FILES):
        if name not in kept:
            continue
        value = kept.pop(name)
        entries = [value] if name in _CODE_FILES else value.split(os.pathsep)
        if name in _LIBRARY_LISTS:
            entries = [part for entry in entries for part in entry.split()]
        trusted = [
            entry
            for entry in entries
            if _is_trusted(entry, roots) or (name in _LIBRARY_LISTS and entry and "/" not in entry)
        ]
        if trusted or name == "PATH":
            kept[name] = os.pathsep.join(trusted) or os.defpath
    return kept


def loader_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the dynamic linker, which choose the code of every program."""
    return {name: value for name, value in environment.items() if name.startswith(("LD_", "DYLD_", "GCONV_", "GLIBC_"))}


def _is_trusted(path: str, roots: Sequence[str]) -> bool:
    """Return whether a path is absolute and neither in one of the folders nor resolved through one."""
    if not os.path.isabs(path):
        return False
    real = (os.path.normpath(path), os.path.realpath(path), os.path.realpath(os.path.dirname(path)))
    return not any(is_below(each, root) for each in real for root in roots) and not leaves_by_link(path, roots)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


# --- the environment of untrusted commands ---

#: Endings that mean a secret in variables only, after a prefix: `PWD` and `OLDPWD` are folders.
_SECRET_ENDING: Final = r"(?i)[A-Z0-9]_(?:KEY|KEYS|PASS|PWD|TOKENS)$"
#: Credentials in a URL.
_URL_PASSWORD: Final = r"[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@]*:[^\s/@]+@"
_REQUIRED: Final = frozenset(("HOME", "PATH"))
#: Commands have no terminal to ask on.
_NON_INTERACTIVE: Final = {"TERM": "dumb", "GIT_TERMINAL_PROMPT": "0"}


def is_secret_variable(name: str) -> bool:
    """Return whether a variable is named like a key, a token, a password or another secret."""
    from amplifier_kit.guard.redaction.field_names import is_secret_name

    return is_secret_name(name) or re.search(_SECRET_ENDING, name) is not None


def command_environment(
    pass_env: Iterable[str] = (), environment: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the environment for a command, and the names of the variables that are withheld from it.

    A model reads what a command prints, and a command may send it anywhere. So variables with secret names, the user's
    keys under any name, values that this process knows to be secrets, and URLs with a password are withheld. `pass_env`
    lists exceptions; a final `*` matches any ending.
    """
    from amplifier_kit.guard.redaction.redactor import known_keys, known_secrets

    source = os.environ if environment is None else environment
    exact = {name for name in pass_env if not name.endswith("*")}
    prefixes = tuple(name[:-1] for name in pass_env if name.endswith("*"))
    keys, secrets = known_keys(), frozenset(known_secrets())

    def is_secret(name: str, value: str) -> bool:
        if name in exact or (prefixes and name.startswith(prefixes)):
            return False
        if is_secret_variable(name):
            return True
        return name not in _REQUIRED and (
            name in keys or value in secrets or re.search(_URL_PASSWORD, value) is not None
        )

    withheld = sorted(name for name, value in source.items() if is_secret(name, value))
    given = {name: value for name, value in source.items() if name not in withheld}
    return given | _NON_INTERACTIVE, withheld
