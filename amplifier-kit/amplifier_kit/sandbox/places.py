"""Name the places that a command has no business with: secrets, and what runs outside when somebody works there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

#: Below the home folder: what must not be read.
SECRETS: Final = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".kube",
    ".docker",
    ".colima",
    ".lima",
    ".orbstack",
    ".password-store",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".yarnrc.yml",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraformrc",
    ".terraform.d/credentials.tfrc.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/hub",
    ".config/op",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".config/containers/auth.json",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".amplifier",
)

#: Below the home folder: what is run, or decides what is run, when somebody logs in or opens a shell.
STARTED: Final = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".xprofile",
    ".xsessionrc",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".inputrc",
    ".vimrc",
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/share/applications",
    ".local/bin",
    "bin",
)

#: Below a project: what loosens the rules of a session, or is run by programs outside without being asked for.
GUARDED: Final = (".amplifier", ".claude", ".mcp.json")
#: Below a folder of git.
_OF_GIT: Final = ("hooks", "config", "config.worktree")
#: How deep submodules of submodules are followed.
_DEPTH: Final = 4


def unwanted_in(folder: str) -> list[str]:
    """Return the files that must not be made in a project: git, told by one, would take its hooks from elsewhere.

    With a folder in its place, git would not work.
    """
    path = os.path.join(folder, ".git", "commondir")
    return [path] if os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path) else []


def guarded_in(folder: str) -> Iterator[str]:
    """Yield the paths below a writable folder that must stay as they are, whether they exist or not."""
    if os.path.isfile(os.path.join(folder, "HEAD")) and os.path.isdir(os.path.join(folder, "objects")):
        yield from _guarded_in_git(folder, _DEPTH)
        return
    for name in GUARDED:
        yield os.path.join(folder, name)
    git = os.path.join(folder, ".git")
    if os.path.isdir(git) and not os.path.islink(git):
        yield from _guarded_in_git(git, _DEPTH)
    elif os.path.lexists(git):
        yield git


def _guarded_in_git(git: str, depth: int) -> Iterator[str]:
    yield os.path.join(git, _OF_GIT[0])
    # Not where there is none: git does not work with something else in its place.
    for name in _OF_GIT[1:]:
        if os.path.lexists(path := os.path.join(git, name)):
            yield path
    for folder in _below(os.path.join(git, "modules"), depth):
        for name in _OF_GIT:
            if os.path.lexists(path := os.path.join(folder, name)):
                yield path
    for folder in _below(os.path.join(git, "worktrees"), 1):
        if os.path.lexists(path := os.path.join(folder, _OF_GIT[2])):
            yield path


def _below(folder: str, depth: int) -> Iterator[str]:
    """Yield the folders of submodules, whose names may have slashes: those that have a config of their own."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in found:
        if os.path.lexists(os.path.join(path, "HEAD")):
            yield path
            yield from _below(os.path.join(path, "modules"), depth - 1) if depth else ()
        elif depth:
            yield from _below(path, depth - 1)
