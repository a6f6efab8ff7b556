"""Take addresses of sources apart and build paths of bundles, by the names that published apps import."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from amplifier_foundation.paths import amplifier_home, expanded
from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "ParsedURI",
    "ResolvedSource",
    "construct_agent_path",
    "construct_context_path",
    "find_bundle_root",
    "find_files",
    "get_amplifier_home",
    "normalize_path",
    "parse_uri",
]


class ParsedURI(NamedTuple):
    """The parts of an address as users write it."""

    #: As written, such as `git+https`; `file` for a path, empty for the name of a package or bundle.
    scheme: str
    host: str
    path: str
    #: The branch, tag or commit of a repository, empty elsewhere.
    ref: str
    #: The part of the source that is meant; empty for all of it.
    subpath: str

    @property
    def is_git(self) -> bool:
        """Return whether it is a repository."""
        return self.scheme.startswith("git+")

    @property
    def is_file(self) -> bool:
        """Return whether it is a path on this machine."""
        return self.scheme == "file"

    @property
    def is_http(self) -> bool:
        """Return whether it is a single file to download."""
        return self.scheme in ("http", "https")

    @property
    def is_zip(self) -> bool:
        """Return whether it is an archive."""
        return self.scheme.startswith("zip+")

    @property
    def is_package(self) -> bool:
        """Return whether it is a name, of a package or of a registered bundle."""
        return not self.scheme


class ResolvedSource(NamedTuple):
    """Where a source is on this disk: the part that is meant, and the whole."""

    active_path: Path
    source_root: Path

    @property
    def is_subdirectory(self) -> bool:
        """Return whether only a part of the source is meant."""
        return self.active_path != self.source_root


def parse_uri(uri: str) -> ParsedURI:
    """Return the parts of an address; raises SourceError, which says how to write it."""
    from amplifier_foundation.sources.uri import parse_source

    source = parse_source(uri)
    if source.kind == "package":
        return ParsedURI("", "", source.path, "", source.subdirectory)
    if source.kind == "file":
        return ParsedURI("file", "", source.path, "", source.subdirectory)
    parts = urlsplit(source.url)
    scheme = parts.scheme if source.kind == "http" else f"{source.kind}+{parts.scheme}"
    return ParsedURI(scheme, parts.netloc, parts.path, source.ref, source.subdirectory)


def normalize_path(path: str | Path, relative_to: Path | None = None) -> Path:
    """Return an absolute path without `~` and `..`; a relative one is below `relative_to`, else the current folder."""
    given = expanded(str(path))
    return (given if given.is_absolute() else (relative_to or Path.cwd()) / given).resolve()


def construct_agent_path(base: Path, name: str) -> Path:
    """Return where the agent `name` of a bundle with this root is."""
    return base / "agents" / (name if name.endswith(".md") else f"{name}.md")


def construct_context_path(base: Path, name: str) -> Path:
    """Return where the context file `name` of a bundle with this root is; `context/` may be part of the name."""
    return base / name if name.startswith("context/") else base / "context" / name


async def find_files(base: Path, pattern: str, recursive: bool = True) -> list[Path]:
    """Return the files below a folder whose names match a pattern, sorted; none if there is no such folder."""

    def find() -> list[Path]:
        found = base.rglob(pattern) if recursive else base.glob(pattern)
        return sorted(path for path in found if path.is_file()) if base.is_dir() else []

    return await asyncio.to_thread(find)


async def find_bundle_root(start: Path) -> Path | None:
    """Return the nearest folder, from this one upwards, with a `bundle.md` or `bundle.yaml`; None if there is none."""
    from amplifier_foundation.bundles.anchors import bundle_file_in

    def find() -> Path | None:
        nearest = start if start.is_dir() else start.parent
        return next((folder for folder in (nearest, *nearest.parents) if bundle_file_in(folder) is not None), None)

    return await asyncio.to_thread(find)


def get_amplifier_home() -> Path:
    """Return `$AMPLIFIER_HOME`, else `~/.amplifier`; raises NoHomeError when neither is known."""
    return amplifier_home()
