"""Run git so that nothing an untrusted repository configures is ever run or followed.

`command` builds the argument list and the environment of every git process of the product. `repository` finds the
repository of a folder and refuses one that leads elsewhere. `private_dir` makes the git folder through which it is
read: its objects, refs and index, with a config that we wrote. `config` reads the harmless settings for that.
"""

from amplifier_kit.guard.git.command import (
    GitMissingError,
    fetch_command,
    fetch_environment,
    find_git,
    read_command,
    read_environment,
)
from amplifier_kit.guard.git.config import UserSettings, read_user_settings
from amplifier_kit.guard.git.private_dir import PrivateGitDir
from amplifier_kit.guard.git.repository import Repository, UnsafeRepositoryError, bare_repository, find_repository

__all__ = [
    "GitMissingError",
    "PrivateGitDir",
    "Repository",
    "UnsafeRepositoryError",
    "UserSettings",
    "bare_repository",
    "fetch_command",
    "fetch_environment",
    "find_git",
    "find_repository",
    "read_command",
    "read_environment",
    "read_user_settings",
]
