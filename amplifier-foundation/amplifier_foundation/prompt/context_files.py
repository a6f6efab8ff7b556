"""Lay out files as blocks of a prompt: each content once, with every name it was asked for by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amplifier_foundation.prompt.text_files import TextFile, readable_name

__all__ = ["MAX_FILES", "ContextBlock", "ContextBlocks", "credit"]

#: More different files do not go into one prompt.
MAX_FILES: Final = 200
_TAG: Final = re.compile(r"<(?=\s*/?\s*context_file)", re.IGNORECASE)
_ENTITIES: Final = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})


@dataclass
class ContextBlock:
    """One content and the names it goes by."""

    file: TextFile
    credits: list[str] = field(default_factory=list)

    def render(self) -> str:
        """Return the block. Nothing in names or content can end it, begin another, or pass for one.

        Tags of blocks inside the content, opening or closing, get `&lt;` in place of their `<`; all else stays as it
        is.
        """
        paths = ", ".join(self.credits).translate(_ENTITIES)
        content = _TAG.sub("&lt;", self.file.text)
        return f'<context_file paths="{paths}">\n{content.rstrip()}\n</context_file>'


class ContextBlocks:
    """Collect files in the order they come, each content once, at most MAX_FILES of them."""

    def __init__(self, limit: int = MAX_FILES) -> None:
        self._limit = limit
        self._blocks: dict[str, ContextBlock] = {}
        #: The names of files that were one too many; whoever collects fills it.
        self.left_out: set[str] = set()

    def __iter__(self) -> Iterator[ContextBlock]:
        return iter(self._blocks.values())

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def is_full(self) -> bool:
        """Return whether no further content is taken."""
        return len(self._blocks) >= self._limit

    def add(self, name: str, file: TextFile) -> bool:
        """Take a file, or credit the block that has the same content; return False when there is no room for it."""
        block = self._blocks.get(file.sha256)
        if block is None:
            if self.is_full:
                return False
            block = self._blocks[file.sha256] = ContextBlock(file)
        if name not in block.credits:
            block.credits.append(name)
        return True

    def render(self) -> str:
        """Return all blocks, and a line that says how many files were left out if any were."""
        parts = [block.render() for block in self]
        if self.left_out:
            parts.append(f"[{len(self.left_out)} more left out: a prompt takes {self._limit} files]")
        return "\n\n".join(parts)


def credit(mention: str, path: Path) -> str:
    """Return how a block names a file: what asked for it and where it lies, only the latter if nothing asked."""
    shown = readable_name(path)
    return f"{mention} → {shown}" if mention else shown
