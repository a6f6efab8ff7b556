"""Hold a command that runs: read what it writes, stop it with everything it started, know how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple

from amplifier_kit.guard.processes.command_spec import PATIENCE, CommandSpec, StartError, launch
from amplifier_kit.guard.processes.leftovers import sweep
from amplifier_kit.guard.processes.output import Output

if TYPE_CHECKING:
    from amplifier_kit.guard.processes.launch import Process

_CHUNK: Final = 64 * 1024
#: How long nobody reads after each chunk of a flood, so that it costs neither the loop nor the machine.
_PAUSE: Final = 0.002
#: How often, at most, what is left in a pipe is read once everybody is gone who could write to it.
_LAST_READS: Final = 64
#: Beyond the supervisor's own patience: then it is taken for stuck, and done without.
_SLACK: Final = 2.0
_TICK: Final = 0.002


class Outcome(NamedTuple):
    """How a command ended."""

    #: Negative: the number of the signal that ended it. None: nobody knows, as its supervisor was killed.
    returncode: int | None
    is_timed_out: bool = False
    #: How many processes outlived the command and were stopped.
    left: int = 0
    #: What could not be stopped.
    alive: tuple[int, ...] = ()


class RunningCommand:
    """One command, from its start to the end of all it started; `start` makes it, in a running event loop."""

    def __init__(self, order: CommandSpec, stdout: Output, stderr: Output | None) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._mark = order.mark
        self._grace = order.grace
        #: Whether the supervisor may have numbers for processes that mean nothing here.
        self._is_elsewhere = order.launcher is not None
        self._begun: asyncio.Future[int] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._returncode: int | None = None
        self._left = 0
        self._alive: tuple[int, ...] = ()
        self._is_weak = self._is_done = False
        self._reports = b""
        self._collected: asyncio.Task[None] | None = None
        self._process: Process
        launched = launch(order, has_stderr=stderr is not None)
        self._process, self._control = launched.process, launched.control
        self._report = launched.report
        self._streams: dict[int, Output] = {launched.stdout: stdout}
        if stderr is not None and launched.stderr is not None:
            self._streams[launched.stderr] = stderr
        self._paused: dict[int, asyncio.TimerHandle] = {}
        loop.add_reader(self._report, self._on_report)
        for source in self._streams:
            loop.add_reader(source, self._on_output, source)

    async def started(self) -> int:
        """Return the number of the command's process; raises StartError when it could not be started."""
        return await asyncio.shield(self._begun)

    def check_start(self) -> None:
        """Raise StartError when the command is known not to have been started."""
        error = self._begun.exception() if self._begun.done() else None
        if isinstance(error, StartError) and error.number is not None:
            raise error

    @property
    def has_no_supervisor(self) -> bool:
        """Tell, once it is over, whether it never began because what was to run the supervisor has failed."""
        # A supervisor that its own command kills before it has reported anything ends otherwise: by a signal.
        return self._never_began and self._process.returncode is not None and 0 < self._process.returncode < 128

    @property
    def _never_began(self) -> bool:
        error = self._begun.exception() if self._begun.done() else None
        return isinstance(error, StartError) and error.number is None

    @property
    def is_over(self) -> bool:
        """Tell whether the command and everything it started has ended and its output is complete."""
        return self._collected is not None and self._collected.done()

    @property
    def has_ended(self) -> bool:
        """Tell whether the command itself has ended; processes it started may go on."""
        return self._ended.done() or self._over.done()

    @property
    def outcome(self) -> Outcome:
        """Return what is known of the end by now."""
        return Outcome(self._returncode, False, self._left, self._alive)

    async def wait(self) -> Outcome:
        """Wait until nothing of the command is left."""
        await asyncio.wait([self._over])
        await self._collect()
        return self.outcome

    async def stop(self) -> Outcome:
        """End the command and all it started, and return when they are gone, or cannot be made to go."""
        self._let_go()
        if self._process.poll() is None:
            # The command may have made its own supervisor stand still.
            self._process.send_signal(signal.SIGCONT)
        await asyncio.wait([self._over], timeout=self._grace + PATIENCE + _SLACK)
        await self._collect()
        return self.outcome

    def _let_go(self) -> None:
        """Close the line to the supervisor, who takes that as the word to stop everything."""
        if self._control is not None:
            os.close(self._control)
            self._control = None

    def _on_report(self) -> None:
        try:
            data = os.read(self._report, 4096)
        except BlockingIOError:
            return
        if data:
            *lines, self._reports = (self._reports + data).split(b"\n")
            for line in lines:
                self._heed(*line.decode().split())
            return
        self._loop.remove_reader(self._report)
        if not self._begun.done():
            self._begun.set_exception(StartError("supervisor", None))
        self._begun.exception()  # looked at: not everybody asks
        if not self._over.done():
            self._over.set_result(None)

    def _heed(self, word: str, *rest: str) -> None:
        if word == "started" and not self._begun.done():
            self._begun.set_result(self._process.pid if self._is_elsewhere else int(rest[0]))
        elif word == "failed" and not self._begun.done():
            self._begun.set_exception(StartError(rest[0], int(rest[1])))
        elif word == "ended":
            self._returncode = int(rest[0])
            self._ended.set_result(None)
        elif word == "left":
            self._left = int(rest[0])
        elif word == "alive" and self._is_elsewhere:
            # Looked for once more from here.
            self._is_weak = True
        elif word == "alive":
            self._alive = tuple(map(int, rest))
        elif word == "weak":
            self._is_weak = True
        elif word == "done":
            self._is_done = True

    def _on_output(self, source: int) -> None:
        output = self._streams[source]
        if self._read(source) and output.is_flood:
            self._loop.remove_reader(source)
            self._paused[source] = self._loop.call_later(_PAUSE, self._go_on, source)

    def _go_on(self, source: int) -> None:
        del self._paused[source]
        if source in self._streams:
            self._loop.add_reader(source, self._on_output, source)

    def _read(self, source: int) -> bool:
        """Take in what there is; return False when there is nothing now, or will never be."""
        try:
            data = os.read(source, _CHUNK)
        except BlockingIOError:
            return False
        if data:
            self._streams[source].feed(data)
            return True
        self._close_stream(source)
        return False

    def _close_stream(self, source: int) -> None:
        self._loop.remove_reader(source)
        if source in self._paused:
            self._paused.pop(source).cancel()
        os.close(source)
        self._streams.pop(source).close()

    async def _collect(self) -> None:
        """Put everything away once; whoever is cancelled meanwhile leaves it to go on."""
        if self._collected is None:
            self._collected = self._loop.create_task(self._put_away())
        await asyncio.shield(self._collected)

    async def _put_away(self) -> None:
        self._let_go()
        if self._never_began:
            # The launcher has failed and is about to exit. A sweep now would kill it, and its exit code would be lost.
            await self._supervisor_ends()
        if not self._is_done or self._is_weak:
            has_supervisor = self._process.poll() is None
            supervisor = self._process.pid if has_supervisor else None
            left = await asyncio.to_thread(sweep, self._mark, supervisor, 1.0)
            self._alive = tuple(sorted({*self._alive, *left}))
        self._loop.remove_reader(self._report)
        os.close(self._report)
        for source in list(self._streams):
            for _ in range(_LAST_READS):
                if not self._read(source):
                    break
            if source in self._streams:
                self._close_stream(source)
        if not await self._supervisor_ends():
            self._process.kill()
            await self._supervisor_ends()  # so that it is no zombie, which nobody else would wait for

    async def _supervisor_ends(self) -> bool:
        for _ in range(int(_SLACK / _TICK)):
            if self._process.poll() is not None:
                return True
            await asyncio.sleep(_TICK)
        return False


def start(order: CommandSpec, stdout: Output, stderr: Output | None = None) -> RunningCommand:
    """Start a command; without `stderr`, its errors go where its output goes.

    Returns at once; raises StartError when not even the supervisor can be started. Whoever starts a command must
    `wait` for it or `stop` it.
    """
    return RunningCommand(order, stdout, stderr)


async def run(order: CommandSpec, stdout: Output, stderr: Output | None = None, *, timeout: float | None) -> Outcome:
    """Run a command to its end, or to the end of its time, and leave nothing of it behind.

    Raises StartError when it cannot be started. A caller that is cancelled gets its CancelledError when everything is
    gone.
    """
    running = start(order, stdout, stderr)
    waiting = asyncio.ensure_future(running.wait())
    try:
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        if done:
            running.check_start()
            return waiting.result()
        outcome = await to_end(running.stop())
        return outcome._replace(is_timed_out=True)
    finally:
        waiting.cancel()
        if not running.is_over:
            await to_end(running.stop())


async def to_end(work: Awaitable[Outcome]) -> Outcome:
    """Await something that must not be interrupted; a cancellation is passed on when it is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain about it
    raise cancelled
