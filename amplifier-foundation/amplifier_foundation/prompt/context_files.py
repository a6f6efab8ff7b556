"""Render files as blocks of a prompt: each content once, with all names that mention it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Final

from amplifier_foundation.prompt.text_files import TextFile, readable_name
from amplifier_kit.struct import Struct

__all__ = ["MAX_FILES", "ContextBlock", "ContextBlocks", "credit"]

#: The most different files in one prompt.
MAX_FILES: Final = 200
_TAG: Final = r"(?i)<(?=\s*/?\s*context_file)"
_ENTITIES: Final = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})


class ContextBlock(Struct):
    """One content and its names."""

    file: TextFile
    credits: list[str] = field(default_factory=list)

    def render(self) -> str:
        """Return the block; neither names nor content can end it or start another.

        Tags of blocks inside the content get `&lt;` in place of their `<`.
        """
        paths = ", ".join(self.credits).translate(_ENTITIES)
        content = re.sub(_TAG, "&lt;", self.file.text)
        return f'<context_file paths="{paths}">\n{content.rstrip()}\n</context_file>'


class ContextBlocks:
    """Collect files in order, each content once, at most MAX_FILES."""

    def __init__(self, limit: int = MAX_FILES) -> None:
        self._limit = limit
        self._blocks: dict[str, ContextBlock] = {}
        #: The names of files beyond the limit, which the collector adds.
        self.left_out: set[str] = set()

    def __iter__(self) -> Iterator[ContextBlock]:
        return iter(self._blocks.values())

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self._blocks) >= self._limit

    def add(self, name: str, file: TextFile) -> bool:
        """Add a file, or its name to the block with the same content; return False if the limit is reached."""
        block = self._blocks.get(file.sha256)
        if block is None:
            if self.is_full:
                return False
            block = self._blocks[file.sha256] = ContextBlock(file)
        if name not in block.credits:
            block.credits.append(name)
        return True

    def render(self) -> str:
        """Return all blocks, and a line with the number of files that were left out, if any."""
        parts = [block.render() for block in self]
        if self.left_out:
            parts.append(f"[{len(self.left_out)} more left out: a prompt takes {self._limit} files]")
        return "\n\n".join(parts)


def credit(mention: str, path: Path) -> str:
    """Return the name of a file in its block: the mention, if any, and the path."""
    shown = readable_name(path)
    return f"{mention} → {shown}" if mention else shown
