"""Take over from a config file of git the few settings that decide nothing but how files are compared and named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from amplifier_kit.guard.git.command import list_config, list_user_config
from amplifier_kit.guard.git.repository import UnsafeRepositoryError, read_small

#: How long git may take to read a config file, in seconds.
_SECONDS: Final = 10.0
_CONFIG_LIMIT: Final = 4 * 1024 * 1024
_EXCLUDES_LIMIT: Final = 1024 * 1024

Entries = list[tuple[str, str]]


def _flag(value: str) -> str | None:
    words = {"true": "true", "yes": "true", "on": "true", "1": "true", "": "false"}
    words |= {"false": "false", "no": "false", "off": "false", "0": "false"}
    return words.get(value.lower())


def _one_of(*known: str) -> Callable[[str], str | None]:
    return lambda value: value.lower() if value.lower() in known else _flag(value) if "true" in known else None


#: Nothing that names a program, a path, an address or another file is among these.
_SCALARS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "core.filemode": _flag,
    "core.ignorecase": _flag,
    "core.symlinks": _flag,
    "core.precomposeunicode": _flag,
    "core.trustctime": _flag,
    "core.checkstat": _one_of("default", "minimal"),
    "core.autocrlf": _one_of("true", "false", "input"),
    "core.eol": _one_of("lf", "crlf", "native"),
    "core.safecrlf": _one_of("true", "false", "warn"),
    "core.sparsecheckout": _flag,
    "core.sparsecheckoutcone": _flag,
}
#: Kinds of repositories that are read in the same way as others, as far as they are read here.
_EXTENSIONS: Final = frozenset(
    [
        "noop",
        "noop-v1",
        "objectformat",
        "partialclone",
        "preciousobjects",
        "refstorage",
        "relativeworktrees",
        "worktreeconfig",
    ]
)
_REF: Final = re.compile(r"refs/(?!.*(?:\.\.|//|@\{))[^\x00-\x20\x7f~^:?*\[\\]+")
_REFSPEC: Final = re.compile(r"\+?(refs/[^\x00-\x20\x7f~^:?\[\\]+):(refs/[^\x00-\x20\x7f~^:?\[\\]+)")
_REMOTE: Final = re.compile(r"[\w.][\w.+-]*")


class UserSettings(NamedTuple):
    """What of the user's own settings counts in every repository."""

    scalars: Mapping[str, str] = {}
    #: Patterns of files that the user ignores everywhere.
    excludes: bytes = b""


class RepositorySettings(NamedTuple):
    """What of a repository's settings counts."""

    object_format: str
    ref_storage: str
    scalars: Mapping[str, str]
    #: Where the repository says its files are; followed nowhere.
    worktree: str | None
    is_bare: bool
    #: Whether objects may be missing, as they are fetched when they are needed.
    is_partial: bool
    entries: Entries

    def tracking(self, branch: str) -> tuple[str, str, list[str]] | None:
        """Return the remote that a branch follows, the ref there, and which refs are fetched to where."""
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
    is_bare = _flag(_last(entries, "core.bare") or "") == "true"
    if _flag(extensions.get("worktreeconfig", "")) == "true":
        entries += _entries(program, os.path.join(git_dir, "config.worktree"))
    is_partial = "partialclone" in extensions or any(key.endswith(".promisor") for key, _ in entries)
    worktree = _last(entries, "core.worktree")
    return RepositorySettings(object_format, ref_storage, _scalars(entries), worktree, is_bare, is_partial, entries)


def read_user_settings(program: str) -> UserSettings:
    """Read what counts of the user's own settings; a config that git cannot read says nothing."""
    try:
        entries = _parsed(list_user_config(program, _SECONDS) or b"")
        named = _last(entries, "core.excludesfile")
        path = os.path.expanduser(named) if named else _default_excludes()
        excludes = read_small(path, _EXCLUDES_LIMIT, places=()) if os.path.isabs(path) else None
        return UserSettings(_scalars(entries), excludes or b"")
    except (OSError, UnsafeRepositoryError):
        return UserSettings()


def _default_excludes() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "git", "ignore")


def _entries(program: str, path: str) -> Entries:
    """Return the keys and values of a config file; what it includes is not read."""
    data = read_small(path, _CONFIG_LIMIT)
    return list(_listed(program, data)) if data else []


@lru_cache(maxsize=32)
def _listed(program: str, data: bytes) -> tuple[tuple[str, str], ...]:
    try:
        listed = list_config(program, data, _SECONDS)
    except OSError as error:
        raise UnsafeRepositoryError(f"the config of the repository cannot be read: {error}") from error
    if listed is None:
        raise UnsafeRepositoryError("the config of the repository cannot be read")
    return tuple(_parsed(listed))


def _parsed(listed: bytes) -> Entries:
    found = []
    for item in os.fsdecode(listed).split("\0"):
        key, has_value, value = item.partition("\n")
        if key:
            found.append((key, value if has_value else "true"))
    return found


def _last(entries: Entries, key: str) -> str | None:
    return next((value for known, value in reversed(entries) if known == key), None)


def _scalars(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {}
    for key, value in entries:
        if key in _SCALARS and (read := _SCALARS[key](value)) is not None:
            found[key] = read
    return found
