"""Build the argument list and the environment of every git command that the product runs.

Reading takes no settings from the user or the repository: it uses a git folder whose config we wrote (`private_dir`, or
a bare repository of our own). Fetching needs the user's settings (credentials, proxies, URL rewrites), and runs where
git finds no other repository's settings.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from amplifier_kit.guard.processes.command import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import Folders, find_program, host_environment

#: Longer listings of settings are rejected: only their end would be kept.
_CONFIG_LIMIT: Final = 16 << 20
_PROGRAM: Final = "git"

#: Variables that git needs to find its libraries; a reading git gets no others of ours.
_INHERITED: Final = ("HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DEVELOPER_DIR")
_READ_VARIABLES: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # Missing objects must not make git contact a server.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_ASKPASS": "",
    "GIT_SSH_COMMAND": "false",
}
#: A second line of defence: a config that a repository could write is not read at all.
_READ_OPTIONS: Final = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "credential.helper=",
    "gc.auto=0",
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
)
#: git sets these for its hooks; they would redirect it to another repository.
_HOOK_VARIABLES: Final = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
        *("GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_EXTERNAL_DIFF"),
    )
)
_FETCH_OPTIONS: Final = (
    "core.longpaths=true",
    # The same files on every machine, for the content hash of a lock file.
    "core.autocrlf=false",
    # No other program runs, neither now nor in the background.
    "gc.auto=0",
    "maintenance.auto=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    # A server must not redirect from an encrypted connection to a plain one.
    "protocol.http.allow=user",
    "advice.detachedHead=false",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
)


class GitMissingError(FileNotFoundError):
    """git is not on PATH, or only in a folder that is not trusted."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, "git is not installed", _PROGRAM)

    def __str__(self) -> str:
        return "git is not installed"


def find_git(path: str | None = None, *, outside: Folders | None = None) -> str:
    """Return the path of git; raises GitMissingError.

    `outside` are folders that commands can write to, where git is not taken from: by default, here and below, the one
    that this process works in.
    """
    found = find_program(_PROGRAM, os.environ.get("PATH") if path is None else path, outside)
    if found is None:
        raise GitMissingError
    return found


def read_command(*arguments: str, program: str | None = None, options: Sequence[str] = ()) -> list[str]:
    """Return the command line of a git that only reads, to be run with `read_environment`."""
    return [program or find_git(), "--no-pager", *_with_c((*_READ_OPTIONS, *options)), *arguments]


def read_environment(
    *, git_dir: str = os.devnull, work_tree: str | None = None, outside: Folders | None = None
) -> dict[str, str]:
    """Return the whole environment of a git that reads `git_dir`, by default no repository at all."""
    given = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    given = host_environment({"PATH": os.environ.get("PATH", os.defpath), **given}, outside)
    given |= {**_READ_VARIABLES, "GIT_DIR": git_dir}
    return given if work_tree is None else given | {"GIT_WORK_TREE": work_tree}


def list_user_config(program: str, seconds: float) -> bytes | None:
    """Return the settings of user and system as git lists them; None when it cannot."""
    given = {name: value for name, value in os.environ.items() if name not in _HOOK_VARIABLES}
    command = [program, "--no-pager", "config", "--includes", "--list", "-z"]
    return _output(command, given | {"GIT_DIR": os.devnull}, None, seconds)


def list_config(program: str, data: bytes, seconds: float) -> bytes | None:
    """Return the settings of a config file's content as git lists them, without includes; None when it cannot."""
    command = read_command("config", "--file", "-", "--no-includes", "--list", "-z", program=program)
    return _output(command, read_environment(), data, seconds)


def fetch_command(
    *arguments: str, environ: Mapping[str, str], options: Sequence[str] = (), outside: Folders | None = None
) -> list[str]:
    """Return the command line of a git that fetches, to be run with `fetch_environment`; raises GitMissingError."""
    program = find_git(environ.get("PATH", os.defpath), outside=outside)
    return [program, "--no-pager", *_with_c((*_FETCH_OPTIONS, *options)), *arguments]


def fetch_environment(
    environ: Mapping[str, str], *, folder: str | None = None, outside: Folders | None = None
) -> dict[str, str]:
    """Return the environment of a git that fetches into `folder`, or only queries a server.

    It prompts for nothing, uses the proxies and CAs that other programs use, and reads no settings of repositories
    above the folder, or without one of any.
    """
    env = {name: value for name, value in environ.items() if name not in _HOOK_VARIABLES}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    env = host_environment({"PATH": os.defpath, **env}, outside)
    env["GIT_TEMPLATE_DIR"] = ""  # templates could contain hooks
    if folder is None:
        env["GIT_DIR"] = os.devnull
    else:
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(folder))
    if "SSH_ASKPASS_REQUIRE" not in env:
        # A password dialog of the desktop would block until the deadline.
        env["SSH_ASKPASS_REQUIRE"] = "never"
        env.pop("SSH_ASKPASS", None)
    # git has its own names for these, and knows only the lower case one of the last.
    for name, sources in (
        ("GIT_SSL_CAINFO", ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")),
        ("GIT_SSL_CAPATH", ("SSL_CERT_DIR",)),
        ("http_proxy", ("HTTP_PROXY",)),
    ):
        value = next((environ[source] for source in sources if environ.get(source)), "")
        if value and not environ.get(name):
            env[name] = value
    return env


def _output(command: Sequence[str], environment: Mapping[str, str], data: bytes | None, seconds: float) -> bytes | None:
    try:
        done = run_program(
            command, timeout=seconds, environment=environment, data=data, is_split=True, limit=_CONFIG_LIMIT
        )
    except CommandTimeoutError:
        return None
    return done.stdout if done.returncode == 0 and len(done.stdout) < _CONFIG_LIMIT else None


def _with_c(options: Iterable[str]) -> list[str]:
    return [part for option in options for part in ("-c", option)]
