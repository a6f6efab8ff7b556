"""The file system of one universe: its layers, and where its changes go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from amplifier_digital_twin.embedded.chores import copy_tree, remove_trees
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.layers import Kept, check_name, make_empty
from amplifier_digital_twin.embedded.staged import Overlay
from amplifier_digital_twin.errors import TwinError

#: Nothing that a kernel may choose otherwise: layers made on one must mean the same on the next.
_TRUSTED: Final = "redirect_dir=off,metacopy=off,index=off,xino=off"
_USER: Final = "userxattr,index=off,xino=off"


def overlay_options(ids: IdMap) -> str:
    """Return how layers of this id map are mounted: only root of the host may keep its marks in trusted attributes."""
    return _TRUSTED if ids.kind == "range" else _USER


@dataclass
class Tree:
    """Layers below `folder` and in the cache, seen as one; without overlays a copy of them all."""

    folder: Path
    ids: IdMap
    has_overlay: bool
    #: The files of every start: above every kept layer.
    generated: Path
    #: Accounts, tools, base, topmost first: below every kept layer.
    ground: list[Path]
    #: Kept layers to start from, topmost first; in a copy the topmost is all there is.
    stack: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Remember where it started."""
        self._first = list(self.stack)

    @property
    def upper(self) -> Path:
        """Return where changes go."""
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        """Return the folder that the kernel needs beside it."""
        return self.folder / "work"

    def overlay(self) -> Overlay | None:
        """Return how to mount it; nothing when it is a copy."""
        if not self.has_overlay:
            return None
        return Overlay([self.generated, *self.stack, *self.ground], self.upper, self.work, overlay_options(self.ids))

    def binds(self) -> Mapping[str, Path]:
        """Return what must be seen as `/tmp/root` when it is a copy."""
        return {} if self.has_overlay else {"root": self.upper}

    async def clear(self) -> None:
        """Make it as it is at the start, or at the snapshot gone back to; nothing may run in it."""
        await remove_trees([self.upper, self.work], self.ids)
        make_empty(self.upper, self.ids)
        make_empty(self.work, self.ids)
        if self.has_overlay:
            return
        for layer in [self.generated, *(self.stack[:1] or self.ground)][::-1]:
            await copy_tree(layer, self.upper, self.ids)

    async def keep(self, kept: Kept, *, replaces: bool) -> None:
        """Keep it as it is."""
        await kept.keep(self.stack if self.has_overlay else [], self.upper, self.ids, replaces=replaces)

    async def become(self, kept: Kept) -> None:
        """Keep it as it is, and start from that from now on; nothing may run in it."""
        if self.has_overlay and not self.stack:
            await kept.take(self.upper, self.ids)
        else:
            await self.keep(kept, replaces=False)
        self._first = kept.stack()
        self.stack = list(self._first)

    def snapshot(self, name: str) -> Kept:
        """Return a snapshot of this universe, kept or to be."""
        return Kept(self.folder / "snapshots" / check_name(name))

    def go_back(self, name: str | None) -> None:
        """Choose what `clear` makes: a snapshot, or the start. Raises TwinError for a snapshot that is not kept."""
        if name is None:
            self.stack = list(self._first)
            return
        kept = self.snapshot(name)
        if not kept.is_there:
            names = sorted(path.name for path in kept.folder.parent.glob("[!.]*"))
            raise TwinError(
                "snapshot_missing",
                f"there is no snapshot {name!r}",
                f"use one of {', '.join(names)}" if names else "make one with `snapshot`",
            )
        self.stack = kept.stack()
