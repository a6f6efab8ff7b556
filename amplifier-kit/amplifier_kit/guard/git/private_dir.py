"""Read a repository through a git folder of our own: its objects, refs and index, and none of its settings.

git has no option to leave a repository's config aside, and every year finds new keys that run a program. So it is
given a folder with a config that we wrote, and links to the data.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Final

from amplifier_kit.guard.git.command import read_command, read_environment
from amplifier_kit.guard.git.repository import Repository, UnsafeRepositoryError, read_small
from amplifier_kit.guard.git.user_config import RepositorySettings, UserSettings, read_repository_settings
from amplifier_kit.guard.processes.programs import is_below

_HEAD: Final = re.compile(r"ref: (refs/[^\x00-\x20\x7f]+)|[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCHES: Final = "refs/heads/"


class PrivateGitDir:
    """A temporary git folder for one repository; a context manager, which removes it."""

    def __init__(
        self, repository: Repository, program: str, user: UserSettings | None = None, *, may_borrow: bool = False
    ) -> None:
        """Make the folder; raises UnsafeRepositoryError, and OSError.

        With `may_borrow`, objects are also read where the repository borrows them (`objects/info/alternates`): for a
        repository that the user has named.
        """
        self.repository = repository
        self._program = program
        self._user = user or UserSettings()
        self._may_borrow = may_borrow
        self.settings = read_repository_settings(program, repository.git_dir, repository.common_dir)
        self._check_root()
        self.path = tempfile.mkdtemp(prefix="amplifier-git-", dir=_temporary_folder(repository))
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PrivateGitDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder, not what its links lead to."""
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def readable(self) -> list[str]:
        """Return what a sandbox must show for git to read the repository."""
        places = [self.path, self.repository.git_dir, self.repository.common_dir]
        return [*places, self.repository.root] if self.repository.root is not None else places

    @property
    def environment(self) -> dict[str, str]:
        """Return the whole environment of a git that reads the repository."""
        root = self.repository.root
        return read_environment(git_dir=self.path, work_tree=root, outside=() if root is None else (root,))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a git that reads the repository."""
        options = [f"core.excludesFile={os.path.join(self.path, 'user-excludes')}"]
        # To find a renamed file git would read contents that may not be there.
        options += ["status.renames=false"] if self.settings.is_partial else []
        return read_command(*arguments, program=self._program, options=options)

    def _check_root(self) -> None:
        root, named = self.repository.root, self.settings.worktree
        if root is None:
            return
        if self.repository.git_dir == self.repository.common_dir:
            leads_to = os.path.realpath(os.path.join(self.repository.git_dir, named)) if named else None
            if leads_to not in (None, root):
                raise UnsafeRepositoryError(f"its working tree is elsewhere: core.worktree leads to {leads_to}")
            if self.repository.needs_back_link and leads_to is None:
                raise UnsafeRepositoryError(
                    f"its git folder {self.repository.git_dir} is outside of the project and does not lead back to it"
                )
            if self.settings.is_bare and leads_to is None:
                raise UnsafeRepositoryError("the repository is bare: it has no working tree")
        elif self.settings.ref_storage == "reftable":
            raise UnsafeRepositoryError("worktrees of a repository with reftable storage are not supported")

    def _fill(self) -> None:
        own, common = self.repository.git_dir, self.repository.common_dir
        head = os.fsdecode(read_small(os.path.join(own, "HEAD")) or b"").strip()
        found = _HEAD.fullmatch(head)
        if found is None:
            raise UnsafeRepositoryError("the HEAD of the repository cannot be read")
        self._write("HEAD", f"{head}\n")
        branch = (found[1] or "").removeprefix(_BRANCHES)
        self._write("config", _config(self.settings, self._user.scalars, branch, is_bare=self.repository.root is None))
        with open(os.path.join(self.path, "user-excludes"), "wb") as file:
            file.write(self._user.excludes)
        os.mkdir(os.path.join(self.path, "info"))
        for name in ("refs", "packed-refs", "shallow", "info/exclude"):
            self._link(os.path.join(common, name), name)
        if self.settings.ref_storage == "reftable":
            self._link(os.path.join(common, "reftable"), "reftable")
        with os.scandir(own) as entries:
            halves = [entry.name for entry in entries if entry.name.startswith("sharedindex.")]
        for name in ("index", "info/sparse-checkout", *halves):
            self._link(os.path.join(own, name), name)
        self._link_objects(os.path.join(common, "objects"))

    def _link_objects(self, objects: str) -> None:
        """Link the objects, if all of them lie in the repository."""
        if not self._may_borrow:
            if (read_small(os.path.join(objects, "info", "alternates")) or b"").strip():
                raise UnsafeRepositoryError("it borrows objects of another repository (objects/info/alternates)")
            for path in _links_in(objects):
                self._check_place(path)
        self._link(objects, "objects")

    def _link(self, target: str, name: str) -> None:
        if os.path.exists(target):
            self._check_place(target)
            os.symlink(target, os.path.join(self.path, name))

    def _check_place(self, path: str) -> None:
        """Raise UnsafeRepositoryError for what leads out of the repository."""
        real = os.path.realpath(path)
        if not any(is_below(real, place) for place in self.repository.places):
            raise UnsafeRepositoryError(f"{path} leads to {real}, out of the repository")

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.path, name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)


def _config(settings: RepositorySettings, user: Mapping[str, str], branch: str, *, is_bare: bool) -> str:
    is_old = settings.object_format == "sha1" and settings.ref_storage == "files"
    lines = ["[core]", f"repositoryformatversion = {0 if is_old else 1}", f"bare = {'true' if is_bare else 'false'}"]
    lines += [f"{key.partition('.')[2]} = {value}" for key, value in {**user, **settings.scalars}.items()]
    if not is_old:
        lines += ["[extensions]", f"objectformat = {settings.object_format}"]
        lines += ["refstorage = reftable"] if settings.ref_storage == "reftable" else []
    tracking = settings.tracking(branch) if branch else None
    if tracking is not None:
        remote, merge, fetched = tracking
        lines += [f"[branch {_quoted(branch)}]", f"remote = {_quoted(remote)}", f"merge = {_quoted(merge)}"]
        lines += [f"[remote {_quoted(remote)}]", *(f"fetch = {_quoted(spec)}" for spec in fetched)] if fetched else []
    return "\n".join([*lines, ""])


def _links_in(objects: str) -> list[str]:
    """Return the links among the objects and the folders that hold them; git follows each of them."""
    links = []
    with os.scandir(objects) as entries:
        folders = [entry.path for entry in entries]
    for folder in folders:
        if os.path.islink(folder):
            links.append(folder)
        elif os.path.isdir(folder):
            with os.scandir(folder) as entries:
                links += [entry.path for entry in entries if entry.is_symlink()]
    return links


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _temporary_folder(repository: Repository) -> str:
    """Return a folder for temporary files that does not lie in the repository: commands could write there."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        real = os.path.realpath(folder)
        if os.path.isdir(real) and not any(is_below(real, place) for place in repository.places):
            return real
    raise UnsafeRepositoryError("there is no folder for temporary files outside of the repository")
