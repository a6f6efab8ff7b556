"""Folders of the cache that are being made: named after whoever makes them, so that what a crash left is known."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

from amplifier_digital_twin.embedded.chores import remove_trees
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.holder import Holder

#: The name of what is not finished starts so.
ASIDE: Final = ".aside-"


def aside_of(folder: Path) -> Path:
    """Return a name beside a folder for what is to become it; nobody else makes the same."""
    maker = Holder.current()
    return folder.with_name(f"{ASIDE}{uuid.uuid4().hex}.{maker.pid}.{maker.ticks}")


def abandoned(cache: Path) -> list[Path]:
    """Return what was being made in a cache of embedded universes by processes that have ended."""
    # Form, kind, name; nothing below is looked at, and no link is followed.
    found = [path for path in cache.glob(f"embedded/*/*/{ASIDE}*") if not _maker_lives(path.name)]
    return sorted(path for path in found if not any(above.is_symlink() for above in path.parents[:3]))


async def sweep(paths: list[Path]) -> None:
    """Remove what was abandoned, whoever inside it belongs to; raise TwinError for what does not go."""
    await remove_trees(paths, IdMap.of_this_user())


def _maker_lives(name: str) -> bool:
    *_, pid, ticks = name.split(".")
    if not (pid.isdigit() and ticks.isdigit()):
        return False
    maker = Holder.of(int(pid))
    return maker is not None and maker.ticks == int(ticks)
