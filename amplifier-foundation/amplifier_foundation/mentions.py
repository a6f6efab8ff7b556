"""Find @mentions in texts and load their files, by the names that published apps and modules import.

A resolver says which path a mention means; here nobody is asked whether a file may be read. Sessions of our own do that
in `prompt/`, whose grammar and form of blocks these functions share.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from amplifier_foundation.paths import Home
from amplifier_foundation.prompt.context_files import ContextBlock, credit
from amplifier_foundation.prompt.mention_files import MAX_DEPTH, MAX_MENTIONS
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_foundation.prompt.text_files import TextFile, TextFiles, UnusableFileError
from amplifier_kit.guard.files.place import FileError, reach

__all__ = [
    "BaseMentionResolver",
    "ContentDeduplicator",
    "ContextFile",
    "MentionResolverProtocol",
    "MentionResult",
    "expand_mentions_in_instruction",
    "format_context_block",
    "format_directory_listing",
    "load_mentions",
    "parse_mentions",
]


@dataclass
class ContextFile:
    """A content, and all paths that have it."""

    content: str
    content_hash: str
    paths: list[Path] = field(default_factory=list)


@dataclass
class MentionResult:
    """What became of one mention."""

    mention: str
    resolved_path: Path | None = None
    #: None when it was not found, cannot be read, or another path with the same content was loaded before.
    content: str | None = None
    error: str | None = None
    is_directory: bool = False
    failure_reason: Literal["not_found", "permission_denied"] | None = None

    @property
    def found(self) -> bool:
        """Return whether the mention leads to a file or folder that can be read."""
        return self.resolved_path is not None and self.error is None


@runtime_checkable
class MentionResolverProtocol(Protocol):
    """Says which path a mention means."""

    def resolve(self, mention: str) -> Path | None:
        """Return the file or folder that a mention means; None if there is none."""


class BaseMentionResolver:
    """Resolve mentions by the bundles of an app, and below one folder.

    `@ns:path` is below the root of the bundle `ns`, `@~/path` in the user's home, `@path` below `base_path`; a name
    without `.md` means the file with it, too. `bundles` may be changed at any time.
    """

    def __init__(self, bundles: Mapping[str, Any] | None = None, base_path: Path | None = None) -> None:
        """Use bundles by namespace, which have `base_path` and `source_base_paths`, and a folder, else the current."""
        self.bundles: dict[str, Any] = dict(bundles or {})
        self.base_path = Path(base_path) if base_path is not None else Path.cwd()

    def register_bundle(self, name: str, bundle: Any) -> None:
        """Let `@name:` mean files of a bundle."""
        self.bundles[name] = bundle

    def resolve(self, mention: str) -> Path | None:
        """Return the file or folder that a mention means, with or without its `@`; None if there is none.

        A path with `..`, or outside of the base folder, both homes and the bundles, is none, as are well-known stores
        of credentials.
        """
        roots = {name: root for name, bundle in self.bundles.items() if (root := _root(bundle, name)) is not None}
        return MentionResolver(roots, self.base_path, Home.find()).resolve(mention)


class ContentDeduplicator:
    """Collect contents, each once, with all their paths."""

    def __init__(self) -> None:
        self._files: dict[str, ContextFile] = {}

    def add_file(self, path: Path, content: str) -> bool:
        """Record a content and one of its paths; return whether the content is new."""
        content_hash = _hash(content)
        is_new = content_hash not in self._files
        paths = self._files.setdefault(content_hash, ContextFile(content, content_hash)).paths
        if path not in paths:
            paths.append(path)
        return is_new

    def get_unique_files(self) -> list[ContextFile]:
        """Return the contents in the order they came."""
        return list(self._files.values())

    def get_known_hashes(self) -> set[str]:
        """Return the hashes of all contents."""
        return set(self._files)

    def is_seen(self, content: str) -> bool:
        """Return whether a content has been recorded."""
        return _hash(content) in self._files


def parse_mentions(text: str) -> list[str]:
    """Return the mentions in a text, with their `@`, each once and in order; code has none."""
    return list(dict.fromkeys(mention.text for mention in find_mentions(text)))


async def load_mentions(
    text: str,
    resolver: MentionResolverProtocol,
    deduplicator: ContentDeduplicator | None = None,
    relative_to: Path | None = None,
    max_depth: int = MAX_DEPTH,
) -> list[MentionResult]:
    """Return what became of the mentions in a text, then of those in the files found, down to `max_depth`.

    `relative_to` is a folder in which a plain path is looked for when the resolver does not find it. Every content is
    recorded in `deduplicator`; a result whose content was there before has none.
    """
    contents = deduplicator if deduplicator is not None else ContentDeduplicator()
    files = TextFiles()
    results: list[MentionResult] = []
    followed: set[tuple[str, Path | None]] = set()
    waiting = deque((mention, relative_to, 1) for mention in parse_mentions(text))
    while waiting and len(followed) < MAX_MENTIONS:
        mention, beside, depth = waiting.popleft()
        if (mention, beside) in followed:
            continue
        followed.add((mention, beside))
        path = resolver.resolve(mention) or _beside(mention, beside)
        file, result = _read(mention, path, files)
        results.append(result)
        if file is None:
            continue
        if contents.add_file(file.path, file.text):
            result.content = file.text
            if depth < max_depth:
                waiting.extend((inner, file.path.parent, depth + 1) for inner in file.mentions)
    return results


async def expand_mentions_in_instruction(
    text: str,
    *,
    resolver: MentionResolverProtocol,
    deduplicator: ContentDeduplicator | None = None,
    relative_to: Path | None = None,
) -> str:
    """Return a text with a block for each file it mentions in front of it; the text itself stays as it is."""
    contents = deduplicator if deduplicator is not None else ContentDeduplicator()
    known = contents.get_known_hashes()
    results = await load_mentions(text, resolver, contents, relative_to)
    names = {result.mention: result.resolved_path for result in results if result.resolved_path is not None}
    fresh = [file for file in contents.get_unique_files() if file.content_hash not in known]
    blocks = _blocks(fresh, names)
    return f"{blocks}\n\n{text}" if blocks else text


def format_context_block(deduplicator: ContentDeduplicator, mention_to_path: Mapping[str, Path] | None = None) -> str:
    """Return a block for each content, which names its paths and the mentions that lead there."""
    return _blocks(deduplicator.get_unique_files(), mention_to_path or {})


def format_directory_listing(path: Path) -> str:
    """Return one line for each entry of a folder, `DIR name` or `FILE name`; raises UnusableFileError."""
    with reach(str(Path(path).absolute())) as place:
        return TextFiles().read(place).text


def _blocks(files: list[ContextFile], mention_to_path: Mapping[str, Path]) -> str:
    return "\n\n".join(ContextBlock(_text_file(file), _credits(file, mention_to_path)).render() for file in files)


def _credits(file: ContextFile, mention_to_path: Mapping[str, Path]) -> list[str]:
    real = {path: path.resolve() for path in file.paths}
    named = {path.resolve(): mention for mention, path in mention_to_path.items()}
    return [credit(named.get(real[path], ""), path) for path in file.paths]


def _text_file(file: ContextFile) -> TextFile:
    return TextFile(file.paths[0] if file.paths else Path(), file.content, file.content_hash)


def _read(mention: str, path: Path | None, files: TextFiles) -> tuple[TextFile | None, MentionResult]:
    if path is None:
        return None, MentionResult(mention, error="there is no such file", failure_reason="not_found")
    try:
        with reach(str(path.absolute())) as place:
            file = files.read(place)
    except (FileError, UnusableFileError, OSError) as error:
        code = getattr(error.__cause__, "code", getattr(error, "code", ""))
        denied = isinstance(error.__cause__ or error, PermissionError) or code == "permission_denied"
        return None, MentionResult(
            mention, path, error=str(error), failure_reason="permission_denied" if denied else "not_found"
        )
    return file, MentionResult(mention, path, is_directory=file.is_folder)


def _beside(mention: str, folder: Path | None) -> Path | None:
    """Return the file that a plain path means in a folder, with or without `.md`."""
    name = mention.removeprefix("@")
    if folder is None or ":" in name or name.startswith(("/", "~")) or ".." in name.split("/"):
        return None
    return next((path for path in (folder / name, folder / f"{name}.md") if path.exists()), None)


def _root(bundle: Any, name: str) -> Path | None:
    """Return the root folder of a namespace."""
    sources = getattr(bundle, "source_base_paths", None) or {}
    root = sources.get(name) or getattr(bundle, "base_path", None)
    return Path(root) if root is not None else None


def _hash(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
