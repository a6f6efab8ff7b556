"""Build the argument list and the environment of every git command that the product runs.

There are two kinds. Reading takes nothing from anybody's settings: it goes through a git folder whose config we wrote
(`private_dir`, or a bare repository of our own). Fetching needs the user's settings (credentials, proxies, rewritten
addresses), and runs where no other repository's settings are found.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from amplifier_kit.guard.processes.command import CommandTimeoutError, run_program
from amplifier_kit.guard.processes.programs import Folders, find_program, host_environment

#: A longer list of settings is not used: only its end would be kept.
_LARGEST_CONFIG: Final = 16 << 20

_PROGRAM: Final = "git"

#: What a git that reads gets of our environment: it must find its libraries, and nothing else.
_KEPT: Final = ("HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DEVELOPER_DIR")
_READ_VARIABLES: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # A repository that lacks objects must not make git call anybody.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_ASKPASS": "",
    "GIT_SSH_COMMAND": "false",
}
#: No config that a repository could write is read at all; these are for a git that finds a way to one.
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

#: Set by git itself for its hooks; they would make it work on another repository than the one meant.
_MISLEADING: Final = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE"),
        *("GIT_INTERNAL_SUPER_PREFIX", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_EXTERNAL_DIFF"),
    }
)
_FETCH_OPTIONS: Final = (
    "core.longpaths=true",
    # The same files on every machine, so that the content hash of a lock file holds.
    "core.autocrlf=false",
    # Nothing runs in the background when git has ended, and nothing but git runs.
    "gc.auto=0",
    "maintenance.auto=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    # A server may not lead from an encrypted connection to an open one.
    "protocol.http.allow=user",
    "advice.detachedHead=false",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
)


class GitMissingError(FileNotFoundError):
    """There is no git on PATH, or only one that lies in a folder that must not decide what is run."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, "git is not installed", _PROGRAM)

    def __str__(self) -> str:
        return "git is not installed"


def find_git(path: str | None = None, *, outside: Folders | None = None) -> str:
    """Return the path of git; raises GitMissingError.

    One in a folder of `outside`, which others may write to, is not taken, whatever PATH says. Without any, that is the
    folder that this process works in; here and below.
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
    """Return the whole environment of a git that reads: it looks for no repository, and knows nobody's settings.

    Without a `git_dir`, there is no repository at all.
    """
    given = {name: os.environ[name] for name in _KEPT if name in os.environ}
    given = host_environment({"PATH": os.environ.get("PATH", os.defpath), **given}, outside)
    given |= {**_READ_VARIABLES, "GIT_DIR": git_dir}
    return given if work_tree is None else given | {"GIT_WORK_TREE": work_tree}


def list_user_config(program: str, seconds: float) -> bytes | None:
    """Return the user's and the system's own settings as git lists them; None when it cannot."""
    given = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    command = [program, "--no-pager", "config", "--includes", "--list", "-z"]
    return _output(command, given | {"GIT_DIR": os.devnull}, None, seconds)


def list_config(program: str, data: bytes, seconds: float) -> bytes | None:
    """Return the settings in the content of a config file as git lists them, nothing included; None when it cannot."""
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
    """Return the environment of a git that fetches into `folder`, or that only asks a server.

    It asks nothing, knows the proxies and CAs that other programs know, and never reads the settings of a repository
    above the folder, or, without one, of any. Programs in a folder of `outside` are not found.
    """
    env = {name: value for name, value in environ.items() if name not in _MISLEADING}
    env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    env = host_environment({"PATH": os.defpath, **env}, outside)
    # Templates would bring hooks along.
    env["GIT_TEMPLATE_DIR"] = ""
    if folder is None:
        env["GIT_DIR"] = os.devnull
    else:
        env["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(folder))
    if "SSH_ASKPASS_REQUIRE" not in env:
        # A desktop's window that asks would be waited for until the deadline.
        env["SSH_ASKPASS_REQUIRE"] = "never"
        env.pop("SSH_ASKPASS", None)
    authority = environ.get("SSL_CERT_FILE") or environ.get("REQUESTS_CA_BUNDLE")
    if authority and not environ.get("GIT_SSL_CAINFO"):
        env["GIT_SSL_CAINFO"] = authority
    if environ.get("SSL_CERT_DIR") and not environ.get("GIT_SSL_CAPATH"):
        env["GIT_SSL_CAPATH"] = environ["SSL_CERT_DIR"]
    if environ.get("HTTP_PROXY") and not environ.get("http_proxy"):
        env["http_proxy"] = environ["HTTP_PROXY"]  # git knows only this spelling of it
    return env


def _output(command: Sequence[str], environment: Mapping[str, str], data: bytes | None, seconds: float) -> bytes | None:
    try:
        done = run_program(
            command, timeout=seconds, environment=environment, data=data, is_split=True, limit=_LARGEST_CONFIG
        )
    except CommandTimeoutError:
        return None
    return done.stdout if done.returncode == 0 and len(done.stdout) < _LARGEST_CONFIG else None


def _with_c(options: Iterable[str]) -> list[str]:
    return [part for option in options for part in ("-c", option)]
