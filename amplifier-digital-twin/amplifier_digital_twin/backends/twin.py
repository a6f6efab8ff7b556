"""What every backend offers: a probe, and a twin that runs commands and takes and gives files."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Protocol

from amplifier_digital_twin.profile.model import Base, Limits, NetworkMode, User
from amplifier_digital_twin.value import Value

Stream = Literal["stdout", "stderr"]
#: Hears what a command writes, while it runs.
Sink = Callable[[Stream, bytes], None]


class Probe(NamedTuple):
    """Say whether a backend can be used here, why not, and what it has: feature → `yes`, or the reason it has not."""

    is_available: bool
    reason: str
    features: Mapping[str, str]


class Finished(NamedTuple):
    """What came of a command: how it ended and what it wrote, cut at `MAX_OUTPUT` with the fact noted."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    is_timed_out: bool
    is_cut: bool
    seconds: float


#: How much of each stream of a command is kept in memory.
MAX_OUTPUT = 8 * 1024 * 1024


class Run(Value):
    """A command to run inside a twin. The environment is complete: nothing is added to it."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    user: User
    cwd: str = "/"
    stdin: bytes = b""
    timeout: float | None = None


class TwinSpec(Value):
    """Everything a backend needs to make a twin."""

    id: str
    #: Private to this universe; the backend keeps in it whatever it must find again.
    folder: Path
    #: Shared by all universes of this user: base systems and provisioned layers.
    cache: Path
    base: Base
    user: User
    limits: Limits
    network: NetworkMode
    hostname: str
    #: Files of every start, by absolute path inside: content and permissions. They win over every layer.
    files: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)
    #: Programs of the host that appear in `/opt/twin/bin`, by name.
    tools: Mapping[str, Path] = field(default_factory=dict)
    #: Name of the provisioned layer to start from, when there is one.
    layer: str | None = None
    require: tuple[str, ...] = ()
    is_strict: bool = True


class Twin(Protocol):
    """A running twin."""

    @property
    def is_running(self) -> bool:
        """Tell whether it is there."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Return what is weaker than asked for, in words."""
        ...

    async def run(self, run: Run, sink: Sink | None = None) -> Finished:
        """Run a command to its end; at its timeout, or when the caller is cancelled, all its processes end."""
        ...

    async def put(self, archive: BinaryIO, user: User, folder: str) -> None:
        """Unpack a tar stream into a folder inside, as that user; numeric owners count only for root."""
        ...

    async def get(self, paths: Sequence[str], user: User, archive: BinaryIO, max_bytes: int) -> None:
        """Write a tar stream of files inside (regular files and folders; globs allowed) to `archive`."""
        ...

    async def sockets(self) -> Sockets:
        """Return the way into the twin's own network."""
        ...

    async def snapshot(self, name: str, cache: bool = False) -> None:
        """Keep the file system as it is under a name: of this universe, or shared as a provisioned layer.

        The latter is the start of this twin from now on, and everything that runs inside ends, as in `reset`.
        """
        ...

    async def reset(self, name: str | None = None) -> None:
        """Go back to a snapshot, or to the start; everything that runs inside ends."""
        ...

    async def destroy(self) -> None:
        """End everything and remove every trace; a second time does nothing."""
        ...


class Sockets(Protocol):
    """Sockets that live in the twin's network and are served by the host."""

    async def listen(self, host: str, port: int) -> socket.socket:
        """Return a listening TCP socket inside."""
        ...

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """Return a connected TCP socket to a port inside; raise OSError when nobody listens."""
        ...

    async def close(self) -> None:
        """Give up the way in; sockets handed out stay."""
        ...


class Backend(Protocol):
    """A way to make twins."""

    name: str

    async def probe(self) -> Probe:
        """Say what can be done here; never raises."""
        ...

    async def images(self) -> Sequence[str]:
        """Name the base images that can be had."""
        ...

    def expecting(self) -> AbstractAsyncContextManager[None]:
        """Get ready for a twin that will be made in this block; what was not needed is given up at its end."""
        ...

    async def create(self, spec: TwinSpec, progress: Callable[[str], None]) -> Twin:
        """Make and start a twin; raise TwinError, with nothing left behind, when that cannot be done."""
        ...

    async def has_layer(self, cache: Path, layer: str) -> bool:
        """Tell whether a provisioned layer of that name is kept."""
        ...

    async def remove(self, folder: Path, universe: str) -> None:
        """Remove whatever a dead universe left: containers, control groups, layers; never raises for what is gone."""
        ...
