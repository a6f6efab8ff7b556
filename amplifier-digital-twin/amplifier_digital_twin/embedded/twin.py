"""A universe made of namespaces: the process that holds it, and the ways into it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from amplifier_digital_twin.backends.twin import Finished, Run, Sink, Sockets, TwinSpec
from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.bubblewrap import find_bubblewrap, universe_arguments
from amplifier_digital_twin.embedded.chores import remove_trees
from amplifier_digital_twin.embedded.control_groups import remove_groups
from amplifier_digital_twin.embedded.entry import Entry
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.layers import Kept, check_name
from amplifier_digital_twin.embedded.limits import Budget
from amplifier_digital_twin.embedded.passage import memory_file
from amplifier_digital_twin.embedded.sockets import NamespaceSockets
from amplifier_digital_twin.embedded.staged import Stage, Staged, read_line, readable
from amplifier_digital_twin.embedded.tree import Tree
from amplifier_digital_twin.embedded.watch import Watch
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import User

#: How long a universe may take to be there.
_START: Final = 30.0
#: How long bubblewrap may take to see that it holds nothing any more.
_END: Final = 5.0


class EmbeddedTwin:
    """A running universe. Everything in it ends with this process, however this process ends."""

    def __init__(
        self, spec: TwinSpec, ids: IdMap, tree: Tree, budget: Budget, layers: Path, notes: Sequence[str]
    ) -> None:
        """Describe it; `start` makes it run. `layers` is where provisioned layers are kept."""
        self._spec = spec
        self._ids = ids
        self._tree = tree
        self._budget = budget
        self._layers = layers
        self._notes = [*notes, *budget.notes]
        self._holder: Staged | None = None
        self._pid = 0
        self._entry: Entry | None = None
        self._sockets: list[NamespaceSockets] = []
        self._watch: asyncio.Task[None] | None = None
        self._is_destroyed = False
        #: Only one of start, snapshot, reset and destroy at a time.
        self._change = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Return the host's number of the first process inside; 0 when it does not run."""
        return self._pid if self.is_running else 0

    @property
    def is_running(self) -> bool:
        """Tell whether it is there."""
        return self._holder is not None and self._entry is not None and self._holder.is_running

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
        reader, writer = os.pipe()
        try:
            try:
                self._holder = self._hold(writer)
            finally:
                os.close(writer)
            async with asyncio.timeout(_START):
                status = await read_line(reader)
                ready = await read_line(self._holder.stdout) if status else b""
            if ready != b"ready\n":
                raise TwinError(
                    "start_failed",
                    f"the universe {self._spec.id} does not start: {self._holder.words() or 'it ended at once'}",
                    "run `amplifier-digital-twin doctor`; a base system needs /bin/sh",
                )
            self._pid = int(json.loads(status)["child-pid"])
            self._entry = Entry(self._pid)
        except TimeoutError:
            await asyncio.shield(self._stop())
            raise TwinError(
                "start_failed", f"the universe {self._spec.id} did not start within {_START:g} s", "try it again"
            ) from None
        except BaseException:
            await asyncio.shield(self._stop())
            raise
        finally:
            os.close(reader)
        disk, memory = self._spec.limits.disk, self._budget.watched_memory
        watch = Watch(self._tree, self._ids, self._pid, disk=disk, memory=memory, tell=self._note)
        self._watch = asyncio.create_task(watch.keep())

    def _hold(self, status: int) -> Staged:
        stage = Stage(
            ids=self._ids,
            binds=self._tree.binds(),
            overlay=self._tree.overlay(),
            control_groups=self._budget.groups,
            forbids_user_namespaces=self._ids.has_root,
        )
        program = call_filter.filter_program()
        calls = memory_file("calls", program) if program else None
        try:
            arguments = universe_arguments(find_bubblewrap(), self._spec, self._ids, status, calls)
            kept = [status] if calls is None else [status, calls]
            return Staged(stage, arguments, stdin=subprocess.PIPE, keep=kept)
        finally:
            if calls is not None:
                os.close(calls)

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
        sockets = NamespaceSockets(self._pid)
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
        holder, self._holder = self._holder, None
        if holder is not None:
            await end_universe(holder, self._pid)
        self._pid = 0

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)


async def end_universe(holder: Staged, first: int) -> None:
    """Kill the process that holds a universe, and wait for its first process: the kernel lets it go last of all."""
    pidfd = None
    if first:
        try:
            pidfd = os.pidfd_open(first)
        except ProcessLookupError:
            pass  # it has ended already
    try:
        if pidfd is not None:
            # It goes first, so that bubblewrap, whose child it is, can wait for it and goes by itself.
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            try:
                async with asyncio.timeout(_END):
                    await holder.wait()
            except TimeoutError:
                pass  # killed as well, below
        await holder.close()
        if pidfd is not None:
            await readable(pidfd)
    finally:
        if pidfd is not None:
            os.close(pidfd)


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
