"""The watch over a universe: it ends what runs inside when that takes more of the disk, or of memory, than it may."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.inhabitants import end_inhabitants, inhabitants
from amplifier_digital_twin.embedded.staged import Stage, Staged, read_line
from amplifier_digital_twin.embedded.tree import Tree

_GAUGE: Final = Path(__file__).with_name("disk_gauge.py")
_HOLDINGS: Final = Path(__file__).with_name("holdings.py")
#: What a universe leaves the host of its disk, in bytes: when there is less, and as much as the universe may write has
#: gone since it started, what it holds may be hidden from everybody.
RESERVE: Final = 512 * 1024 * 1024


#: How long after its start a universe is first looked at, in seconds: what its launch has yet to do goes first.
_FIRST_LOOK: Final = 0.2


class Watch:
    """Looks every second, from the start of a universe to its end."""

    def __init__(
        self,
        tree: Tree,
        ids: IdMap,
        first: int,
        *,
        disk: int | None,
        memory: int | None,
        tell: Callable[[str], None],
    ) -> None:
        """Watch the universe of the process `first`; a limit that is not given is not watched.

        `tell` hears of every limit that was passed. Whoever is in the universe by now is spared: they hold it.
        """
        self._tree = tree
        self._ids = ids
        self._first = first
        self._spared = frozenset(inhabitants(first))
        self._disk = disk
        self._memory = memory
        self._tell = tell
        self._written = 0
        self._nameless = 0
        #: What a copy of the layers took, which the universe has not written, and what the disk had left.
        self._begin: tuple[int, int] | None = None

    async def keep(self) -> None:
        """Look until cancelled; what keeps it from looking is told."""
        try:
            await asyncio.sleep(_FIRST_LOOK)
            await self._keep()
        except* Exception as group:
            reasons = "; ".join(f"{type(error).__name__}: {error}" for error in group.exceptions)
            self._tell(f"limits are not watched any more: {reasons}")

    async def _keep(self) -> None:
        async with asyncio.TaskGroup() as group:
            if self._disk is not None:
                # As root of the host nothing is closed; other users are root only of what they have made inside.
                ids = None if self._ids.kind == "range" else self._ids
                group.create_task(self._read(_GAUGE, [str(self._tree.upper)], ids, self._see_disk))
            if self._disk is not None or self._memory is not None:
                words = [str(self._first), str(self._memory or 0)]
                group.create_task(self._read(_HOLDINGS, words, None, self._see_holdings))

    async def _read(
        self, script: Path, words: list[str], ids: IdMap | None, see: Callable[[int, int], str | None]
    ) -> None:
        """Have a script look, and end what runs inside whenever one of its lines gives a reason to."""
        gauge = Staged.begun(Stage(ids=ids), [sys.executable, "-I", "-S", str(script), *words], stdin=subprocess.PIPE)
        try:
            while line := await read_line(gauge.stdout):
                # There may be more than one, when this process had no time to read: the last is how it is now.
                one, two = line.splitlines()[-1].split()
                if reason := see(int(one), int(two)):
                    await asyncio.to_thread(end_inhabitants, self._first, self._spared)
                    self._tell(f"{reason}; what ran inside was ended")
            self._tell(f"limits are not watched any more: {gauge.words() or f'{script.name} has ended'}")
        finally:
            await completed(gauge.close())

    def _see_disk(self, written: int, free: int) -> str | None:
        if self._begin is None:
            self._begin = (0 if self._tree.has_overlay else written, free)
        self._written = written - self._begin[0]
        if free < RESERVE and self._disk is not None and self._begin[1] - free > self._disk:
            return f"the host's disk has less than {RESERVE} bytes left"
        return self._beyond_disk()

    def _see_holdings(self, memory: int, nameless: int) -> str | None:
        self._nameless = nameless
        if self._memory is not None and memory > self._memory:
            return f"the memory limit of {self._memory} bytes was passed"
        return self._beyond_disk()

    def _beyond_disk(self) -> str | None:
        if self._disk is None or self._written + self._nameless <= self._disk:
            return None
        return f"the disk limit of {self._disk} bytes was passed"
