"""A repository of the host, looked at without touching it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.git_command import run_git
from amplifier_digital_twin.value import Value

#: Git refuses repositories of another owner, because their settings name programs; none of them is run here.
_ANY_OWNER: Final = (
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={Path('/dev/null')}",
)
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

    @classmethod
    def at(cls, path: Path) -> GitSource:
        """Find the repository whose working tree is exactly `path`; raise TwinError (`repository_invalid`)."""
        if not path.is_dir():
            raise _invalid(path, "is no folder")
        asked = ("--is-bare-repository", "--show-object-format", "--path-format=absolute", "--git-dir")
        try:
            said = run_git([*_ANY_OWNER, "rev-parse", *asked, "--git-common-dir", "--show-prefix"], cwd=path)
        except TwinError as error:
            if error.code != "git_failed":
                raise
            raise _invalid(path, f"is no git repository: {error.message}") from error
        lines = said.decode("utf-8", "surrogateescape").split("\n")
        is_bare, object_format, git_dir, common_dir, prefix = lines[:5]
        if prefix:
            raise _invalid(path, f"is a folder inside a repository: name its root, {str(path)[: -len(prefix)]}")
        return cls(path, Path(git_dir), Path(common_dir), is_bare == "true", object_format)

    def ask(self, *arguments: str, accepted: tuple[int, ...] = (0,), stdin: bytes = b"") -> str:
        """Return what git says of the repository; only for commands that read."""
        said = run_git([*_ANY_OWNER, f"--git-dir={self.git_dir}", *arguments], accepted=accepted, stdin=stdin)
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

    def settings(self) -> Mapping[str, str]:
        """Return the repository's own settings, as words: none of them takes effect."""
        file = self.common_dir / "config"
        if not file.is_file():
            return {}
        listed = run_git(["config", "--file", file, "--list", "-z"]).decode("utf-8", "surrogateescape")
        pairs = (item.partition("\n") for item in listed.split("\0") if item)
        return {name: value if has_value else "true" for name, has_value, value in pairs}

    def _commit(self, name: str) -> str:
        return self.ask("rev-parse", "-q", "--verify", f"{name}^{{commit}}", accepted=(0, 1, 128)).strip()


def _invalid(path: Path, why: str) -> TwinError:
    return TwinError("repository_invalid", f"{path} {why}", "name the root of a git working tree in `repositories`")
