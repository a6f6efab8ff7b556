"""Chores with files that belong to the users of a universe: copying, unpacking and removing whole trees.

They run as root of the universe's id map, where nothing of the host is to be seen but its programs and the folders at
hand: what lies in these folders was made inside, and no link in it may lead anywhere else.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded.bubblewrap import chore_arguments, find_bubblewrap
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.staged import Stage, Staged
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.removal import remove_tree

#: How much of what a program says is told on, from its start and from its end: a path in it may be long.
_WORDS: Final = 300


async def copy_tree(source: Path, target: Path, ids: IdMap, *, with_links: bool = False) -> None:
    """Copy what is in a folder into another that is there, with owners, times and an overlay's marks.

    With `with_links` files are not copied but linked: for trees that nobody changes any more.
    """
    # Root's marks are trusted attributes and device nodes: only root of the host can copy those.
    mapped = None if ids.kind == "range" else ids
    common = Path(os.path.commonpath([source, target]))
    if with_links and common != Path("/") and _is_one_system(source, target):
        # A link from one mount to another is refused, even within one file system: one bind must hold both.
        paths = [f"/files/{path.relative_to(common)}" for path in (source, target)]
        await _run(["cp", "-al", "-T", *paths], {"files": common}, mapped, f"copy {source}")
        return
    command = ["cp", "-a", "--reflink=auto", "-T", "/source", "/target"]
    await _run(command, {"source": source, "target": target}, mapped, f"copy {source}")


async def unpack(archive: Path, target: Path, ids: IdMap) -> None:
    """Unpack a tar archive, compressed or not, into a folder that is there and belongs to root inside."""
    owners = ["--numeric-owner", "--same-owner"] if ids.has_root else ["--no-same-owner"]
    words = ["tar", "-x", "-p", *owners, "--exclude=./dev/*", "--exclude=dev/*", "-C", "/target"]
    with archive.open("rb") as file:
        await _run(words, {"target": target}, ids, f"unpack {archive}", stdin=file.fileno())


async def strip_privileges(folder: Path, ids: IdMap) -> None:
    """Take the setuid and setgid bits from all files in a folder: inside they mean nothing, to the host they might."""
    # Each in the folder above it: the whole path of a deep one is longer than the kernel takes.
    words = ["find", "/target", "-xdev", "-type", "f", "-perm", "/6000", "-execdir", "chmod", "ug-s", "--", "{}", "+"]
    await _run(words, {"target": folder}, ids, f"strip {folder}")


async def remove_trees(paths: Sequence[Path], ids: IdMap) -> None:
    """Remove folders and all that is in them, whoever owns it; what is not there is fine."""
    present = [path for path in paths if path.is_symlink() or path.exists()]
    if not present:
        return
    if ids.kind == "range":
        await completed(asyncio.to_thread(_remove_all, present))
        return
    if not await completed(asyncio.to_thread(lambda: all(_is_removed(path) for path in present))):
        left = [path for path in present if path.exists()]
        names = {f"tree{index}": path for index, path in enumerate(left)}
        command = ["find", *(f"/{name}" for name in names), "-xdev", "-mindepth", "1", "-delete"]
        await _run(command, names, ids, f"remove {left[0]}")
        await completed(asyncio.to_thread(_remove_all, left))


def _is_one_system(source: Path, target: Path) -> bool:
    return source.stat().st_dev == target.stat().st_dev


def _remove_all(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            remove_tree(path)
        except OSError as error:
            raise TwinError(
                "files_failed", f"cannot remove {path}: {error}", "see the message; try it again"
            ) from error


def _is_removed(path: Path) -> bool:
    """Remove a tree when this user can; say whether it is gone."""
    try:
        remove_tree(path)
    except OSError:
        return False
    return True


def _shortened(words: str) -> str:
    return words if len(words) <= 2 * _WORDS else f"{words[:_WORDS]} … {words[-_WORDS:]}"


async def _run(
    command: Sequence[str],
    binds: Mapping[str, Path],
    ids: IdMap | None,
    what: str,
    stdin: int = subprocess.DEVNULL,
) -> None:
    """Do a chore to its end; raise TwinError with what the program said when it fails. Cancelling ends it."""
    stage = Stage(ids=ids, binds=binds)
    process = Staged.begun(stage, chore_arguments(find_bubblewrap(), list(binds), command), stdin=stdin)
    try:
        code = await process.wait()
        words = _shortened(process.words())
    finally:
        await completed(process.close())
    if code != 0:
        raise TwinError("files_failed", f"cannot {what}: {words or f'code {code}'}", "see the message; free some space")
