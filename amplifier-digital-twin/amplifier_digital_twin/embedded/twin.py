"""A universe made of namespaces: the process that holds it, and the ways into it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from amplifier_digital_twin.backends.twin import Finished, Run, Sink, Sockets, TwinSpec
from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded.anchor import Anchor
from amplifier_digital_twin.embedded.chores import remove_trees
from amplifier_digital_twin.embedded.control_groups import remove_groups
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.layers import Kept, check_name
from amplifier_digital_twin.embedded.limits import Budget
from amplifier_digital_twin.embedded.sockets import NamespaceSockets
from amplifier_digital_twin.embedded.staged import Stage
from amplifier_digital_twin.embedded.tree import Tree
from amplifier_digital_twin.embedded.watch import Watch
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User


class EmbeddedTwin:
    """A running universe. Everything in it ends with this process, however this process ends."""

    def __init__(
        self,
        spec: TwinSpec,
        ids: IdMap,
        tree: Tree,
        budget: Budget,
        layers: Path,
        notes: Sequence[str],
        anchor: Anchor | None = None,
    ) -> None:
        """Describe it; `start` makes it run. `layers` is where provisioned layers are kept.

        An `anchor` that waits is used for the first start; it belongs to this twin from now on.
        """
        self._spec = spec
        self._ids = ids
        self._tree = tree
        self._budget = budget
        self._layers = layers
        self._notes = [*notes, *budget.notes]
        self._waiting = anchor
        self._anchor: Anchor | None = None
        self._entry: Entry | None = None
        self._sockets: list[NamespaceSockets] = []
        self._watch: asyncio.Task[None] | None = None
        self._is_destroyed = False
        #: Only one of start, snapshot, reset and destroy at a time.
        self._change = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Return the host's number of the first process inside; 0 when it does not run."""
        return self._anchor.pid if self._anchor is not None and self.is_running else 0

    @property
    def is_running(self) -> bool:
        """Tell whether it is there."""
        return self._anchor is not None and self._entry is not None and self._anchor.is_running

    @property
    def notes(self) -> Sequence[str]:
        """Return what is weaker than asked for, in words."""
        return tuple(self._notes)

    async def start(self) -> None:
        """Make it run on its tree as it is at the start; raise TwinError, with nothing running, when it cannot."""
        async with self._change:
            await self._tree.clear()
            await self._start()

    async def _start(self) -> None:
        stage = Stage(
            ids=self._ids,
            binds=self._tree.binds(),
            overlay=self._tree.overlay(),
            control_groups=self._budget.groups,
            forbids_user_namespaces=self._ids.has_root,
        )
        waiting, self._waiting = self._waiting, None
        self._anchor = waiting or Anchor()
        try:
            await self._anchor.hold(stage, self._spec, self._ids)
            self._entry = Entry(self._anchor.pid)
        except BaseException:
            await completed(self._stop())
            raise
        disk, memory = self._spec.limits.disk, self._budget.watched_memory
        watch = Watch(self._tree, self._ids, self._anchor.pid, disk=disk, memory=memory, tell=self._note)
        self._watch = asyncio.create_task(watch.keep())

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run a command to its end; at its timeout, or when the caller is cancelled, all its processes end."""
        entry = self._entered(run.user)
        return await entry.run(run, sink, cgroups=self._budget.groups, rlimits=self._budget.rlimits)

    async def put(self, archive: BinaryIO, user: User, folder: str) -> None:
        """Unpack a tar stream into a folder inside, as that user; numeric owners count only for root."""
        entry = self._entered(user)
        await entry.put(archive, user, folder, cgroups=self._budget.groups, rlimits=self._budget.rlimits)

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Write a tar stream of files inside (regular files and folders; globs allowed) to `archive`."""
        entry = self._entered(user)
        await entry.get(paths, user, archive, max_bytes, cgroups=self._budget.groups, rlimits=self._budget.rlimits)

    async def sockets(self) -> Sockets:
        """Return the way into the twin's own network; `reset` makes a new network, and the old sockets lead nowhere."""
        self._entered(self._spec.user)
        sockets = NamespaceSockets(self.pid)
        self._sockets.append(sockets)
        return sockets

    def _entered(self, user: User) -> Entry:
        self._ids.check_user(user, self._spec.user)
        if not self.is_running or self._entry is None:
            raise TwinError(
                "not_running", f"the universe {self._spec.id} does not run any more", "reset it, or launch a new one"
            )
        return self._entry

    async def snapshot(self, name: str, cache: bool = False) -> None:
        """Keep the file system as it is under a name: of this universe, or shared as a provisioned layer.

        What is being written meanwhile may be kept half. A provisioned layer that is there already stays as it is; it
        is the start of this universe from now on, and everything that runs inside ends, as in `reset`.
        """
        async with self._change:
            if not cache:
                await self._tree.keep(self._tree.snapshot(name), replaces=True)
                return
            check_name(name)
            await self._stop()
            await self._tree.become(Kept(self._layers / name))
            await self._tree.clear()
            await self._start()

    async def reset(self, name: str | None = None) -> None:
        """Go back to a snapshot, or to the start; everything that runs inside ends, and so do its sockets."""
        async with self._change:
            if self._is_destroyed:
                raise TwinError("not_running", f"the universe {self._spec.id} is destroyed", "launch a new one")
            self._tree.go_back(name)
            await self._stop()
            await self._tree.clear()
            await self._start()

    async def destroy(self) -> None:
        """End everything and remove every trace; a second time does nothing."""
        async with self._change:
            if self._is_destroyed:
                return
            self._is_destroyed = True
            await self._stop()
            await remove(self._tree.folder, self._budget.groups, self._ids)

    async def _stop(self) -> None:
        """End everything inside and wait until it is gone."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            await one.close()
        entry, self._entry = self._entry, None
        if entry is not None:
            await entry.close()
        anchor, self._anchor = self._anchor, None
        if anchor is not None:
            await anchor.close()

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


async def remove(folder: Path, groups: Sequence[Path], ids: IdMap) -> None:
    """Remove what a universe that has ended leaves; raise TwinError for what does not go."""
    left = await asyncio.to_thread(remove_groups, groups)
    await remove_trees([folder], ids)
    if left:
        raise TwinError(
            "removal_failed",
            f"control groups do not go: {', '.join(map(str, left))}",
            "try `amplifier-digital-twin prune --mine` again",
        )
