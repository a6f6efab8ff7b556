"""git as a tool of the services: nothing of the caller's surroundings, nothing of the repository's own settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError

#: How long one git command may take, in seconds.
TIMEOUT: Final = 300.0
_FAILED: Final = "git_failed"


def run_git(
    arguments: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes = b"",
    accepted: Sequence[int] = (0,),
    outside: Sequence[str | Path] = (),
) -> bytes:
    """Return what git writes; raise TwinError (`git_failed`) with its own words when it ends with another code.

    `environment` is the whole of it, made by `amplifier_kit.guard.git`; without one, git knows no repository
    but one that the arguments name. A git that lies in a folder of `outside` is not run.
    """
    import subprocess

    from amplifier_kit.guard.git import GitMissingError, find_git, read_command, read_environment

    try:
        done = subprocess.run(
            read_command(*map(str, arguments), program=find_git(outside=[str(path) for path in outside])),
            input=stdin,
            capture_output=True,
            cwd=cwd,
            env=environment or read_environment(),
            timeout=TIMEOUT,
            start_new_session=True,
            check=False,
        )
    except GitMissingError as error:
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
