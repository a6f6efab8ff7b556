"""A fetched source on disk, and the errors of fetching one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from amplifier_foundation.errors import FoundationError
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

#: The kinds of sources there are.
SourceKind = Literal["file", "git", "zip", "http", "package"]


class Pin(NamedTuple):
    """What one source was: its commit, when it has commits, and the hash of its content."""

    commit: str | None
    sha256: str


class Fetched(FrozenStruct):
    """A source that is on disk, complete."""

    #: The source as it was asked for.
    uri: str
    #: The file or folder asked for, with the subdirectory applied.
    path: Path
    #: The root folder of this source; the file itself for a single local file.
    root: Path
    kind: SourceKind
    #: The commit of a git source.
    commit: str | None = None
    #: The content hash of everything below `root`; None for what is local and may change at any time.
    sha256: str | None = None
    #: True for what was found on this machine and not copied: files and installed packages.
    is_local: bool = False


class SourceError(FoundationError):
    """A source cannot be fetched; the message says which, why, and what to do."""

    code = "source_unavailable"


class SourceNotFoundError(SourceError):
    """A source was reached, but what was asked for is not in it."""

    code = "source_not_found"


class OfflineError(SourceError):
    """A source is not in the cache, and the network may not be used."""

    code = "offline"


class NotLockedError(SourceError):
    """A source is missing from the lock file, and only locked sources may be used."""

    code = "not_locked"


class SourceIntegrityError(SourceError):
    """The content of a source is not what the lock file recorded."""

    code = "source_changed"
