"""Read a repository through a temporary git folder: with its objects, refs and index, but none of its settings.

git has no option to ignore a repository's config, and new keys that run a program are found every year. So it is given
a folder with a config that we wrote, and links to the data.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Final

from amplifier_kit.guard.git.command import read_command, read_environment
from amplifier_kit.guard.git.config import RepositorySettings, UserSettings, read_repository_settings
from amplifier_kit.guard.git.repository import Repository, UnsafeRepositoryError, read_small
from amplifier_kit.guard.processes.programs import is_below

_HEAD: Final = re.compile(r"ref: (refs/[^\x00-\x20\x7f]+)|[0-9a-f]{40}|[0-9a-f]{64}")


class PrivateGitDir:
    """A temporary git folder for one repository; a context manager, which removes it."""

    def __init__(
        self, repository: Repository, program: str, user: UserSettings | None = None, *, may_borrow: bool = False
    ) -> None:
        """Create the folder; raises UnsafeRepositoryError, and OSError.

        `may_borrow` allows objects of other repositories (`objects/info/alternates`): for a repository that the user
        has named.
        """
        self.repository = repository
        self._program = program
        self.settings = read_repository_settings(program, repository.git_dir, repository.common_dir)
        self._check_root()
        self.path = tempfile.mkdtemp(prefix="amplifier-git-", dir=_temporary_folder(repository))
        try:
            self._fill(user or UserSettings(), may_borrow)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PrivateGitDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder; the targets of its links stay."""
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def readable(self) -> list[str]:
        """Return the paths that must be visible in a sandbox for git to read the repository."""
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
        # Rename detection reads file contents, which a partial clone may lack.
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

    def _fill(self, user: UserSettings, may_borrow: bool) -> None:
        own, common = self.repository.git_dir, self.repository.common_dir
        head = os.fsdecode(read_small(os.path.join(own, "HEAD")) or b"").strip()
        found = _HEAD.fullmatch(head)
        if found is None:
            raise UnsafeRepositoryError("the HEAD of the repository cannot be read")
        branch = (found[1] or "").removeprefix("refs/heads/")
        config = _config(self.settings, user.scalars, branch, is_bare=self.repository.root is None)
        contents = {"HEAD": os.fsencode(f"{head}\n"), "config": os.fsencode(config), "user-excludes": user.excludes}
        for name, content in contents.items():
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(content)
        os.mkdir(os.path.join(self.path, "info"))
        shared = ["refs", "packed-refs", "shallow", "info/exclude"]
        shared += ["reftable"] if self.settings.ref_storage == "reftable" else []
        for name in shared:
            self._link(os.path.join(common, name), name)
        with os.scandir(own) as entries:
            halves = [entry.name for entry in entries if entry.name.startswith("sharedindex.")]
        for name in ("index", "info/sparse-checkout", *halves):
            self._link(os.path.join(own, name), name)
        objects = os.path.join(common, "objects")
        if not may_borrow:
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
        """Raise UnsafeRepositoryError for a path that leads out of the repository."""
        real = os.path.realpath(path)
        if not any(is_below(real, place) for place in self.repository.places):
            raise UnsafeRepositoryError(f"{path} leads to {real}, out of the repository")


def _config(settings: RepositorySettings, user: Mapping[str, str], branch: str, *, is_bare: bool) -> str:
    version = 0 if settings.object_format == "sha1" and settings.ref_storage == "files" else 1
    lines = ["[core]", f"repositoryformatversion = {version}", f"bare = {'true' if is_bare else 'false'}"]
    lines += [f"{key.partition('.')[2]} = {value}" for key, value in {**user, **settings.scalars}.items()]
    if version:
        lines += ["[extensions]", f"objectformat = {settings.object_format}"]
        lines += ["refstorage = reftable"] if settings.ref_storage == "reftable" else []
    tracking = settings.tracking(branch) if branch else None
    if tracking is not None:
        remote, merge, refspecs = tracking
        lines += [f"[branch {_quote(branch)}]", f"remote = {_quote(remote)}", f"merge = {_quote(merge)}"]
        lines += [f"[remote {_quote(remote)}]", *(f"fetch = {_quote(spec)}" for spec in refspecs)] if refspecs else []
    return "\n".join([*lines, ""])


def _links_in(objects: str) -> list[str]:
    """Return the links among the objects and their folders, all of which git follows."""
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


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _temporary_folder(repository: Repository) -> str:
    """Return a folder for temporary files outside of the repository, where commands could write."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        real = os.path.realpath(folder)
        if os.path.isdir(real) and not any(is_below(real, place) for place in repository.places):
            return real
    raise UnsafeRepositoryError("there is no folder for temporary files outside of the repository")
