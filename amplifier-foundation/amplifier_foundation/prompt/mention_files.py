"""Collect the files that a text mentions, the files that these mention, and so on."""

from __future__ import annotations

from collections import deque
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.prompt.access import PLAN, Origin, PromptAccess, ReadDeniedError
from amplifier_foundation.prompt.context_files import ContextBlocks, credit
from amplifier_foundation.prompt.mention_resolver import Located, MentionError, SourceType
from amplifier_foundation.prompt.mentions import find_mentions
from amplifier_foundation.prompt.text_files import UnusableFileError, readable_name
from amplifier_kit.struct import FrozenStruct, Struct

if TYPE_CHECKING:
    from amplifier_foundation.approvals.answered_by import AnsweredBy

__all__ = [
    "MAX_DEPTH",
    "MAX_MENTIONS",
    "MentionDeduplicator",
    "MentionFiles",
    "Resolution",
    "load_mentions",
]

#: A file that the text mentions has depth one.
MAX_DEPTH: Final = 3
#: More different mentions are not followed: most of them would not name a file, and looking takes time.
MAX_MENTIONS: Final = 1000


class Resolution(FrozenStruct):
    """A file that was mentioned and found, and who allowed the read."""

    mention: str
    path: Path
    source_type: SourceType
    sha256: str
    decided_by: AnsweredBy

    def payload(self, *, is_new: bool) -> dict[str, Any]:
        """Return it in the form of the event."""
        return {
            "mention": self.mention,
            "resolved_path": readable_name(self.path),
            "source_type": self.source_type,
            "content_hash": self.sha256,
            "is_new": is_new,
            "decided_by": dict(self.decided_by),
        }


class _Waiting(FrozenStruct):
    mentions: tuple[str, ...]
    beside: Path | None
    depth: int
    origin: Origin


class MentionFiles(Struct):
    """Collect files as blocks, breadth first, so that files mentioned by the text come before those mentioned by files.

    A file that cannot be read is not fatal: `failed` has the reason for each name without a block, and `denied` who
    denied it.
    """

    access: PromptAccess
    depth: int = MAX_DEPTH
    blocks: ContextBlocks = field(default_factory=ContextBlocks)
    failed: dict[str, str] = field(default_factory=dict)
    denied: dict[str, AnsweredBy] = field(default_factory=dict)
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _followed: set[tuple[str, Path | None, Origin]] = field(default_factory=set)
    _taken: set[Path] = field(default_factory=set)
    _found: dict[tuple[str, Path], Resolution] = field(default_factory=dict)

    @property
    def resolutions(self) -> list[Resolution]:
        """The files that were found, each name and file once, in order."""
        return list(self._found.values())

    @property
    def deduplicated_count(self) -> int:
        """How many files were left out because another one has the same content."""
        found = self._found.values()
        return len({item.path for item in found}) - len({item.sha256 for item in found})

    def add_text(self, text: str, origin: Origin) -> None:
        """Collect the files that a text mentions."""
        self.add_mentions(tuple(dict.fromkeys(mention.text for mention in find_mentions(text))), origin)

    def add_mentions(self, mentions: tuple[str, ...], origin: Origin) -> None:
        """Collect the files that these mentions name."""
        self._follow(_Waiting(mentions, None, 0, origin))

    def add_file(
        self,
        name: str,
        path: Path,
        source_type: SourceType,
        origin: Origin,
        *,
        mention: str = "",
        inside: Origin | None = None,
    ) -> None:
        """Collect a file by its absolute path; its block credits `mention` and the path.

        `inside` is the origin of its content, if the path of the file does not decide that.
        """
        self._take(name, mention, Located(path, source_type), 0, origin, inside)

    def follow(self) -> None:
        """Collect the files that collected files mention, down to the greatest depth."""
        while self._waiting:
            self._follow(self._waiting.popleft())

    def _follow(self, waiting: _Waiting) -> None:
        for mention in waiting.mentions:
            key = (mention, waiting.beside, waiting.origin)
            if key in self._followed:
                continue
            if len(self._followed) >= MAX_MENTIONS:
                self.failed.setdefault(mention, f"not followed, nor what comes after it: over {MAX_MENTIONS} mentions")
                return
            self._followed.add(key)
            if waiting.depth >= self.depth:
                self._refuse(mention, f"not followed: more than {self.depth} files deep")
                continue
            try:
                located = self.access.resolver.locate(mention, beside=waiting.beside)
            except MentionError as error:
                self.failed.setdefault(mention, str(error))
                continue
            self._take(mention, mention, located, waiting.depth + 1, waiting.origin)

    def _refuse(self, mention: str, reason: str) -> None:
        """Record why a mention is not followed, unless it was followed elsewhere."""
        if all(mention != name for name, _ in self._found):
            self.failed.setdefault(mention, reason)

    def _take(
        self, name: str, mention: str, located: Located, depth: int, origin: Origin, inside: Origin | None = None
    ) -> None:
        if self.blocks.is_full and located.path not in self._taken:
            self._leave_out(name)
            return
        try:
            read = self.access.read(located.path, origin)
        except ReadDeniedError as error:
            self.failed.setdefault(name, str(error))
            self.denied.setdefault(name, error.decided_by)
            return
        except MentionError as error:
            self.failed.setdefault(name, str(error))
            return
        except UnusableFileError as error:
            self.failed.setdefault(name, f"{readable_name(located.path)}: {error}")
            return
        file = read.file
        if not self.blocks.add(credit(mention, located.path), file):
            self._leave_out(name)
            return
        found = Resolution(name, located.path, located.source_type, file.sha256, read.decided_by)
        self._found.setdefault((name, located.path), found)
        self._taken.add(located.path)
        if file.mentions:
            inner = inside or self.access.nested(origin, read.real)
            self._waiting.append(_Waiting(file.mentions, located.path.parent, depth, inner))

    def _leave_out(self, name: str) -> None:
        self.failed.setdefault(name, f"left out: a prompt takes {len(self.blocks)} files")
        self.blocks.left_out.add(name)


class MentionDeduplicator:
    """The contents that a session has seen; modules get it as `mention_deduplicator`."""

    def __init__(self) -> None:
        self._paths: dict[str, list[Path]] = {}

    def add_file(self, path: Path, content: str) -> bool:
        """Record a content and one of its paths; return whether the content is new."""
        import hashlib

        return self.add_hash(path, hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest())

    def add_hash(self, path: Path, sha256: str) -> bool:
        """Record a content by its hash; return whether it is new."""
        is_new = sha256 not in self._paths
        paths = self._paths.setdefault(sha256, [])
        if path not in paths:
            paths.append(path)
        return is_new

    def get_known_hashes(self) -> set[str]:
        """Return the hashes of all contents."""
        return set(self._paths)

    def get_paths(self, sha256: str) -> list[Path]:
        """Return the paths of a content."""
        return list(self._paths.get(sha256, ()))


def load_mentions(text: str, access: PromptAccess, depth: int = MAX_DEPTH, *, origin: Origin = PLAN) -> MentionFiles:
    """Return the files that `text` mentions, with theirs down to `depth`, and the reason for each that is left out.

    `origin` is that of the text; the mentions in files never count as typed.
    """
    found = MentionFiles(access, depth)
    found.add_text(text, origin)
    found.follow()
    return found
