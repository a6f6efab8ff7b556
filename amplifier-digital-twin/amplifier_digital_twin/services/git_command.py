"""git as a tool of the services: nothing of the caller's surroundings, nothing of the repository's own settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError

#: How long one git command may take, in seconds.
TIMEOUT: Final = 300.0
_KEPT: Final = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR")
_FAILED: Final = "git_failed"


def git_environment(*, is_user: bool = False) -> dict[str, str]:
    """Return the environment for git: no variable of a git that called us, no question, no lock, no settings.

    With `is_user` the settings of this user count (what they ignore everywhere); they are theirs, so they are trusted.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    fixed = {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # No protocol is allowed: a repository that lacks objects must not make git call anybody.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    if not is_user:
        fixed["GIT_CONFIG_GLOBAL"] = os.devnull
    return kept | fixed


def run_git(
    arguments: Sequence[str | Path],
    *,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    is_user: bool = False,
    accepted: Sequence[int] = (0,),
) -> bytes:
    """Return what git writes; raise TwinError (`git_failed`) with its own words when it ends with another code."""
    import subprocess

    environment = git_environment(is_user=is_user) | dict(variables or {})
    argv = ["git", *map(str, arguments)]
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            cwd=cwd,
            env=environment,
            timeout=TIMEOUT,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise TwinError("git_missing", "git is not installed on this machine", "install git and try again") from error
    except subprocess.TimeoutExpired as error:
        said = f"git {_verb(arguments)} took longer than {TIMEOUT:g} s"
        raise TwinError(_FAILED, said, "look at the repository's size and the disk") from error
    if done.returncode not in accepted:
        words = done.stderr.decode("utf-8", "replace").strip() or f"it ended with code {done.returncode}"
        said = f"git {_verb(arguments)} failed{f' in {cwd}' if cwd else ''}: {words}"
        raise TwinError(_FAILED, said, "run `git status` in the repository and try again")
    return done.stdout


def quoted(path: Path) -> str:
    """Return a path as git reads it in its list of object folders."""
    if not any(mark in str(path) for mark in '":\n'):
        return str(path)
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _verb(arguments: Sequence[str | Path]) -> str:
    words = [str(word) for word in arguments]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in ("-c", "-C") else 1 :]
    return words[0] if words else ""
