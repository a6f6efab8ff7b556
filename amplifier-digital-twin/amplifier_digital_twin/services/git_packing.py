"""Loose objects of a repository, packed once, so that not every clone has to gather them again."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from asyncio.subprocess import Process

#: Starts git with its arguments and its standard input.
Start = Callable[[Sequence[str], BinaryIO], Awaitable["Process"]]

_log: Final = logging.getLogger(__name__)


class GitPacking:
    """Packs what the refs of a bare repository lead to and no pack has, its lender's packs included; once for each."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._tasks: dict[Path, asyncio.Task[None]] = {}

    def begin(self, folder: Path) -> None:
        """Pack a repository in the background; a second time does nothing."""
        if folder not in self._tasks:
            self._tasks[folder] = asyncio.create_task(self._pack(folder))

    async def done(self, folder: Path) -> None:
        """Return when a repository is packed, or cannot be."""
        self.begin(folder)
        # Somebody else may wait for it: a client that goes away must not end it.
        await asyncio.shield(self._tasks[folder])

    async def close(self) -> None:
        """End what is under way; a second time does nothing."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pack(self, folder: Path) -> None:
        argv = [
            f"--git-dir={folder}",
            # It stays on this machine, and is unpacked at once.
            "-c",
            "pack.compression=0",
            "pack-objects",
            "-q",
            "--all",
            "--unpacked",
            "--incremental",
            "--window=0",
        ]
        with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230 - it answers at once
            process = await self._start([*argv, str(folder / "objects" / "pack" / "pack")], nothing)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            _log.warning("%s cannot be packed (git ended with %s): clones take longer", folder, process.returncode)
