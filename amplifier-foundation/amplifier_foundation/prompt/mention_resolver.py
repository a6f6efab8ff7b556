"""Resolve @mentions to paths.

| mention | file |
|---|---|
| `@ns:path` | below the root of the namespace |
| `@user:path` | below Amplifier's home; bundles cannot take this name or the next |
| `@project:path` | below `.amplifier` of the project |
| `@~/path` | below the user's home directory |
| `@/path` | that path |
| `@path` | below the project, else beside the file that mentions it |

If the file does not exist, the name with `.md` is tried. `..` is refused. `access.py` decides whether the file may go
into a prompt. Modules get only paths in the project (its whole repository), in one of the two homes and in namespaces,
links followed; never the key file, nor well-known stores of credentials.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from amplifier_foundation.errors import FoundationError, did_you_mean
from amplifier_foundation.paths import Home
from amplifier_foundation.prompt.instructions import repository_root
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

__all__ = ["Located", "MentionError", "MentionResolver", "SourceType", "is_credential"]

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
    """A mention does not lead to a file, or to one that it may not name; the text is the reason."""

    code = "mention_unresolved"


class Located(FrozenStruct):
    """The path that a mention means, links not followed."""

    path: Path
    source_type: SourceType


class NamespaceRoot(NamedTuple):
    """A namespace as an object with the attributes of a bundle."""

    base_path: Path
    source_base_paths: dict[str, Path]


class MentionResolver:
    """Resolve mentions by the table above, from the disk each time."""

    def __init__(self, namespaces: Mapping[str, Path], project: Path, home: Home) -> None:
        self.project: Final = project.resolve()
        self.home: Final = home
        self._namespaces = {name: root.absolute() for name, root in namespaces.items()}

    @property
    def namespaces(self) -> dict[str, Path]:
        """The namespaces and their roots."""
        return dict(self._namespaces)

    @property
    def bundles(self) -> dict[str, NamespaceRoot]:
        """The same as modules of published bundles read them: objects with `base_path` and `source_base_paths`."""
        return {name: NamespaceRoot(root, {name: root}) for name, root in self._namespaces.items()}

    def register_namespace(self, name: str, root: Path) -> None:
        """Let `@name:` mean files below `root`; the first registration of a name wins, as in bundles."""
        self._namespaces.setdefault(name, root.absolute())

    def resolve(self, mention: str) -> Path | None:
        """Return the file or folder that a mention means, with or without its `@`; None if it does not exist.

        Paths outside of all known places are not returned. The caller must ask the session before it reads the file.
        """
        try:
            path = self.locate(mention).path
            real = path.resolve(strict=True)
        except (MentionError, OSError, RuntimeError, ValueError):
            return None
        if real == self.home.keys.resolve() or is_credential(real) or not self._is_inside(real):
            return None
        return path

    def locate(self, mention: str, *, beside: Path | None = None) -> Located:
        """Return the path that a mention means; raise MentionError, with the reason, if there is none.

        `beside` is the folder of the text that mentions it.
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
                    return Located(candidate, source_type)
        raise MentionError(f"there is no such file: {paths[0]}")

    def _candidates(self, name: str, beside: Path | None) -> tuple[SourceType, list[Path]]:
        """Return the paths to try."""
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
        """Return whether a file is in a known place; a repository or home that is the whole disk does not count."""
        if real.is_relative_to(self.project):
            return True
        roots = [repository_root(self.project), self.home.path, *_user_home(), *self._namespaces.values()]
        return any(root != Path("/") and real.is_relative_to(root) for root in (root.resolve() for root in roots))


def _below_home(name: str) -> Path:
    if name != "~" and not name.startswith("~/"):
        raise MentionError("the home directory of another user cannot be mentioned: use '@~/…' for your own")
    for home in _user_home():
        return home / name[1:].lstrip("/")
    raise MentionError("there is no home directory: HOME is not set")


def _user_home() -> list[Path]:
    try:
        return [Path.home()]
    except RuntimeError:
        return []


def is_credential(real: Path) -> bool:
    """Return whether a file belongs to a well-known store of credentials in the home directory."""
    for home in (found.resolve() for found in _user_home()):
        if real.is_relative_to(home):
            below = f"{real.relative_to(home).as_posix()}/"
            return below.startswith(tuple(f"{name}/" for name in _CREDENTIALS))
    return False
