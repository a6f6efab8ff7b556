"""Read from git's config files the few settings that only decide how files are compared and named."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from amplifier_kit.guard.git.command import list_config, list_user_config
from amplifier_kit.guard.git.repository import UnsafeRepositoryError, read_small

#: Seconds for git to list a config file.
_TIMEOUT: Final = 10.0
_CONFIG_LIMIT: Final = 4 * 1024 * 1024
_EXCLUDES_LIMIT: Final = 1024 * 1024

Entries = list[tuple[str, str]]

_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "0", ""), "false"),
}
#: The settings that are used, with their values besides booleans. None names a program, a path, a URL or a file.
_SCALARS: Final[Mapping[str, tuple[str, ...]]] = {
    "core.filemode": (),
    "core.ignorecase": (),
    "core.symlinks": (),
    "core.precomposeunicode": (),
    "core.trustctime": (),
    "core.checkstat": ("default", "minimal"),
    "core.autocrlf": ("input",),
    "core.eol": ("lf", "crlf", "native"),
    "core.safecrlf": ("warn",),
    "core.sparsecheckout": (),
    "core.sparsecheckoutcone": (),
}
_NOT_BOOLEAN: Final = frozenset(("core.checkstat", "core.eol"))
#: Repository extensions that make no difference to how we read.
_EXTENSIONS: Final = frozenset(
    (
        *("noop", "noop-v1", "objectformat", "partialclone", "preciousobjects", "refstorage"),
        *("relativeworktrees", "worktreeconfig"),
    )
)
_REF: Final = re.compile(r"refs/(?!.*(?:\.\.|//|@\{))[^\x00-\x20\x7f~^:?*\[\\]+")
_REFSPEC: Final = re.compile(r"\+?(refs/[^\x00-\x20\x7f~^:?\[\\]+):(refs/[^\x00-\x20\x7f~^:?\[\\]+)")
_REMOTE: Final = re.compile(r"[\w.][\w.+-]*")


class UserSettings(NamedTuple):
    """The user's settings that are used in every repository."""

    scalars: Mapping[str, str] = {}
    #: The content of the global ignore file.
    excludes: bytes = b""


class RepositorySettings(NamedTuple):
    """The settings of a repository that are used."""

    object_format: str
    ref_storage: str
    scalars: Mapping[str, str]
    #: The working tree that the repository names; not followed.
    worktree: str | None
    is_bare: bool
    #: Whether objects may be missing, as in a partial clone.
    is_partial: bool
    entries: Entries

    def tracking(self, branch: str) -> tuple[str, str, list[str]] | None:
        """Return the remote of a branch, the remote ref, and the refspecs of the remote."""
        remote = _last(self.entries, f"branch.{branch}.remote") or ""
        merge = _last(self.entries, f"branch.{branch}.merge") or ""
        if not _REF.fullmatch(merge) or (remote != "." and not _REMOTE.fullmatch(remote)):
            return None
        specs = [value for key, value in self.entries if key == f"remote.{remote}.fetch"]
        return remote, merge, [spec for spec in specs if _REFSPEC.fullmatch(spec)]


def read_repository_settings(program: str, git_dir: str, common_dir: str) -> RepositorySettings:
    """Read the config of a repository without following anything in it; raises UnsafeRepositoryError."""
    entries = _entries(program, os.path.join(common_dir, "config"))
    version = _last(entries, "core.repositoryformatversion") or "0"
    extensions = {key.partition(".")[2]: value for key, value in entries if key.startswith("extensions.")}
    if version not in ("0", "1"):
        raise UnsafeRepositoryError(f"the repository has the unknown format version {version[:20]!r}")
    if version == "1" and (unknown := sorted(set(extensions) - _EXTENSIONS)):
        raise UnsafeRepositoryError(f"the repository needs the unknown extension {unknown[0][:50]!r}")
    object_format = extensions.get("objectformat", "sha1").lower() if version == "1" else "sha1"
    ref_storage = extensions.get("refstorage", "files").lower() if version == "1" else "files"
    if object_format not in ("sha1", "sha256") or ref_storage not in ("files", "reftable"):
        raise UnsafeRepositoryError("the repository has an unknown object format or ref storage")
    is_bare = _BOOLEANS.get((_last(entries, "core.bare") or "").lower()) == "true"
    if _BOOLEANS.get(extensions.get("worktreeconfig", "").lower()) == "true":
        entries += _entries(program, os.path.join(git_dir, "config.worktree"))
    is_partial = "partialclone" in extensions or any(key.endswith(".promisor") for key, _ in entries)
    worktree = _last(entries, "core.worktree")
    return RepositorySettings(object_format, ref_storage, _scalars(entries), worktree, is_bare, is_partial, entries)


def read_user_settings(program: str) -> UserSettings:
    """Read the user's settings; empty when git cannot read them."""
    try:
        entries = _parse(list_user_config(program, _TIMEOUT) or b"")
        path = os.path.expanduser(_last(entries, "core.excludesfile") or "")
        if not path:
            config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
            path = os.path.join(config, "git", "ignore")
        excludes = read_small(path, _EXCLUDES_LIMIT, places=()) if os.path.isabs(path) else None
        return UserSettings(_scalars(entries), excludes or b"")
    except (OSError, UnsafeRepositoryError):
        return UserSettings()


def _entries(program: str, path: str) -> Entries:
    """Return the keys and values of a config file, without its includes."""
    data = read_small(path, _CONFIG_LIMIT)
    return list(_listed(program, data)) if data else []


@lru_cache(maxsize=32)
def _listed(program: str, data: bytes) -> tuple[tuple[str, str], ...]:
    try:
        listed = list_config(program, data, _TIMEOUT)
    except OSError as error:
        raise UnsafeRepositoryError(f"the config of the repository cannot be read: {error}") from error
    if listed is None:
        raise UnsafeRepositoryError("the config of the repository cannot be read")
    return tuple(_parse(listed))


def _parse(listed: bytes) -> Entries:
    parts = [item.partition("\n") for item in os.fsdecode(listed).split("\0")]
    return [(key, value if separator else "true") for key, separator, value in parts if key]


def _last(entries: Entries, key: str) -> str | None:
    return next((value for known, value in reversed(entries) if known == key), None)


def _scalars(entries: Entries) -> dict[str, str]:
    """Return the known settings with valid values."""
    found = {}
    for key, value in entries:
        word = value.lower()
        if word in _SCALARS.get(key, ()):
            found[key] = word
        elif key in _SCALARS and key not in _NOT_BOOLEAN and word in _BOOLEANS:
            found[key] = _BOOLEANS[word]
    return found
