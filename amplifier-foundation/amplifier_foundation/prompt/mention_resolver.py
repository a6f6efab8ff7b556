"""Know which file a mention means, and whether it may be read.

Where a mention may lead:

| mention | file |
|---|---|
| `@ns:path` | below the root of the namespace |
| `@user:path` | below Amplifier's home; no bundle can take this name, nor the next |
| `@project:path` | below `.amplifier` of the project |
| `@~/path` | below the user's home directory |
| `@/path` | there, if that is inside one of the places below; anywhere if the user typed it |
| `@path` | below the project, else beside the file that mentions it |

If there is no such file, the name with `.md` is tried. `..` is refused. Links are followed, and where they end counts:
it must be inside the project (its whole repository), one of the two homes, or a namespace. That holds for a prompt that
the user typed, too, for the target of a project's link is not what they named.

Amplifier's file of keys is always refused. Well-known stores of credentials in the home directory are refused to every
text that the user did not type: a cloned project must not be able to send them to a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.paths import Home
from amplifier_foundation.prompt.instructions import repository_root

__all__ = ["Located", "MentionError", "MentionResolver", "SourceType"]

SourceType = Literal["namespace", "user", "project", "home", "absolute", "path", "context", "instructions"]

_CREDENTIALS: Final = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".pgpass",
)


class MentionError(FoundationError):
    """A mention leads to no file, or to one that it may not lead to; the text is the reason."""

    code = "mention_unresolved"


class Located(NamedTuple):
    """Where a mention leads: the file as named, and the file that this is in the end, all links followed."""

    path: Path
    real: Path
    source_type: SourceType


class MentionResolver:
    """Know where mentions lead, by the table above. Looks at the disk each time, so nothing of it grows stale."""

    def __init__(self, namespaces: Mapping[str, Path], project: Path, home: Home) -> None:
        self.project: Final = project.resolve()
        self.home: Final = home
        self._namespaces = {name: root.absolute() for name, root in namespaces.items()}

    @property
    def namespaces(self) -> dict[str, Path]:
        """Return the namespaces and their roots."""
        return dict(self._namespaces)

    def register_namespace(self, name: str, root: Path) -> None:
        """Let `@name:` lead below `root`, unless the name is taken: the first registration wins, as in bundles."""
        self._namespaces.setdefault(name, root.absolute())

    def resolve(self, mention: str) -> Path | None:
        """Return the file or folder that a mention, with or without its `@`, leads to; None when it leads to none."""
        try:
            return self.locate(mention).path
        except MentionError:
            return None

    def locate(self, mention: str, *, beside: Path | None = None, typed: bool = False) -> Located:
        """Return where a mention leads; raise MentionError with the reason when it leads nowhere or may not be used.

        `beside` is the folder of the text that mentions it; `typed` says that the user wrote the mention themselves.
        """
        name = mention.removeprefix("@")
        if "\0" in name or not name:
            raise MentionError("names no file")
        if ".." in name.replace(":", "/").split("/"):
            raise MentionError("'..' is not allowed in a mention")
        source_type, paths = self._candidates(name, beside)
        for path in paths:
            for candidate in (path, path.with_name(f"{path.name}.md")) if path.name else (path,):
                if os.path.lexists(candidate):
                    return self.check(candidate, source_type, typed=typed)
        raise MentionError(f"there is no such file: {paths[0]}")

    def check(self, path: Path, source_type: SourceType, *, typed: bool = False) -> Located:
        """Return what an absolute path leads to, links followed; raise MentionError when a prompt may not have it.

        `typed` says that the user named it: by an absolute path, or by putting their own AGENTS.md there.
        """
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a name that no file can have
            raise MentionError(f"{path} cannot be found, or is a link that leads nowhere") from error
        if real == self.home.keys.resolve():
            raise MentionError(f"{path} holds the keys, which never go into a prompt")
        if not typed and _is_credential(real):
            raise MentionError(f"{path} is a store of credentials: only the user may mention it")
        if not (typed and source_type in ("absolute", "instructions")) and not self._is_inside(real):
            target = "" if real == path else f" leads to {real}, which"
            raise MentionError(f"{path}{target} is outside of the project, the home directory and all namespaces")
        return Located(path, real, source_type)

    def _candidates(self, name: str, beside: Path | None) -> tuple[SourceType, list[Path]]:
        """Return the places to look at."""
        namespace, colon, path = name.partition(":")
        if colon:
            relative = path.lstrip("/")
            if namespace == "user":
                return "user", [self.home.path / relative]
            if namespace == "project":
                return "project", [self.project / ".amplifier" / relative]
            if namespace in self._namespaces:
                return "namespace", [self._namespaces[namespace] / relative]
            if not os.path.lexists(self.project / name):
                raise MentionError(f"no namespace {namespace!r}: {self._known(namespace)}")
        if name.startswith("~"):
            return "home", [_below_home(name)]
        if name.startswith("/"):
            return "absolute", [Path(name)]
        return "path", [self.project / name, *([beside / name] if beside is not None else [])]

    def _known(self, namespace: str) -> str:
        return did_you_mean(namespace, [*self._namespaces, "user", "project"])

    def _is_inside(self, real: Path) -> bool:
        """Return whether any text may mention the file; a repository or home that is the whole disk does not count."""
        if real.is_relative_to(self.project):
            return True
        roots = [repository_root(self.project), self.home.path, *_user_home(), *self._namespaces.values()]
        return any(root != Path("/") and real.is_relative_to(root) for root in (root.resolve() for root in roots))


def _below_home(name: str) -> Path:
    if name != "~" and not name.startswith("~/"):
        raise MentionError("the home directory of another user is not looked into: only '@~/…' is")
    for home in _user_home():
        return home / name[1:].lstrip("/")
    raise MentionError("there is no home directory: HOME is not set")


def _user_home() -> list[Path]:
    try:
        return [Path.home()]
    except RuntimeError:
        return []


def _is_credential(real: Path) -> bool:
    for home in (found.resolve() for found in _user_home()):
        if real.is_relative_to(home):
            below = f"{real.relative_to(home).as_posix()}/"
            return below.startswith(tuple(f"{name}/" for name in _CREDENTIALS))
    return False
