"""The process that holds a universe: all its namespaces last as long as this one does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from typing import Final

from amplifier_digital_twin.backends.twin import TwinSpec
from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.bubblewrap import find_bubblewrap, universe_arguments
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.passage import memory_file
from amplifier_digital_twin.embedded.staged import Stage, Staged, read_line, readable
from amplifier_digital_twin.errors import TwinError

#: How long a universe may take to be there.
_START: Final = 30.0
#: How long bubblewrap may take to see that it holds nothing any more.
_END: Final = 5.0


class Anchor:
    """Can be started before anything is known of the universe, because that takes time; `close` ends it."""

    def __init__(self) -> None:
        """Start it; it waits. Raises OSError."""
        #: The host's number of the first process inside; 0 as long as it is not known.
        self.pid = 0
        self._status, writer = os.pipe2(os.O_CLOEXEC)
        held = [writer]
        try:
            program = call_filter.filter_program()
            if program:
                held.append(memory_file("calls", program))
            #: What the process inherits, by number: where it tells its status, and the filter for calls.
            self._inherited = tuple(held)
            self._process = Staged(stdin=subprocess.PIPE, keep=held)
        except BaseException:
            os.close(self._status)
            raise
        finally:
            for descriptor in held:
                os.close(descriptor)

    @property
    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.is_running

    async def hold(self, stage: Stage, spec: TwinSpec, ids: IdMap) -> None:
        """Become what holds a universe on this stage, once; raise TwinError, to be closed, when that does not start."""
        status, *calls = self._inherited
        words = universe_arguments(find_bubblewrap(), spec, ids, status, calls[0] if calls else None)
        self._process.begin(stage, words)
        try:
            async with asyncio.timeout(_START):
                told = await read_line(self._status)
                ready = await read_line(self._process.stdout) if told else b""
        except TimeoutError:
            raise TwinError(
                "start_failed", f"the universe {spec.id} did not start within {_START:g} s", "try it again"
            ) from None
        if ready != b"ready\n":
            raise TwinError(
                "start_failed",
                f"the universe {spec.id} does not start: {self._process.words() or 'it ended at once'}",
                "run `amplifier-digital-twin doctor`; a base system needs /bin/sh",
            )
        self.pid = int(json.loads(told)["child-pid"])

    async def close(self) -> None:
        """End it and all that it holds, and wait until that is gone; a second time does nothing."""
        if self._status < 0:
            return
        os.close(self._status)
        self._status = -1
        await self._end()

    async def _end(self) -> None:
        """Wait for the first process inside: the kernel lets it go last of all."""
        pidfd = None
        if self.pid:
            try:
                pidfd = os.pidfd_open(self.pid)
            except ProcessLookupError:
                pass  # it has ended already
        try:
            if pidfd is not None:
                # It goes first, so that bubblewrap, whose child it is, can wait for it and goes by itself.
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                try:
                    async with asyncio.timeout(_END):
                        await self._process.wait()
                except TimeoutError:
                    pass  # killed as well, below
            await self._process.close()
            if pidfd is not None:
                await readable(pidfd)
        finally:
            if pidfd is not None:
                os.close(pidfd)
