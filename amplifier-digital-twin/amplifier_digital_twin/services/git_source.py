"""A repository of the host, looked at without touching it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.git_command import run_git
from amplifier_digital_twin.value import Value

if TYPE_CHECKING:
    from amplifier_kit.guard.git import Repository, RepositorySettings

_HEX: Final = re.compile(r"[0-9a-f]{7,64}")
_BRANCHES: Final = "refs/heads/"


class Head(NamedTuple):
    """A commit, its tree, and its date in seconds."""

    commit: str
    tree: str
    date: int


class GitSource(Value):
    """Where a repository keeps its things."""

    #: The working tree, or the repository itself when it has none.
    path: Path
    git_dir: Path
    #: What the working trees of one repository share: objects, branches, settings.
    common_dir: Path
    is_bare: bool
    object_format: str
    #: The same as `amplifier_kit.guard.git` found it.
    repository: Repository
    #: The repository's own settings, as words: none of them takes effect.
    settings: Mapping[str, str]

    @classmethod
    def at(cls, path: Path) -> GitSource:
        """Find the repository whose working tree is exactly `path`; raise TwinError (`repository_invalid`)."""
        if not path.is_dir():
            raise _invalid(path, "is no folder")
        from amplifier_kit.guard.git import UnsafeRepositoryError, bare_repository, find_repository

        try:
            # A bare repository is one that the profile names itself, never one that is only found.
            found = bare_repository(str(path)) or find_repository(str(path))
            if found is None:
                raise _invalid(path, "is no git repository")
            if found.root not in (None, os.path.realpath(path)):
                raise _invalid(path, f"is a folder inside a repository: name its root, {found.root}")
            settings = _settings(found)
        except UnsafeRepositoryError as error:
            raise _invalid(path, f"is not read: {error}") from error
        if settings.is_bare and found.git_dir == found.common_dir:
            found = found._replace(root=None)
        source = cls(
            path,
            Path(found.git_dir),
            Path(found.common_dir),
            found.root is None,
            settings.object_format,
            found,
            dict(settings.entries),
        )
        source.ask("rev-parse", "--git-dir")
        return source

    def ask(self, *arguments: str, accepted: tuple[int, ...] = (0,), stdin: bytes = b"") -> str:
        """Return what git says of the repository; only for commands that read. No setting of it takes effect."""
        from amplifier_kit.guard.git import PrivateGitDir, UnsafeRepositoryError, find_git

        try:
            # The profile names the repository, so it may borrow objects from others as it does for its owner.
            with PrivateGitDir(self.repository, find_git(outside=[str(self.path)]), may_borrow=True) as private:
                environment = private.environment
                said = run_git(arguments, environment=environment, accepted=accepted, stdin=stdin, outside=[self.path])
        except UnsafeRepositoryError as error:
            raise _invalid(self.path, f"is not read: {error}") from error
        return said.decode("utf-8", "surrogateescape")

    def refs(self) -> dict[str, tuple[str, str]]:
        """Return every branch and tag that leads to a commit: its own object and that commit."""
        form = "--format=%(objectname) %(objecttype) %(*objectname) %(*objecttype) %(refname)"
        found = {}
        for line in self.ask("for-each-ref", form, "refs/heads", "refs/tags").splitlines():
            own, kind, rest = line.split(" ", 2)
            peeled, peeled_kind, name = rest.split(" ", 2)
            if "commit" in (kind, peeled_kind):
                found[name] = (own, peeled or own)
        return found

    def branch(self) -> str | None:
        """Return the full name of the branch that is checked out; None for a detached head."""
        return self.ask("symbolic-ref", "-q", "HEAD", accepted=(0, 1)).strip() or None

    def head(self) -> Head | None:
        """Return the commit that is checked out; None before the first one."""
        found, _, content = self.ask("cat-file", "--batch", stdin=b"HEAD\n").partition("\n")
        if found.endswith(" missing"):
            return None
        headers = content.partition("\n\n")[0].splitlines()
        tree = next(line.removeprefix("tree ") for line in headers if line.startswith("tree "))
        committer = next(line for line in headers if line.startswith("committer "))
        return Head(found.partition(" ")[0], tree, int(committer.rsplit(" ", 2)[1]))

    def trees(self, commit: str) -> frozenset[str]:
        """Return the names of all trees of a commit, its own not among them."""
        lines = self.ask("ls-tree", "-d", "-r", "-z", commit).split("\0")
        facts = (line.partition("\t")[0].split(" ") for line in lines if line)
        return frozenset(name for _, kind, name in facts if kind == "tree")

    def resolve(self, ref: str) -> tuple[str, str, str]:
        """Return the full name (empty for a bare commit), the object and the commit of a ref.

        A branch wins over a tag, and that over a branch that was only fetched. Raises TwinError (`ref_unknown`).
        """
        refs = self.refs()
        for name in (ref, f"{_BRANCHES}{ref}", f"refs/tags/{ref}"):
            if name in refs:
                return name, *refs[name]
        if not ref.startswith("-") and (commit := self._commit(f"refs/remotes/origin/{ref}")):
            return f"{_BRANCHES}{ref}", commit, commit
        if _HEX.fullmatch(ref) and (commit := self._commit(ref)):
            return "", commit, commit
        import difflib

        known = [name.split("/", 2)[2] for name in refs]
        near = difflib.get_close_matches(ref, known, 3) or known[:5]
        raise TwinError(
            "ref_unknown",
            f"{self.path}: there is no branch, tag or commit {ref!r}",
            f"name one that is there ({', '.join(near) or 'there is none yet'}), or `worktree`",
        )

    def _commit(self, name: str) -> str:
        return self.ask("rev-parse", "-q", "--verify", f"{name}^{{commit}}", accepted=(0, 1, 128)).strip()


def _settings(found: Repository) -> RepositorySettings:
    from amplifier_kit.guard.git import GitMissingError, find_git, read_repository_settings

    try:
        return read_repository_settings(
            find_git(outside=[found.root or found.git_dir]), found.git_dir, found.common_dir
        )
    except GitMissingError as error:
        raise TwinError("git_missing", "git is not installed on this machine", "install git and try again") from error


def _invalid(path: Path, why: str) -> TwinError:
    return TwinError("repository_invalid", f"{path} {why}", "name the root of a git working tree in `repositories`")
