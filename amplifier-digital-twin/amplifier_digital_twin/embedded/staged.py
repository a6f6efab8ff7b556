"""A program that runs on a stage of its own: started, waited for and ended from the event loop."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Self

from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.passage import write_all
from amplifier_digital_twin.value import Value

_SCRIPT: Final = Path(__file__).with_name("stage.py")
#: What programs on a stage know of the host's environment.
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
#: How much of what a program says on stderr is kept.
_MAX_WORDS: Final = 16 * 1024


class Overlay(Value):
    """Layers to be seen as one tree, topmost first, and where changes go."""

    lower: Sequence[Path]
    upper: Path
    work: Path
    options: str


class Stage(Value):
    """What a program is to find around it."""

    ids: IdMap | None = None
    #: Name below `/tmp` → file or folder of the host.
    binds: Mapping[str, Path] = field(default_factory=dict)
    #: Seen as `/tmp/root`.
    overlay: Overlay | None = None
    control_groups: Sequence[Path] = ()
    forbids_user_namespaces: bool = False

    def plan(self, argv: Sequence[str]) -> dict[str, Any]:
        """Return what the stage's script reads."""
        overlay = self.overlay
        return {
            "map": None if self.ids is None else self.ids.plan(),
            "binds": [[str(path), name] for name, path in self.binds.items()],
            "overlay": None
            if overlay is None
            else {
                "lower": [str(path) for path in overlay.lower],
                "upper": str(overlay.upper),
                "work": str(overlay.work),
                "options": overlay.options,
            },
            "control_groups": [str(path) for path in dict.fromkeys(self.control_groups)],
            "forbid_user_namespaces": self.forbids_user_namespaces,
            "argv": list(argv),
            "environment": _ENVIRONMENT,
        }


class Staged:
    """A process on its stage. It ends with this process, at the latest; `close` frees what is held for it."""

    def __init__(self, *, stdin: int = subprocess.DEVNULL, keep: Sequence[int] = ()) -> None:
        """Start it; it waits to be told what to do. `keep` are descriptors it inherits. Raises OSError.

        Call it from the thread that lives longest: the kernel ends the process together with the thread that started
        it.
        """
        self._plan = os.memfd_create("plan", os.MFD_CLOEXEC)
        self._errors = os.memfd_create("stderr", os.MFD_CLOEXEC)
        told, self._telling = os.pipe2(os.O_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(told), str(self._plan), str(os.getpid())],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=[told, self._plan, *keep],
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (self._plan, self._errors, self._telling):
                os.close(descriptor)
            raise
        finally:
            os.close(told)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._is_closed = False

    @classmethod
    def begun(
        cls, stage: Stage, argv: Sequence[str], *, stdin: int = subprocess.DEVNULL, keep: Sequence[int] = ()
    ) -> Self:
        """Start one that is told at once what to do. Raises OSError."""
        process = cls(stdin=stdin, keep=keep)
        process.begin(stage, argv)
        return process

    def begin(self, stage: Stage, argv: Sequence[str]) -> None:
        """Tell it, once, what to find around it and what to become; one that has ended hears nothing."""
        try:
            # Only this very interpreter reads it.
            write_all(self._plan, marshal.dumps(stage.plan(argv)))
            os.write(self._telling, b"!")
        except BrokenPipeError:
            return  # its end says it, to whoever waits for what it does
        finally:
            self._stop_telling()

    def _stop_telling(self) -> None:
        for descriptor in (self._plan, self._telling):
            if descriptor >= 0:
                os.close(descriptor)
        self._plan = self._telling = -1

    @property
    def pid(self) -> int:
        """Return its number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    @property
    def stdout(self) -> int:
        """Return the descriptor to read what it writes from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def words(self) -> str:
        """Return what it has said on stderr."""
        size = os.fstat(self._errors).st_size
        return os.pread(self._errors, _MAX_WORDS, max(0, size - _MAX_WORDS)).decode("utf-8", "replace").strip()

    async def wait(self) -> int:
        """Wait for its end and return its code; cancelling ends the waiting, not the process."""
        await readable(self._pidfd)
        return self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    async def close(self) -> None:
        """End it if it runs, wait until it is gone, and free what was held for it; a second time does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.kill()
        try:
            await self.wait()
        finally:
            self._stop_telling()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            os.close(self._pidfd)
            os.close(self._errors)


async def readable(descriptor: int) -> None:
    """Wait until there is something to read from a descriptor, or it has come to its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def come() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, come)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


async def read_line(descriptor: int) -> bytes:
    """Read from a descriptor up to the end of a line, or to its end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        await readable(descriptor)
        if not (data := os.read(descriptor, 4096)):
            break
        line += data
    return bytes(line)
