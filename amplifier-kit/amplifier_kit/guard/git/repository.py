"""Find the repository of a folder, and refuse one that leads to another repository.

git itself follows a `.git` file, a link, `commondir` or `core.worktree` anywhere. So an untrusted project could show a
model the commits and files of any repository on the machine.
"""

from __future__ import annotations

import os
import stat
from typing import Final, NamedTuple

from amplifier_kit.guard.processes.programs import is_below
from amplifier_kit.guard.regular_file import read_regular

#: The largest accepted size of git's small files.
_SMALL: Final = 64 * 1024
_GITFILE: Final = "gitdir:"


class UnsafeRepositoryError(Exception):
    """A repository is not read; the text says why."""


class Repository(NamedTuple):
    """The folders of a repository, with links resolved."""

    #: The folder that holds `.git`; None for a bare repository.
    root: str | None
    git_dir: str
    #: Shared by all worktrees: objects, refs, config.
    common_dir: str
    #: Links in the git folder must lead into one of these.
    places: tuple[str, ...]
    #: Whether the git folder is elsewhere, so that its config must name `root` as its working tree.
    needs_back_link: bool = False


def find_repository(folder: str, project: str | None = None) -> Repository | None:
    """Return the repository whose working tree a folder is in, or None.

    `project` is the session's folder, if that is another: a git folder in it is accepted. A bare repository does not
    count, as any clone may contain one. Raises UnsafeRepositoryError, and OSError for a folder that cannot be read.
    """
    at = os.path.realpath(folder)
    device = os.stat(at).st_dev
    ceilings = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    ends = {os.path.realpath(path) for path in ceilings if os.path.isabs(path)}
    while True:
        repository = _repository_at(at, os.path.realpath(project or folder))
        if repository is not None:
            return repository
        above = os.path.dirname(at)
        if above == at or above in ends:
            return None
        try:
            if os.stat(above).st_dev != device and not os.environ.get("GIT_DISCOVERY_ACROSS_FILESYSTEM"):
                return None
        except OSError:
            return None
        at = above


def bare_repository(folder: str) -> Repository | None:
    """Return the bare repository at a path that the user has named, or None."""
    git_dir = os.path.realpath(folder)
    if not _is_git_dir(git_dir, git_dir) or _common_dir(git_dir) != git_dir:
        return None
    return Repository(None, git_dir, git_dir, (git_dir,))


def read_small(path: str, limit: int = _SMALL, *, places: tuple[str, ...] | None = None) -> bytes | None:
    """Return the content of a file of git, None when it does not exist.

    A link must lead below one of `places`, by default the folder of the file; with no places at all it is the user's
    own file and may be anywhere. Raises UnsafeRepositoryError for other links, pipes, devices and large files.
    """
    if os.path.islink(path):
        real = os.path.realpath(path)
        allowed = (os.path.realpath(os.path.dirname(path)),) if places is None else places
        if allowed and not any(is_below(real, place) for place in allowed):
            raise UnsafeRepositoryError(f"{path} leads out of the repository, to {real}")
        path = real
    try:
        return read_regular(path, limit, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnsafeRepositoryError(f"{path} cannot be read: {error.strerror}") from error


def _repository_at(root: str, project: str) -> Repository | None:
    marker = os.path.join(root, ".git")
    try:
        mode = os.stat(marker).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        git_dir = os.path.realpath(marker)
        if not os.path.lexists(os.path.join(git_dir, "HEAD")):
            return None  # git ignores an empty folder of this name too
    else:
        text = _read_line(marker) or ""
        if not text.startswith(_GITFILE):
            raise UnsafeRepositoryError(f"{marker} is neither a folder nor names one")
        git_dir = os.path.realpath(os.path.join(root, text.removeprefix(_GITFILE).strip()))
    common_dir = _common_dir(git_dir)
    if not _is_git_dir(git_dir, common_dir):
        raise UnsafeRepositoryError(f"{marker} leads to {git_dir}, which is not a git folder")
    needs_back_link = False
    if not is_below(git_dir, root) and not is_below(git_dir, project):
        back = _read_line(os.path.join(git_dir, "gitdir"))
        needs_back_link = back is None
        if back is not None and (
            os.path.realpath(os.path.join(git_dir, back)) != os.path.realpath(marker) or os.path.islink(marker)
        ):
            raise UnsafeRepositoryError(f"{marker} leads to {git_dir}, a worktree of another folder")
    return Repository(root, git_dir, common_dir, (root, project, git_dir, common_dir), needs_back_link)


def _common_dir(git_dir: str) -> str:
    """Return the folder that a worktree shares with others; it must be in that folder itself."""
    text = _read_line(os.path.join(git_dir, "commondir"))
    common_dir = git_dir if text is None else os.path.realpath(os.path.join(git_dir, text))
    if common_dir == git_dir:
        return git_dir  # no worktree, or the sandbox's placeholder for `commondir`
    worktrees = os.path.dirname(git_dir)
    if os.path.basename(worktrees) != "worktrees" or os.path.dirname(worktrees) != common_dir:
        raise UnsafeRepositoryError(f"{git_dir}/commondir leads to {common_dir}, another repository")
    return common_dir


def _is_git_dir(git_dir: str, common_dir: str) -> bool:
    return os.path.lexists(os.path.join(git_dir, "HEAD")) and all(
        os.path.isdir(os.path.join(common_dir, name)) for name in ("objects", "refs")
    )


def _read_line(path: str) -> str | None:
    data = read_small(path)
    return None if data is None else os.fsdecode(data).rstrip("\r\n")
