"""One entrance process, from its start to the end of everything it took inside, driven by callbacks of the event loop.

No task belongs to it: a caller that is cancelled, even twice, leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_digital_twin.backends.twin import MAX_OUTPUT, Sink, Stream

_SCRIPT = Path(__file__).with_name("entrance.py")
_CHUNK = 64 * 1024
#: What is read at once, and how often, of those that a command left behind: they cannot keep the host busy.
_IDLE_CHUNK = 1024 * 1024
_IDLE_PAUSE = 0.05
#: How long the entrance may take to end a command before it is killed itself.
_PATIENCE = 30.0
_F_ADD_SEALS = 1033
#: Sealing itself, shrinking, growing, writing.
_SEALS = 0x1 | 0x2 | 0x4 | 0x8


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a blocking descriptor; raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def memory_file(name: str, content: bytes, is_sealed: bool = True) -> int:
    """Make a file that exists only in memory, to be read from its start, and by nobody changed when sealed.

    The caller closes it.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        if is_sealed:
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Output:
    """One stream of a command: read as fast as it comes, kept up to a limit, told to a sink."""

    def __init__(self, name: Stream, sink: Sink | None, keep: int = MAX_OUTPUT) -> None:
        self.name: Stream = name
        self.kept = bytearray()
        self.is_cut = False
        #: What the sink raised.
        self.failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None
        self._sink = sink
        self._keep = keep
        self._descriptor = -1
        self._is_idle = False
        self._pause: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether somebody may still write."""
        return self._descriptor >= 0

    def open(self, descriptor: int) -> None:
        """Begin to read."""
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def settle(self) -> None:
        """Take what was written until now, and throw away whatever follows."""
        if self._descriptor < 0 or self._is_idle:
            return
        # At the command's end no more than this can have been waiting; a flood from elsewhere is not followed.
        left = fcntl.fcntl(self._descriptor, fcntl.F_GETPIPE_SZ)
        while left > 0 and self._descriptor >= 0:
            taken = self._read()
            if not taken:
                break
            left -= taken
        self._is_idle = True

    def close(self) -> None:
        """Stop reading."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self.on_close()

    def _read(self) -> int:
        try:
            data = os.read(self._descriptor, _IDLE_CHUNK if self._is_idle else _CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        elif self._is_idle:
            self._rest()
        else:
            self._take(data)
        return len(data)

    def _take(self, data: bytes) -> None:
        room = self._keep - len(self.kept)
        self.kept += data[:room] if room < len(data) else data
        self.is_cut = self.is_cut or room < len(data)
        if self._sink is None or self.failure is not None:
            return
        try:
            self._sink(self.name, data)
        except Exception as error:
            self.failure = error
            self.on_failure()

    def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._descriptor)
        self._pause = loop.call_later(_IDLE_PAUSE, self._wake)

    def _wake(self) -> None:
        self._pause = None
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)


class Passage:
    """A running entrance and what it has told."""

    def __init__(
        self, python: str, pidfd: int, request: dict[str, Any], stdin: int, outputs: tuple[Output, Output]
    ) -> None:
        """Start it; `stdin` is closed here. Raise OSError when it cannot be started."""
        self.message: dict[str, Any] = {"kind": "failed", "code": "entrance_failed", "message": "it said nothing"}
        self._loop = asyncio.get_running_loop()
        self._outputs = outputs
        self._done = asyncio.Event()
        self._watchdog: asyncio.TimerHandle | None = None
        self._on_close: Callable[[], None] = lambda: None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Requests hold secrets: in memory, and never among the arguments.
        description = memory_file("request", json.dumps(request).encode("ascii"))
        self._complaints = memory_file("complaints", b"", is_sealed=False)
        try:
            numbers = (theirs.fileno(), pidfd, stdin)
            self._process = subprocess.Popen(
                [python, "-I", "-S", str(_SCRIPT), *map(str, numbers)],
                stdin=description,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=numbers,
                cwd="/",
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                start_new_session=True,
            )
        except BaseException:
            self._control.close()
            os.close(self._complaints)
            raise
        finally:
            theirs.close()
            os.close(description)
            os.close(stdin)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._hear)
        self._loop.add_reader(self._pidfd, self._finish)
        for output in outputs:
            output.on_failure = self.kill
            output.on_close = self._closed

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call when it has ended and nobody can write to its streams any more."""
        self._on_close = callback

    async def ended(self, timeout: float | None) -> None:
        """Wait for the end, no longer than the timeout."""
        try:
            async with asyncio.timeout(timeout):
                await self._done.wait()
        except TimeoutError:
            # Whether time ran out is what the entrance says: the command may have ended in the same moment.
            return

    async def end(self) -> None:
        """End the command, when it runs, and everything that came from it; return when that is done."""
        self.kill()
        await self._done.wait()

    def kill(self) -> None:
        """Ask the entrance to end everything."""
        if self._done.is_set() or self._watchdog is not None:
            return
        self._watchdog = self._loop.call_later(_PATIENCE, self._process.kill)
        try:
            self._control.send(b"kill")
        except OSError:
            # It has ended, or is about to: its pidfd tells.
            return

    def close(self) -> None:
        """Stop reading what the command's remains write; nothing happens while the command itself runs."""
        if self._done.is_set():
            for output in self._outputs:
                output.close()

    def _hear(self) -> bool:
        """Take one message; tell whether there was one."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 65536, 2)
        except (BlockingIOError, ConnectionResetError):
            return False
        if not data:
            self._loop.remove_reader(self._control)
            return False
        message = json.loads(data)
        if message["kind"] == "streams":
            for output, descriptor in zip(self._outputs, descriptors, strict=True):
                output.open(descriptor)
        else:
            self.message = message
        return True

    def _finish(self) -> None:
        while self._hear():
            pass
        self._loop.remove_reader(self._control)
        self._loop.remove_reader(self._pidfd)
        self._control.close()
        os.close(self._pidfd)
        code = self._process.wait()
        if code != 0:
            complaint = os.pread(self._complaints, 4000, 0).decode("utf-8", "replace").strip()
            self.message = {
                "kind": "failed",
                "code": "entrance_failed",
                "message": f"it ended with {code}: {complaint}",
            }
        os.close(self._complaints)
        if self._watchdog is not None:
            self._watchdog.cancel()
        for output in self._outputs:
            output.settle()
        self._done.set()
        self._closed()

    def _closed(self) -> None:
        if self._done.is_set() and not any(output.is_open for output in self._outputs):
            self._on_close()
