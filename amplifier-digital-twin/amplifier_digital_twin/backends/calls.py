"""Call a program of the host and hear both of its streams while it runs; nothing of it outlives the call."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.backends.twin import Sink, Stream
from amplifier_digital_twin.errors import TwinError

_CHUNK: Final = 64 * 1024
#: How long output may still come after a program has ended: another process may hold the pipe for ever.
_DRAIN: Final = 2.0
#: How much of what an engine says is kept.
_MAX_TEXT: Final = 4 * 1024 * 1024


class Ended(NamedTuple):
    """How a program ended."""

    returncode: int
    is_timed_out: bool


class Answer(NamedTuple):
    """What a program said."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def reason(self) -> str:
        """Return the last words of a program that failed, in one line."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        return " | ".join(lines[-3:])[-800:] or f"it ended with {self.returncode} and said nothing"


def find_program(name: str) -> str | None:
    """Return where a program is, folders of the administrator's programs included; None when it is not installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin")


async def stream(
    argv: Sequence[str],
    stdin: bytes | Path,
    hear: Sink,
    timeout: float | None,
    stop: Callable[[], Awaitable[None]] | None = None,
) -> Ended:
    """Run a program, feed it, and pass on what it writes.

    `stop` is awaited before the program is killed: its time is up, the caller was cancelled, or `hear` raised, which is
    passed on. Raises OSError when it cannot be started.
    """
    process = await _started(argv, stdin)
    feeding = asyncio.ensure_future(_feed(process, stdin)) if isinstance(stdin, bytes) else None
    pumps = [asyncio.ensure_future(_pump(process.stdout, "stdout", hear))]
    pumps.append(asyncio.ensure_future(_pump(process.stderr, "stderr", hear)))
    is_timed_out = False
    try:
        is_timed_out = not await _ended(process, pumps, timeout)
    finally:
        if process.returncode is None:
            await _stop(process, stop)
        for task in (*pumps, *([feeding] if feeding else [])):
            if not task.done():
                task.cancel()
        await asyncio.gather(*pumps, *([feeding] if feeding else []), return_exceptions=True)
        process._transport.close()  # type: ignore[attr-defined]  # else pipes held by others stay open until collected
    for pump in pumps:
        if pump.done() and not pump.cancelled() and (error := pump.exception()):
            raise error
    return Ended(-1 if process.returncode is None else process.returncode, is_timed_out)


async def ask(argv: Sequence[str], *, timeout: float = 120.0, stdin: bytes = b"") -> Answer:
    """Run a program to its end and return what it said; raise TwinError when it hangs or cannot be started."""
    kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}

    def hear(name: Stream, data: bytes) -> None:
        if len(kept[name]) < _MAX_TEXT:
            kept[name] += data

    program = os.path.basename(argv[0])
    try:
        ended = await stream(argv, stdin, hear, timeout)
    except OSError as error:
        raise TwinError(
            "engine_failed", f"{program} cannot be started: {error.strerror}", f"check the installation of {program}"
        ) from error
    if ended.is_timed_out:
        raise TwinError(
            "engine_failed",
            f"{program} {argv[1] if len(argv) > 1 else ''} did not answer within {timeout:g} s",
            f"check that {program} works by itself, or choose another backend",
        )
    out, err = (bytes(kept[name]).decode("utf-8", "replace") for name in ("stdout", "stderr"))
    return Answer(ended.returncode, out, err)


async def _started(argv: Sequence[str], stdin: bytes | Path) -> asyncio.subprocess.Process:
    """Start a program; being cancelled meanwhile ends it again (asyncio itself would hang)."""
    source = await asyncio.to_thread(open, stdin, "rb") if isinstance(stdin, Path) else None
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=source or asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        process = await starting
        await _stop(process, None)
        raise
    finally:
        if source is not None:
            source.close()


async def _ended(
    process: asyncio.subprocess.Process, pumps: Sequence[asyncio.Future[None]], timeout: float | None
) -> bool:
    """Wait until a program has ended and been heard, or hearing it failed; tell whether that was in time."""
    ending = asyncio.ensure_future(process.wait())
    try:
        async with asyncio.timeout(timeout):
            while not ending.done():
                watched = {pump for pump in pumps if not pump.done()} | {ending}
                done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if any(task is not ending and task.exception() is not None for task in done):
                    return True
    except TimeoutError:
        return False
    finally:
        ending.cancel()
    await asyncio.wait(pumps, timeout=_DRAIN)
    return True


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    try:
        for start in range(0, len(data), _CHUNK):
            process.stdin.write(data[start : start + _CHUNK])
            await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it does not want to hear more: its own business
    finally:
        process.stdin.close()


async def _pump(source: asyncio.StreamReader | None, name: Stream, hear: Sink) -> None:
    assert source is not None
    while data := await source.read(_CHUNK):
        hear(name, data)


async def _stop(process: asyncio.subprocess.Process, stop: Callable[[], Awaitable[None]] | None) -> None:
    """Kill a program and what it started, and wait for it, however often the caller is cancelled."""

    async def kill() -> None:
        try:
            if stop is not None:
                await stop()
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it has ended meanwhile
            await process.wait()

    killing = asyncio.ensure_future(kill())
    is_cancelled = False
    while not killing.done():
        try:
            await asyncio.shield(killing)
        except asyncio.CancelledError:
            is_cancelled = True
    killing.result()
    if is_cancelled:
        raise asyncio.CancelledError
