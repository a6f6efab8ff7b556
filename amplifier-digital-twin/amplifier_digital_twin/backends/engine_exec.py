"""Run commands in a container through its engine's `exec`.

The environment goes in through stdin, ahead of the command's own input, so that no value is ever on a command line;
the first line that comes out is the number of the command's process, so that it can be ended from outside.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from amplifier_digital_twin.backends.calls import stream
from amplifier_digital_twin.backends.twin import MAX_OUTPUT, Finished, Run, Sink, Stream
from amplifier_digital_twin.errors import TwinError

if TYPE_CHECKING:
    from amplifier_digital_twin.backends.engine import Engine
    from amplifier_digital_twin.embedded.descendants import Process

#: Reads one line of assignments (POSIX: `read` takes not a byte more from a pipe), becomes the command.
_ENTER: Final = """amplifier_twin_newline='
'
if ! cd -- "$1"; then echo cwd; exit 93; fi
shift
echo $$
IFS= read -r amplifier_twin_line || exit 125
eval "$amplifier_twin_line"
exec "$@"
"""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What `timeout` says.
TIMED_OUT: Final = 124
#: The exit code of a command whose folder is not there, before it begins.
_NO_FOLDER: Final = 93
#: Set by shells and engines on their own.
_USUAL: Final = ("HOME", "HOSTNAME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "USER", "container")


class EngineExec:
    """Commands in one container."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        #: Variables that are there without anybody having asked for them.
        self.unwanted: Sequence[str] = ()
        #: Commands that run now, and how many have been started: together they tell whether one was alone.
        self._running = 0
        self._started = 0

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run a command to its end; at its timeout, or when the caller is cancelled, all its processes end."""
        if not run.argv or any("\0" in word for word in (*run.argv, run.cwd)):
            raise TwinError("run_invalid", "there is no command to run, or it holds a zero byte", "give plain words")
        output = _Output(sink)
        line = assignments(run.environment, self.unwanted)
        argv = [*self._engine.exec_argv(self._container, run.user.uid), "/bin/sh", "-c", _ENTER, "sh", run.cwd]
        begin = time.monotonic()
        was_alone = self._running == 0
        self._running += 1
        self._started += 1
        number = self._started

        async def stop() -> None:
            await self._kill(output, is_alone=was_alone and self._started == number)

        try:
            ended = await stream([*argv, *run.argv], line + run.stdin, output.hear, run.timeout, stop)
        finally:
            self._running -= 1
        if output.pid is None and not ended.is_timed_out:
            await self._explain(run, output, ended.returncode)
        code = TIMED_OUT if ended.is_timed_out else ended.returncode
        stdout, stderr = (bytes(output.kept[name]) for name in _STREAMS)
        return Finished(code, stdout, stderr, ended.is_timed_out, output.is_cut, time.monotonic() - begin)

    async def _kill(self, output: _Output, *, is_alone: bool) -> None:
        """End a command's processes from outside: inside, one that forks without end may leave no room for another.

        What has cut itself off from the command is told from what others left only by its age, and so is ended only
        when no other command has run meanwhile.
        """
        from amplifier_kit.threads import in_thread

        init = await self._engine.pid(self._container)
        if output.pid is None or init is None:
            return  # it never came so far, or everything has ended with the container
        inside = output.pid
        if not await in_thread(lambda: end_command(init, inside, is_alone=is_alone)):
            raise TwinError(
                "engine_failed",
                f"{self._container}: not all processes of a command could be ended",
                "reset or destroy the universe",
            )

    async def _explain(self, run: Run, output: _Output, returncode: int) -> None:
        """Raise TwinError for a command that did not even begin."""
        text = bytes(output.kept["stderr"]).decode("utf-8", "replace").strip()[-600:] or f"it ended with {returncode}"
        # An engine may lose what a command wrote that ended at once; its exit code it does not lose.
        if output.head == b"cwd" or (not output.head and returncode == _NO_FOLDER):
            raise TwinError(
                "cwd_missing",
                f"{run.user.name} cannot enter {run.cwd!r} in the twin: {text}",
                "name a folder that is there and that the user may enter",
            )
        if await self._engine.pid(self._container) is None:
            raise TwinError("twin_gone", f"{self._container} does not run: {text}", "reset or destroy the universe")
        raise TwinError(
            "engine_failed",
            f"{self._engine.name} could not run a command in {self._container}: {text}",
            "the image needs /bin/sh; see whether the engine works by itself",
        )


def end_command(init: int, inside: int, *, is_alone: bool) -> bool:
    """End the process that the container of `init` numbers `inside`, with all it started; tell whether all are gone."""
    from amplifier_digital_twin.embedded.descendants import descendants, end_all, orphans, read_table

    root = _find(init, inside, list(read_table().values()))
    if root is None:
        return True

    def find(table: dict[int, Process]) -> list[Process]:
        found = {process.pid: process for process in descendants(table, root.pid)}
        current = table.get(root.pid)
        if current is not None and current.started == root.started and current.state not in ("Z", "X"):
            found[root.pid] = current
        if is_alone:
            found |= {process.pid: process for process in orphans(table, init, root.started)}
        return list(found.values())

    return end_all(find)


def _find(init: int, inside: int, table: Sequence[Process]) -> Process | None:
    """Return the process of a pid namespace that has this number there."""
    try:
        namespace = os.readlink(f"/proc/{init}/ns/pid")
    except OSError:
        return None
    for process in table:
        try:
            if os.readlink(f"/proc/{process.pid}/ns/pid") != namespace:
                continue
            with open(f"/proc/{process.pid}/status", encoding="utf-8", errors="replace") as lines:
                numbers = next((line.split() for line in lines if line.startswith("NSpid:")), [])
        except OSError:
            continue  # gone meanwhile, or somebody else's
        if numbers[-1:] == [str(inside)]:
            return process
    return None


_STREAMS: Final[tuple[Stream, Stream]] = ("stdout", "stderr")


class _Output:
    """What a command writes, without the line that says which process it is."""

    def __init__(self, sink: Sink | None) -> None:
        self._sink = sink
        self.head = b""
        self.has_begun = False
        self.pid: int | None = None
        self.kept: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self.is_cut = False

    def hear(self, name: Stream, data: bytes) -> None:
        if name == "stdout" and not self.has_begun:
            self.head += data
            head, newline, rest = self.head.partition(b"\n")
            if not newline:
                return
            self.head, data = head, rest
            self.has_begun = True
            self.pid = int(head) if head.isdigit() else None
        if not data:
            return
        room = MAX_OUTPUT - len(self.kept[name])
        self.kept[name] += data[:room]
        self.is_cut = self.is_cut or len(data) > room
        if self._sink is not None:
            self._sink(name, data)


def assignments(environment: Mapping[str, str], unwanted: Iterable[str]) -> bytes:
    """Write an environment as one line for the shell inside, which then has exactly that; raise TwinError for names
    that no shell can export.
    """
    parts = []
    gone = sorted({*_USUAL, *unwanted} - set(environment))
    parts += [f"unset {name}" for name in gone if _NAME.fullmatch(name)]
    for name, value in environment.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise TwinError(
                "environment_invalid",
                f"the variable {name!r} cannot be given to a command",
                "use letters, digits and underscores in its name, and no zero byte in its value",
            )
        quoted = value.replace("'", "'\\''").replace("\n", "'\"$amplifier_twin_newline\"'")
        parts.append(f"export {name}='{quoted}'")
    parts.append("unset amplifier_twin_newline amplifier_twin_line")
    return "; ".join(parts).encode("utf-8", "surrogateescape") + b"\n"
